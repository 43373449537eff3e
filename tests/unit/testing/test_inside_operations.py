"""Operations and faults that a test has inside the process, through the fixture ``minikafka``."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from minikafka.testing import looking
from minikafka.testing.looking import Existing
from minikafka.testing.view import TestView

TIMEOUT_S = 30
# A client may choose the broker that has gone without a word.
IMPATIENT = {"socket_timeout_ms": 1000, "request_timeout_ms": 1000}
QUICK = {"zookeeper.session.timeout.ms": 1000, "min.insync.replicas": 2}


def confluent(minikafka: TestView, **settings: Any) -> Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({**minikafka.config("confluent"), "log_level": 0, "linger.ms": 0, **named})


def send(producer: Producer, topic: str, value: bytes = b"x") -> None:
    producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


# --------------------------------------------------------------------------------------- operations


@pytest.mark.mission("IN-52")
@pytest.mark.minikafka(brokers=3, settings=QUICK)
@pytest.mark.parametrize("mended", [True, False])
def test_a_leader_is_out_of_touch(minikafka: TestView, mended: bool) -> None:
    topic = minikafka.topic(replicas=3)  # all brokers are there, whatever the last test has left
    leader = minikafka.leader(topic)
    broker = minikafka.broker(leader)
    broker.isolate()
    assert broker.is_running
    send(confluent(minikafka, **IMPATIENT), topic)
    assert minikafka.leader(topic) != leader
    if mended:
        broker.heal()
        minikafka.move_leader(topic, 0, leader)
        send(confluent(minikafka), topic)


@pytest.mark.mission("IN-52")
def test_a_session_expires(minikafka: TestView) -> None:
    before = len(minikafka.events("session_expired"))
    minikafka.expire_session(1)
    assert len(minikafka.events("session_expired")) == before + 1
    minikafka.topic()  # the broker has registered again
    with pytest.raises(ValueError, match="no broker 9"):
        minikafka.expire_session(9)


@pytest.mark.mission("IN-52")
@pytest.mark.minikafka(brokers=2)
@pytest.mark.parametrize("turn", [1, 2])
def test_a_broker_is_added(minikafka: TestView, turn: int) -> None:
    assert list(minikafka.brokers) == [1, 2]
    assert minikafka.add_broker() == 3
    assert list(minikafka.brokers) == [1, 2, 3]
    minikafka.broker(3).kill()
    minikafka.broker(3).start()
    minikafka.topic(replicas=3)


@pytest.mark.mission("IN-52")
def test_records_are_compacted_and_expire(minikafka: TestView) -> None:
    compacted = minikafka.topic(cleanup_policy="compact", segment_bytes="200")
    expiring = minikafka.topic(retention_ms="1", segment_bytes="200")
    for number in range(20):
        for topic in (compacted, expiring):
            minikafka.produce(topic, b"%d" % number, key=b"k")
    minikafka.compact(compacted)
    assert minikafka.records(compacted)[-1].value == b"19"
    assert len(minikafka.records(compacted)) < 20
    minikafka.apply_retention(expiring)
    assert len(minikafka.records(expiring)) < 20


@pytest.mark.mission("IN-52")
@pytest.mark.parametrize("version", ["2.8", None])
def test_an_old_broker_serves_two_clients(minikafka: TestView, version: str | None) -> None:
    """The cap of the first turn is gone in the second."""
    if version is not None:
        minikafka.as_version(version)
    topic = minikafka.topic()
    send(confluent(minikafka, client_id="app"), topic)
    python = KafkaProducer(**minikafka.config("kafka-python"), client_id="app")
    python.send(topic, b"x").get(TIMEOUT_S)
    python.close()
    assert len(minikafka.records(topic, count=2)) == 2
    assert len(minikafka.requests(api="produce", client_id="app")) >= 2
    assert not minikafka.requests(api="produce", client_id="another")


# ------------------------------------------------------------------------------------------- faults


@pytest.mark.mission("IN-53")
def test_an_error_strikes_two_clients(minikafka: TestView) -> None:
    topic = minikafka.topic()
    with minikafka.faults.answer(
        "NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic, partition=0, times=2
    ) as fault:
        send(confluent(minikafka), topic)
        assert fault.hits == 2
    with minikafka.faults.disconnect("after", api="Produce", topic=topic) as fault:
        python = KafkaProducer(**minikafka.config("kafka-python"), retries=10)
        python.send(topic, b"y").get(TIMEOUT_S)
        python.close()
        fault.wait(1)
    assert {record.value for record in minikafka.records(topic, count=2)} == {b"x", b"y"}


@pytest.mark.mission("IN-53")
def test_a_request_is_held_until_its_release(minikafka: TestView) -> None:
    topic = minikafka.topic()
    fault = minikafka.faults.hold(api="produce", topic=topic)
    sending = threading.Thread(target=send, args=(confluent(minikafka), topic))
    sending.start()
    fault.wait(1, TIMEOUT_S)
    assert minikafka.records(topic) == []
    fault.release()
    sending.join()
    assert len(minikafka.records(topic, count=1)) == 1


@pytest.mark.mission("IN-53")
async def test_a_request_is_held_in_a_loop(minikafka: TestView) -> None:
    topic = await minikafka.aio.topic()
    settings: Any = minikafka.config("aiokafka")
    async with (
        AIOKafkaProducer(**settings) as producer,
        minikafka.aio.faults.hold(api="produce", topic=topic) as fault,
    ):
        sending = asyncio.create_task(producer.send_and_wait(topic, b"x"))
        await fault.wait(1, TIMEOUT_S)
        assert await minikafka.aio.records(topic) == []
        await fault.release()
        await sending
    assert len(await minikafka.aio.records(topic, count=1)) == 1


@pytest.mark.mission("IN-52")
@pytest.mark.parametrize("turn", [1, 2])
def test_requests_and_events_are_those_of_the_test(minikafka: TestView, turn: int) -> None:
    minikafka.create_topic("orders")
    send(confluent(minikafka, client_id="shop"), "orders")
    assert len(minikafka.requests(api="produce", client_id="shop")) == 1
    created = [event.facts["topic"] for event in minikafka.events("topic_created")]
    assert created == ["orders"]


@pytest.mark.mission("IN-53")
@pytest.mark.parametrize("turn", [1, 2])
def test_no_fault_is_left_for_the_next_test(minikafka: TestView, turn: int) -> None:
    topic = minikafka.create_topic("orders")
    fault = minikafka.faults.observe(api="produce", topic=topic, times=None)
    send(confluent(minikafka), topic)
    assert fault.hits == 1
    minikafka.faults.swallow(api="produce", topic=topic, times=None, must_hit=False)


@pytest.mark.mission("IN-53")
@pytest.mark.minikafka(brokers=3, settings={"replica.lag.time.max.ms": 500})
def test_a_slow_disk_is_struck(minikafka: TestView) -> None:
    topic = minikafka.topic()
    leader = minikafka.leader(topic)
    with minikafka.faults.slow_disk(leader, 0.01, must_hit=False):
        send(confluent(minikafka), topic)
    with minikafka.faults.cut_link(leader, leader % 3 + 1) as fault:  # to a follower
        send(confluent(minikafka, acks=1), topic)
        fault.wait(1, TIMEOUT_S)


@pytest.mark.mission("IN-43")
@pytest.mark.minikafka(brokers=3, settings=QUICK)
async def test_a_topic_counts_as_left_until_a_broker_has_deleted_its_replica(
    minikafka: TestView,
) -> None:
    topic = await minikafka.aio.create_topic("orders", replicas=1)
    leader = await minikafka.aio.leader(topic)
    await minikafka.aio.broker(leader).kill()
    clients = minikafka.aio.cluster.clients()
    nothing = Existing(frozenset(), frozenset())

    async def delete_made(timeout_s: float) -> None:
        await looking.delete_made(clients, nothing, timeout_s)

    with pytest.raises(AssertionError, match="topics are left after 2 s: orders"):
        await minikafka.aio.cluster.run(delete_made(2))
    await minikafka.aio.broker(leader).start()
    await minikafka.aio.cluster.run(delete_made(TIMEOUT_S))
    await minikafka.aio.create_topic("orders", replicas=3)
