"""Faults in the requests of a cluster inside the process, as clients see them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.errors import CorruptRecordException, RequestTimedOutError

from minikafka.core.faults.rules import RequestFacts
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.request_faults import RequestFaults

NUMBERS = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(brokers=2, settings={"group.min.session.timeout.ms": 1000}) as running:
        yield running


@pytest.fixture
def faults(cluster: InsideCluster) -> RequestFaults:
    return cluster.request_faults


@pytest.fixture
def topic(cluster: InsideCluster) -> str:
    name = f"t{next(NUMBERS)}"
    cluster.create_topic(name, partitions=2, replication_factor=1)
    return name


def producer(cluster: InsideCluster, **settings: Any) -> confluent_kafka.Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    quick = {"retry.backoff.ms": 1, "linger.ms": 0}
    return confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, **quick, **named})


def delivered(client: confluent_kafka.Producer, topic: str, value: bytes, partition: int) -> Any:
    """Return the error of a record, or None."""
    reports: list[Any] = []
    client.produce(topic, value, partition=partition, on_delivery=lambda e, _: reports.append(e))
    assert client.flush(20) == 0
    return reports[0]


def values(cluster: InsideCluster, topic: str, partition: int, n: int) -> list[bytes | None]:
    """Read ``n`` records, and one more if there is one."""
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    place = confluent_kafka.TopicPartition(topic, partition, 0)
    reader.assign([place])
    end = reader.get_watermark_offsets(place, timeout=10)[1]
    found = [record.value() for record in reader.consume(end, timeout=10)] if end else []
    reader.close()
    assert len(found) == n
    return found


@pytest.mark.mission("IN-20")
def test_one_partition_is_refused_and_the_producer_tries_again(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    client = producer(cluster)
    with faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic, partition=0) as fault:
        assert delivered(client, topic, b"other", 1) is None
        assert fault.hits == 0
        assert delivered(client, topic, b"value", 0) is None
        assert fault.hits == 1
    assert values(cluster, topic, 0, 1) == [b"value"]
    assert len(faults.requests("Produce")) >= 3


@pytest.mark.mission("IN-20")
async def test_aiokafka_tries_again_after_an_error_of_one_partition(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    client = aiokafka.AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, retry_backoff_ms=10, linger_ms=50
    )
    await client.start()
    fault = faults.answer("not_leader_or_follower", api="Produce", topic=topic, partition=0)
    both = [await client.send(topic, b"value", partition=number) for number in (0, 1)]
    await asyncio.gather(*both)
    await client.stop()
    assert fault.hits == 1
    assert values(cluster, topic, 0, 1) == values(cluster, topic, 1, 1) == [b"value"]


@pytest.mark.mission("IN-21")
def test_records_are_appended_although_the_request_timed_out(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    client = producer(cluster, enable_idempotence=True)
    with faults.answer("REQUEST_TIMED_OUT", api="produce", topic=topic, times=2) as fault:
        assert delivered(client, topic, b"value", 0) is None
        assert fault.hits == 2
    assert values(cluster, topic, 0, 1) == [b"value"]  # the broker knows the sequence number
    with faults.answer("REQUEST_TIMED_OUT", api="produce", topic=topic, times=2) as fault:
        assert delivered(producer(cluster), topic, b"twice", 1) is None
    assert values(cluster, topic, 1, 3) == [b"twice"] * 3


@pytest.mark.mission("IN-22")
def test_a_response_is_lost_after_the_work(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    client = producer(cluster)
    with faults.disconnect("after", api="produce", topic=topic) as fault:
        assert delivered(client, topic, b"value", 0) is None
        assert fault.hits == 1
    assert values(cluster, topic, 0, 2) == [b"value"] * 2
    with faults.disconnect("before", api="produce", topic=topic) as fault:
        assert delivered(client, topic, b"once", 1) is None
        assert fault.hits == 1
    assert values(cluster, topic, 1, 1) == [b"once"]


@pytest.mark.mission("IN-22")
async def test_aiokafka_commits_again_when_the_response_is_lost(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    client = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, group_id=topic, enable_auto_commit=False
    )
    await client.start()
    place = next(iter(client.assignment()))
    with faults.disconnect("after", api="offset_commit", group=topic) as fault:
        await client.commit({place: 7})
        assert fault.hits == 1
    assert await client.committed(place) == 7
    await client.stop()


@pytest.mark.mission("IN-23")
def test_a_request_is_held_and_later_ones_wait_behind_it(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    client = producer(cluster, max_in_flight_requests_per_connection=5)
    reports: list[Any] = []

    def reported(error: Any, record: Any) -> None:
        reports.append(record)

    hold = faults.hold(api="produce", topic=topic)
    for number in range(3):
        client.produce(topic, b"%d" % number, partition=0, on_delivery=reported)
        client.poll(0.05)
    hold.wait()
    assert reports == []
    hold.release()
    assert client.flush(10) == 0
    hold.remove()
    assert len(reports) == 3
    client.produce(topic, b"3")
    assert client.flush(10) == 0


@pytest.mark.mission("IN-23")
async def test_a_held_fetch_goes_on_when_the_fault_is_removed(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    assert delivered(producer(cluster), topic, b"value", 0) is None
    hold = faults.hold("after", api="fetch", topic=topic, partition=0, times=None)
    client = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    )
    await client.start()
    waiting = asyncio.create_task(client.getone())
    await asyncio.to_thread(hold.wait)
    assert not waiting.done()
    hold.remove()
    assert (await waiting).value == b"value"
    await client.stop()


@pytest.mark.mission("IN-24")
async def test_a_swallowed_request_has_no_response_until_the_client_leaves(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    client = producer(cluster, socket_timeout_ms=1000, client_id="swallowed")
    with faults.swallow(api="produce", client_id="swallowed") as fault:
        error = await asyncio.to_thread(delivered, client, topic, b"value", 0)
        assert error is None
        assert fault.hits == 1
    assert values(cluster, topic, 0, 1) == [b"value"]
    other = aiokafka.AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, request_timeout_ms=500, retry_backoff_ms=10
    )
    await other.start()
    with faults.swallow(api="produce", topic=topic) as fault:
        with pytest.raises(RequestTimedOutError):
            await other.send_and_wait(topic, b"value", partition=1)
        assert fault.hits == 1
    await other.stop()
    assert values(cluster, topic, 1, 0) == []


@pytest.mark.mission("IN-25")
async def test_corrupt_records_are_seen_by_clients_that_check_them(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    assert delivered(producer(cluster), topic, b"value", 0) is None
    with faults.corrupt(topic=topic, partition=0, times=None) as fault:
        client = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        )
        await client.start()
        with pytest.raises(CorruptRecordException):
            await client.getone()
        await client.stop()
        checking = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "checks",
                "check.crcs": True,
                "auto.offset.reset": "earliest",
            }
        )
        checking.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found = await asyncio.to_thread(checking.poll, 10)
        assert found is not None
        assert found.error() is not None
        checking.close()
        assert fault.hits >= 2
    assert values(cluster, topic, 0, 1) == [b"value"]  # the log is sound


@pytest.mark.mission("IN-25")
@pytest.mark.parametrize("is_removed", [False, True])
async def test_the_first_response_with_records_is_corrupted_until_the_fault_is_removed(
    cluster: InsideCluster, faults: RequestFaults, topic: str, is_removed: bool
) -> None:
    """The consumer's fetches wait at both brokers; the one that it sent last gets a record."""
    for partition in (0, 1):
        cluster.move_leader(topic, partition, partition + 1)
    fault = faults.corrupt(topic=topic)
    name = f"waits-{topic}"
    client = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap, client_id=name, fetch_max_wait_ms=10_000
    )
    await client.start()
    client.assign([aiokafka.TopicPartition(topic, number) for number in (0, 1)])
    await client.seek_to_beginning()
    waiting = asyncio.create_task(client.getone())
    while {each.broker for each in faults.requests("fetch", name)} != {1, 2}:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    last = faults.requests("fetch", name)[-1].broker
    if is_removed:
        fault.remove()
    error = await asyncio.to_thread(delivered, producer(cluster), topic, b"value", last - 1)
    assert error is None
    if is_removed:
        assert (await waiting).value == b"value"
    else:
        with pytest.raises(CorruptRecordException):
            await waiting
    assert fault.hits == (not is_removed)
    fault.remove()
    await client.stop()


@pytest.mark.mission("IN-26")
def test_a_throttled_client_knows_it(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    throttled: list[Any] = []
    client = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "throttle_cb": throttled.append}
    )
    with faults.throttle(0.2, api="produce", topic=topic):
        assert delivered(client, topic, b"value", 0) is None
        client.poll(1)
    # librdkafka also reports 0 when a later response, as that of telemetry, is not throttled.
    assert [event.throttle_time for event in throttled if event.throttle_time] == [0.2]


@pytest.mark.mission("IN-27")
def test_requests_are_counted_without_an_effect_and_delayed(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    seen: list[RequestFacts] = []

    def note(facts: RequestFacts) -> bool:
        seen.append(facts)
        return True

    with (
        faults.observe(api="produce", topic=topic, when=note) as observed,
        faults.delay(0.01, api="produce", topic=topic, times=2) as delayed,
        faults.answer("LEADER_NOT_AVAILABLE", api="produce", topic=topic, on_call=2) as answered,
    ):
        for number in range(3):
            assert delivered(producer(cluster), topic, b"%d" % number, 0) is None
        assert (observed.hits, delayed.hits, answered.hits) == (4, 2, 1)
    assert {(facts.api_key.api_name, facts.rows[0].topic) for facts in seen} == {("Produce", topic)}


@pytest.mark.mission("IN-28")
def test_errors_of_coordinators_reach_members(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    assert delivered(producer(cluster), topic, b"value", 0) is None
    client = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 2000,
        }
    )
    with (
        faults.answer("COORDINATOR_NOT_AVAILABLE", api="find_coordinator", group=topic) as found,
        faults.answer("COORDINATOR_LOAD_IN_PROGRESS", api="join_group", group=topic) as join,
        faults.answer("REBALANCE_IN_PROGRESS", api="heartbeat", group=topic) as heartbeat,
    ):
        client.subscribe([topic])
        record = client.poll(20)
        assert record is not None
        assert record.value() == b"value"
        waiting = threading.Thread(target=heartbeat.wait)
        waiting.start()
        while waiting.is_alive():
            client.poll(0.05)
        assert (found.hits, join.hits) == (1, 1)
    client.close()


@pytest.mark.mission("IN-29")
def test_followers_are_concerned_only_on_purpose(
    cluster: InsideCluster, faults: RequestFaults
) -> None:
    name = f"t{next(NUMBERS)}"
    cluster.create_topic(name, replication_factor=2)
    with (
        faults.answer("KAFKA_STORAGE_ERROR", api="fetch", times=None) as of_clients,
        faults.observe(api="fetch", of_broker=True) as of_followers,
    ):
        assert delivered(producer(cluster, acks="all"), name, b"value", 0) is None
        assert of_clients.hits == 0
        of_followers.wait()


@pytest.mark.mission("IN-29")
def test_a_broker_stops_while_its_requests_are_held(topic: str) -> None:
    with InsideCluster() as cluster:
        cluster.create_topic("t")
        hold = cluster.request_faults.hold(api="produce")
        client = producer(cluster)
        client.produce("t", b"value", partition=0)
        client.poll(0)
        hold.wait()
        cluster.stop_broker(1)
        cluster.start_broker(1)
        hold.remove()
        assert client.flush(20) == 0


@pytest.mark.mission("IN-30")
def test_faults_are_described_in_the_words_of_the_test(faults: RequestFaults) -> None:
    def is_large(_: RequestFacts) -> bool:
        return False

    added = [
        faults.answer("leader_not_available", api="produce", topic="t", partition=0),
        faults.disconnect("after", group="g", when=is_large),
        faults.throttle(0.5),
        faults.corrupt(broker=1),
        faults.hold(api="fetch", of_broker=True),
    ]
    assert [fault.describe() for fault in added] == [
        "answer LEADER_NOT_AVAILABLE before (api=Produce, topic=t, partition=0)",
        "disconnect after (group=g, when=is_large)",
        "throttle 500 ms (any request)",
        "corrupt (api=Fetch, broker=1)",
        "hold before (api=Fetch, of_broker=True)",
    ]
    for fault in added:
        fault.remove()


@pytest.mark.mission("IN-30")
def test_misspelled_faults_are_refused(faults: RequestFaults) -> None:
    with pytest.raises(ValueError, match=r"no API 'produse'; did you mean produce"):
        faults.observe(api="produse")
    with pytest.raises(ValueError, match=r"no error 'NOT_LEADER'; did you mean NOT_LEADER_OR"):
        faults.answer("NOT_LEADER")
    with pytest.raises(TypeError, match=r"no keyword 'topics'; did you mean topic"):
        faults.observe(topics="t")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="only the records of Fetch"):
        faults.corrupt(api="produce")
    with pytest.raises(ValueError, match="needs a seed"):
        faults.observe(probability=0.5)
    with pytest.raises(ValueError, match="sometimes"):
        faults.delay(1, at="sometimes")  # type: ignore[arg-type]
    handle = faults.observe(api="fetch", topic="t")
    with pytest.raises(TypeError, match=r"only a hold .* observe .api=Fetch, topic=t."):
        handle.release()
    with pytest.raises(AssertionError, match="0 of 1 hits"):
        handle.wait(timeout=0.01)
    handle.remove()
    handle.remove()
