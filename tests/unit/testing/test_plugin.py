"""The pytest plugin in test runs of its users: marks, shared clusters, simulated time."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

INSTALLED = any(entry.name == "minikafka" for entry in entry_points(group="pytest11"))


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    command = list(options) if INSTALLED else ["-p", "minikafka.testing.plugin", *options]
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *command)


IN_SIMULATED_TIME = """
import asyncio
import pytest
from minikafka.aio import Consumer, Producer
from minikafka.testing import NotInThisPlace

pytestmark = pytest.mark.minikafka(where="simulated", brokers=3, seed=7)

@pytest.fixture
def text():
    return "pear"

@pytest.mark.parametrize("seconds", [10, 3700])
async def test_time_passes(minikafka, text, seconds):
    loop = asyncio.get_running_loop()
    before = loop.time()
    await minikafka.clock.advance(seconds)
    assert seconds <= loop.time() - before < seconds + 1
    topic = await minikafka.aio.topic(partitions=1)
    async with minikafka.aio.produces(topic, count=2) as produced:
        async with Producer(**minikafka.config("minikafka")) as producer:
            await producer.send_and_wait(topic, text.encode())
            await minikafka.aio.broker(await minikafka.aio.leader(topic)).kill()
            await producer.send_and_wait(topic, b"after")
    assert [record.value for record in produced] == [text.encode(), b"after"]
    with pytest.raises(NotInThisPlace, match="methods that block"):
        minikafka.records(topic)
    with pytest.raises(NotInThisPlace, match="clients of other libraries"):
        minikafka.config("confluent")

async def test_that_fails(minikafka):
    await asyncio.sleep(100)
    assert 0

class TestInAClass:
    async def test_a_group(self, minikafka):
        topic = await minikafka.aio.topic()
        await minikafka.aio.produce(topic, b"x")
        settings = {**minikafka.config("minikafka"), "group_id": "g", "topics": [topic]}
        async with Consumer(**settings, auto_offset_reset="earliest") as consumer:
            await anext(consumer)
            await consumer.commit()
            assert (await minikafka.aio.group("g").wait(lag=0, members=1)).state == "Stable"

@pytest.mark.minikafka(where="inside")
def test_elsewhere(minikafka):
    with pytest.raises(NotInThisPlace, match='one with where="simulated" can'):
        minikafka.clock
"""


@pytest.mark.mission("IN-42")
@pytest.mark.parametrize(
    "options", ["-p no:asyncio", "-o asyncio_mode=strict", "-o asyncio_mode=auto"]
)
def test_coroutines_run_in_simulated_time(pytester: pytest.Pytester, options: str) -> None:
    pytester.makepyfile(IN_SIMULATED_TIME)
    result = run(pytester, *options.split())
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*test_that_fails - assert 0*"])


@pytest.mark.mission("IN-42")
def test_a_function_does_not_run_in_simulated_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(minikafka): pass")
    result = run(pytester, "-o", "minikafka_where=simulated")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a test in simulated time is a coroutine function*"])


@pytest.mark.mission("IN-41")
@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ('where="docker"', "no place 'docker'; there are inside, simulated, processes"),
        ("broker=1", "no keyword 'broker'; there are brokers, where, settings, needs, seed, reset"),
    ],
)
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_an_impossible_mark_is_a_usage_error(
    pytester: pytest.Pytester, mark: str, message: str, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.minikafka({mark})
        def test_it(minikafka):
            pass

        def test_another():
            pass
        """
    )
    result = run(pytester, *workers)
    assert result.ret != 0
    assert message in result.stdout.str() + result.stderr.str()
    if workers:
        result.assert_outcomes(passed=1, errors=1)
    else:
        assert result.ret is pytest.ExitCode.USAGE_ERROR


SHARED = """
import threading
import pytest

found = {}

def test_the_default(minikafka):
    found["default"] = minikafka.bootstrap
    assert list(minikafka.brokers) == [1]

@pytest.mark.minikafka(brokers=3)
class TestThree:
    def test_it_breaks_everything(self, minikafka):
        found["three"] = minikafka.bootstrap
        minikafka.create_topic("orders", partitions=3, min_insync_replicas="2")
        minikafka.broker(1).kill()
        minikafka.broker(2).stop()
        assert [minikafka.broker(n).is_running for n in (1, 2, 3)] == [False, False, True]

    def test_it_is_whole_again(self, minikafka):
        assert minikafka.bootstrap == found["three"]
        assert [minikafka.broker(n).is_running for n in (1, 2, 3)] == [True, True, True]
        minikafka.create_topic("orders", replicas=3)  # nothing is left of the other
        minikafka.produce("orders", b"x")
        assert len(minikafka.records("orders", count=1)) == 1

    @pytest.mark.minikafka(settings={"message.max.bytes": 1000})
    def test_other_settings(self, minikafka):
        assert minikafka.bootstrap not in found.values()

@pytest.mark.minikafka(brokers=1)
def test_the_default_again(minikafka, minikafka_inside):
    assert minikafka.bootstrap == found["default"] == minikafka_inside.bootstrap
    threads = [each.name for each in threading.enumerate()]
    assert threads.count("minikafka") == 3

@pytest.mark.minikafka(brokers=2)
def test_a_cluster_that_is_not_restored(minikafka, monkeypatch):
    found["broken"] = minikafka.bootstrap
    async def fail():
        raise OSError("not restored")
    minikafka.cluster.restore = fail

@pytest.mark.minikafka(brokers=2)
def test_it_is_replaced(minikafka):
    assert minikafka.bootstrap != found["broken"]
"""


@pytest.mark.mission("IN-43")
def test_clusters_are_shared_and_healthy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHARED)
    result = run(pytester, "-p", "no:randomly", "--strict-markers")
    result.assert_outcomes(passed=7, errors=1)
    result.stdout.fnmatch_lines(["E * OSError: not restored"])


AS_NEW = """
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

found = {}

def topics(minikafka):
    return set(AdminClient(minikafka.config("confluent")).list_topics(timeout=10).topics)

@pytest.mark.minikafka(brokers=2)
class TestShared:
    def test_it_uses_a_transactional_id(self, minikafka):
        found["bootstrap"] = minikafka.bootstrap
        settings = {**minikafka.config("confluent"), "transactional.id": "billing"}
        Producer(settings).init_transactions(20)
        assert "__transaction_state" in topics(minikafka)

    @pytest.mark.minikafka(reset=True)
    @pytest.mark.parametrize("turn", [1, 2])
    def test_it_is_as_new(self, minikafka, turn):
        assert minikafka.bootstrap == found["bootstrap"]
        assert "__transaction_state" not in topics(minikafka)
        minikafka.broker(1).isolate()
        minikafka.as_version("2.8")

    def test_it_was_left_as_new(self, minikafka):
        assert minikafka.bootstrap == found["bootstrap"]
        assert "__transaction_state" not in topics(minikafka)
"""


@pytest.mark.mission("IN-64")
def test_a_marked_test_finds_its_cluster_as_good_as_new(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(AS_NEW)
    run(pytester, "-p", "no:randomly").assert_outcomes(passed=4)


BOUNDED = """
import threading
import pytest

@pytest.mark.parametrize(
    "brokers", [pytest.param(n, marks=pytest.mark.minikafka(brokers=n)) for n in range(1, 7)]
)
def test_clusters(minikafka, brokers):
    assert len(minikafka.brokers) == brokers
    threads = [each.name for each in threading.enumerate()]
    assert threads.count("minikafka") == min(brokers, 4)
"""


IDLE = """
import pytest
from minikafka.testing import MiniKafkaTestCase

class Idle:
    hits = 0
    removed = 0
    def remove(self):
        Idle.removed += 1
    def describe(self):
        return "an idle fault"

def test_that_has_passed(minikafka):
    minikafka.aio.added_faults.add(Idle(), must_hit=True)

def test_that_may_be_without(minikafka):
    minikafka.aio.added_faults.add(Idle(), must_hit=False)

def test_that_has_failed(minikafka):
    minikafka.aio.added_faults.add(Idle(), must_hit=True)
    assert 0, "another reason"

def test_that_is_skipped(minikafka):
    minikafka.aio.added_faults.add(Idle(), must_hit=True)
    pytest.skip("not today")

class TestOfUnittest(MiniKafkaTestCase):
    def test_it(self):
        self.minikafka.aio.added_faults.add(Idle(), must_hit=True)

    def test_that_may_be_without(self):
        self.minikafka.aio.added_faults.add(Idle(), must_hit=False)

def test_all_are_removed():
    assert Idle.removed == 6
"""


@pytest.mark.mission("IN-46")
def test_an_idle_fault_fails_the_test_that_has_passed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(IDLE)
    result = run(pytester, "-p", "no:randomly")
    result.assert_outcomes(passed=3, failed=3, skipped=1)
    failures = result.stdout.str().partition("= FAILURES =")[2]
    _, first, second = failures.partition("_ TestOfUnittest.")[0].split("_ test_that_has_")
    sentence = "never struck: an idle fault (must_hit=False allows a fault to be unused)"
    assert sentence in first.splitlines()
    assert "plugin.py" not in first  # the sentence is all
    assert "another reason" in second
    assert "never struck" not in second
    assert sentence in failures.partition("_ TestOfUnittest.test_it _")[2]


@pytest.mark.mission("IN-43")
def test_few_clusters_are_kept(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BOUNDED)
    run(pytester).assert_outcomes(passed=6)


@pytest.mark.mission("IN-41")
def test_the_mark_and_all_names_are_documented(pytester: pytest.Pytester) -> None:
    shown = run(pytester, "--markers").stdout.str()
    assert (
        "@pytest.mark.minikafka(brokers=1, where=None, settings={}, needs=(), seed=0, reset=False)"
        in shown
    )
    section = run(pytester, "--fixtures").stdout.str().partition("minikafka.testing.plugin")[2]
    section = section.partition("--- fixtures defined")[0]
    names = [line.split()[0] for line in section.splitlines() if "plugin.py:" in line]
    assert len(names) == 6
    assert all(name.startswith("minikafka") for name in names)
