"""Clusters without pytest: ``running`` and ``MiniKafkaTestCase``."""

from __future__ import annotations

import asyncio
import threading
import unittest

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from minikafka.kernel.config import ConfigError
from minikafka.testing.cluster import NotInThisPlace
from minikafka.testing.fault_handle import FaultInTest
from minikafka.testing.standalone import MiniKafkaTestCase, running, topic_prefix

pytestmark = pytest.mark.mission("IN-47")


class IdleFault(FaultInTest):
    @property
    def hits(self) -> int:
        return 0

    def wait(self, n: int = 1, timeout: float = 10) -> None: ...

    def remove(self) -> None: ...

    def describe(self) -> str:
        return "an idle fault"


IDLE = IdleFault()


def clusters() -> int:
    return [each.name for each in threading.enumerate()].count("minikafka")


def test_a_cluster_runs_for_a_block() -> None:
    before = clusters()
    with running(brokers=2, settings={"num.partitions": 3}) as kafka:
        assert clusters() == before + 1
        assert list(kafka.brokers) == [1, 2]
        producer = Producer({**kafka.config("confluent"), "log_level": 0})
        with kafka.produces("made", count=1):
            producer.produce("made", b"x")  # created by the broker
            assert producer.flush(20) == 0
        kafka.broker(1).kill()
        kafka.reset()
        assert kafka.broker(1).is_running
    assert clusters() == before


async def test_a_cluster_runs_for_a_block_in_a_loop() -> None:
    before = clusters()
    async with running() as kafka:
        topic = await kafka.aio.topic()
        sent = KafkaProducer(**kafka.config("kafka-python")).send(topic, b"x")
        await asyncio.to_thread(sent.get, 20)
        assert len(await kafka.aio.records(topic, count=1)) == 1
    assert clusters() == before


def test_a_cluster_that_cannot_run_is_refused() -> None:
    before = clusters()
    with pytest.raises(NotInThisPlace, match="methods that block"):
        running(where="simulated")
    with pytest.raises(ValueError, match="no place 'docker'"):
        running(where="docker")
    with pytest.raises(ConfigError), running(settings={"num.partitions": "x"}):
        pass
    assert clusters() == before


def test_an_idle_fault_fails_the_block_that_has_passed() -> None:
    with pytest.raises(AssertionError, match="never struck: an idle fault"), running() as kafka:
        kafka.aio.added_faults.add(IDLE, must_hit=True)
    with running() as kafka:
        kafka.aio.added_faults.add(IDLE, must_hit=False)
    with pytest.raises(ZeroDivisionError), running() as kafka:  # noqa: PT012
        kafka.aio.added_faults.add(IDLE, must_hit=True)
        _ = 1 / 0


class Orders(MiniKafkaTestCase):
    __test__ = False  # ``outcome`` runs it
    brokers = 2
    settings = {"num.partitions": 3}  # noqa: RUF012
    seen: list[str] = []  # noqa: RUF012

    def begin(self) -> None:
        self.seen.append(self.minikafka.bootstrap)
        self.minikafka.create_topic("orders")  # deleted after the last test
        assert self.minikafka.broker(1).is_running

    def test_a_broker_is_killed(self) -> None:
        self.begin()
        self.minikafka.broker(1).kill()

    def test_a_broker_is_stopped(self) -> None:
        self.begin()
        self.minikafka.broker(1).stop()

    def test_with_an_idle_fault(self) -> None:
        self.begin()
        self.minikafka.aio.added_faults.add(IDLE, must_hit=True)

    def test_that_fails_with_an_idle_fault(self) -> None:
        self.begin()
        self.minikafka.aio.added_faults.add(IDLE, must_hit=True)
        self.fail("for another reason")

    def test_that_is_skipped(self) -> None:
        self.minikafka.aio.added_faults.add(IDLE, must_hit=True)
        self.skipTest("not today")


class OrdersInALoop(MiniKafkaTestCase, unittest.IsolatedAsyncioTestCase):
    __test__ = False

    async def test_a_record(self) -> None:
        await self.minikafka.aio.produce(await self.minikafka.aio.topic(), b"x")

    async def test_with_an_idle_fault(self) -> None:
        self.minikafka.aio.added_faults.add(IDLE, must_hit=True)


def outcome(case: type[unittest.TestCase]) -> tuple[int, dict[str, str], list[str]]:
    """Run a test case. Return the number of tests, and the last line and the name of each failure,
    and of each error."""
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    result = unittest.TestResult()
    suite.run(result)
    failed = {test.id().rpartition(".")[2]: text.splitlines()[-1] for test, text in result.failures}
    return result.testsRun, failed, [text for _, text in result.errors]


def test_a_test_case_shares_a_cluster_and_finds_it_whole() -> None:
    before = clusters()
    number, failed, errors = outcome(Orders)
    assert (number, errors) == (5, [])
    idle = (
        "AssertionError: never struck: an idle fault (must_hit=False allows a fault to be unused)"
    )
    assert failed == {
        "test_with_an_idle_fault": idle,
        "test_that_fails_with_an_idle_fault": "AssertionError: for another reason",
    }
    assert len(Orders.seen) == 4
    assert len(set(Orders.seen)) == 1
    assert clusters() == before


def test_a_test_case_runs_coroutines() -> None:
    number, failed, errors = outcome(OrdersInALoop)
    assert (number, list(failed), errors) == (2, ["test_with_an_idle_fault"], [])


def test_topics_are_named_after_a_test() -> None:
    assert topic_prefix("test_it[é/1]") == "test_it---1-"
    assert len(topic_prefix(300 * "x")) == 200
