"""The fixture ``minikafka`` with ``where="processes"``: real signals and a real ZooKeeper."""

from __future__ import annotations

import asyncio
import socket

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from minikafka.testing.cluster import NotInThisPlace
from minikafka.testing.processes import ClusterNotStarted
from minikafka.testing.view import TestView

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.mission("IN-49"),
    pytest.mark.minikafka(brokers=3, where="processes", settings={"min.insync.replicas": 2}),
    pytest.mark.xdist_group("places-real"),
]
TIMEOUT_S = 60


def send(minikafka: TestView, topic: str, value: bytes, silent: int = 0) -> None:
    """With two client libraries. kafka-python waits for half a minute for a ``silent`` broker, and
    then gives up, if it is the first one that it tries."""
    confluent = Producer({**minikafka.config("confluent"), "log_level": 0})
    confluent.produce(topic, value)
    assert confluent.flush(TIMEOUT_S) == 0
    addresses = minikafka.bootstrap.split(",")
    known = [each for number, each in enumerate(addresses, 1) if number != silent]
    python = KafkaProducer(bootstrap_servers=known, retries=100)
    python.send(topic, value).get(TIMEOUT_S)
    python.close()


@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
def test_a_leader_leaves_and_returns(minikafka: TestView, how: str) -> None:
    assert [minikafka.broker(n).is_running for n in minikafka.brokers] == [True, True, True]
    topic = minikafka.topic()
    leader = minikafka.leader(topic)
    broker = minikafka.broker(leader)
    getattr(broker, how)()
    assert broker.is_running == (how == "pause")
    send(minikafka, topic, b"x", silent=leader)
    assert len(minikafka.records(topic, count=2, timeout=TIMEOUT_S)) == 2
    assert minikafka.leader(topic) != leader
    if how == "pause":
        broker.resume()
    else:
        broker.start()
    assert broker.is_running
    minikafka.move_leader(topic, 0, leader)
    send(minikafka, topic, b"y")


def test_a_broker_that_cannot_start_says_why(minikafka: TestView) -> None:
    minikafka.broker(1).kill()
    host, port = minikafka.bootstrap.split(",")[0].split(":")
    refusal = pytest.raises(ClusterNotStarted, match=rf"cannot listen on {host}:{port}")
    with socket.create_server((host, int(port))), refusal:
        minikafka.broker(1).start()
    minikafka.broker(1).start()


def test_a_broker_that_is_left_away_is_brought_back(minikafka: TestView) -> None:
    minikafka.broker(1).kill()
    minikafka.broker(2).pause()
    minikafka.create_topic("orders", replicas=1)


def test_the_next_test_finds_all_brokers(minikafka: TestView) -> None:
    minikafka.create_topic("orders", replicas=3)
    send(minikafka, "orders", b"x")


async def test_a_group_in_a_loop(minikafka: TestView) -> None:
    topic = await minikafka.aio.topic()
    await minikafka.aio.produce(topic, b"x")
    settings = {"group.id": "billing", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({**minikafka.config("confluent"), **settings})
    consumer.subscribe([topic])
    assert await asyncio.to_thread(consumer.consume, 1, TIMEOUT_S)
    await asyncio.to_thread(consumer.commit, asynchronous=False)
    group = await minikafka.aio.group("billing").wait(members=1, lag=0, timeout=TIMEOUT_S)
    assert group.state == "Stable"
    await asyncio.to_thread(consumer.close)
    await minikafka.aio.move_coordinator("billing", 2)
    assert await minikafka.aio.coordinator("billing") == 2


def test_operations_of_other_places_are_refused(minikafka: TestView) -> None:
    for operation in (minikafka.broker(1).isolate, minikafka.broker(1).heal):
        with pytest.raises(NotInThisPlace, match='one with where="inside" or where="simulated"'):
            operation()
    with pytest.raises(NotInThisPlace, match="expire a ZooKeeper session"):
        minikafka.expire_session(1)
    with pytest.raises(NotInThisPlace, match="move its clock"):
        _ = minikafka.clock
