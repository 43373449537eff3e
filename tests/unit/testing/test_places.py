"""Operations on brokers and leaders: the same in each place, or refused with the place that can."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.cluster import ABILITIES, AnyCluster, NotInThisPlace
from minikafka.testing.inside_place import InsidePlace
from minikafka.testing.processes import ProcessesPlace
from minikafka.testing.simulated import SimulatedPlace
from minikafka.testing.view import TestView

THREE = pytest.mark.minikafka(brokers=3, settings={"min.insync.replicas": 2})
SIMULATED = pytest.mark.minikafka(where="simulated", brokers=3)
OF_PLACES = {"inside": InsidePlace, "processes": ProcessesPlace, "simulated": SimulatedPlace}
# Abilities that are operations of ``AnyCluster``, by the name of the one that is looked at.
OPERATIONS = {
    **{each: each for each in ("pause", "isolate", "expire_session", "events", "clock")},
    **{each: each for each in ("add_broker", "compact", "apply_retention", "as_version")},
    "requests": "requests",
    "reset": "renew",
    "faults": "request_faults",
}


@pytest.mark.mission("IN-40")
@THREE
def test_leaders_and_coordinators_move(minikafka: TestView) -> None:
    topic = minikafka.topic(partitions=2)
    for broker in (2, 3, 1, 1):
        minikafka.move_leader(topic, 1, broker)
        assert minikafka.leader(topic, 1) == broker
        minikafka.move_coordinator("billing", broker)
        assert minikafka.coordinator("billing") == broker
    lonely = minikafka.topic(replicas=1)
    minikafka.produce(lonely, b"x")
    minikafka.move_leader(lonely, 0, minikafka.leader(lonely) % 3 + 1)
    assert len(minikafka.records(lonely, count=1)) == 1
    with pytest.raises(KafkaError) as caught:
        minikafka.leader("no-such-topic")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError, match=f"{topic}-7"):
        minikafka.leader(topic, 7)


@pytest.mark.mission("IN-40")
@THREE
def test_two_clients_survive_the_leader(minikafka: TestView) -> None:
    topic = minikafka.topic()
    confluent = Producer({**minikafka.config("confluent"), "log_level": 0})
    python = KafkaProducer(**minikafka.config("kafka-python"), acks="all", retries=10)
    for end in ("kill", "stop"):
        leader = minikafka.broker(minikafka.leader(topic))
        getattr(leader, end)()
        assert not leader.is_running
        confluent.produce(topic, end)
        assert confluent.flush(30) == 0
        python.send(topic, end.encode()).get(30)
        leader.start()
        assert leader.is_running
    python.close()
    assert len(minikafka.records(topic, count=4)) == 4
    with pytest.raises(RuntimeError, match="runs"):
        minikafka.broker(1).start()
    with pytest.raises(ValueError, match="no broker 4; there are 1, 2, 3"):
        minikafka.broker(4)


@pytest.mark.mission("IN-40")
def test_a_broker_that_ended_by_itself_is_brought_back(minikafka: TestView) -> None:
    node = minikafka.cluster.inside._brokers[1].node  # type: ignore[attr-defined]

    async def stop() -> None:
        node.request_stop()
        while minikafka.broker(1).is_running:  # noqa: ASYNC110 - nothing else notices its end
            await asyncio.sleep(0.001)

    minikafka.cluster.call(stop())
    minikafka.reset()
    assert minikafka.broker(1).is_running
    minikafka.produce(minikafka.topic(), b"x")


@pytest.mark.mission("IN-40")
@SIMULATED
async def test_leaders_move_in_simulated_time(minikafka: TestView) -> None:
    topic = await minikafka.aio.topic()
    for broker in (2, 3, 1):
        await minikafka.aio.move_leader(topic, 0, broker)
        assert await minikafka.aio.leader(topic) == broker
        await minikafka.aio.move_coordinator("billing", broker)
        assert await minikafka.aio.coordinator("billing") == broker


@pytest.mark.mission("IN-42")
@SIMULATED
@pytest.mark.parametrize("how", ["pause", "isolate", "kill", "stop"])
async def test_brokers_leave_and_return_in_simulated_time(minikafka: TestView, how: str) -> None:
    topic = await minikafka.aio.topic(min_insync_replicas="2")
    leader = await minikafka.aio.leader(topic)
    broker = minikafka.aio.broker(leader)
    await getattr(broker, how)()
    assert broker.is_running == (how in ("pause", "isolate"))
    await minikafka.clock.advance(30)
    await minikafka.aio.produce(topic, b"x")
    assert await minikafka.aio.leader(topic) != leader
    await {"pause": broker.resume, "isolate": broker.heal}.get(how, broker.start)()
    await minikafka.clock.advance(30)
    await minikafka.aio.move_leader(topic, 0, leader)
    assert len(await minikafka.aio.records(topic, count=1)) == 1


@pytest.mark.mission("IN-42")
@SIMULATED
async def test_healing_a_broker_leaves_others_isolated(minikafka: TestView) -> None:
    await minikafka.aio.topic()
    links = minikafka.cluster.simulation.simulation.links  # type: ignore[attr-defined]
    await minikafka.aio.broker(1).pause()
    await minikafka.aio.broker(2).isolate()
    await minikafka.aio.broker(1).resume()
    blocked = {frozenset(pair) for pair in links._blocked}
    assert frozenset({"broker-2", "broker-1"}) in blocked
    assert frozenset({"broker-1", "broker-3"}) not in blocked
    await minikafka.aio.reset()
    assert not links._blocked


@pytest.mark.mission("IN-42")
@SIMULATED
async def test_a_session_expires_in_simulated_time(minikafka: TestView) -> None:
    before = len(minikafka.events("session_expired"))
    await minikafka.aio.expire_session(2)
    await minikafka.clock.advance(10)
    assert len(minikafka.events("session_expired")) == before + 1
    await minikafka.aio.topic(replicas=3)  # broker 2 has registered again


@pytest.mark.mission("IN-40")
@pytest.mark.parametrize("where", OF_PLACES)
def test_the_table_of_abilities_is_true(where: str) -> None:
    for ability, operation in OPERATIONS.items():
        own = inspect.getattr_static(OF_PLACES[where], operation)
        can = own is not inspect.getattr_static(AnyCluster, operation)
        assert can == (where in ABILITIES[ability].places), ability
    others = set(ABILITIES) - set(OPERATIONS)
    assert others == {"other_clients", "blocking", "real_zookeeper"}


@pytest.mark.mission("IN-40")
@SIMULATED
async def test_operations_of_other_places_are_refused(minikafka: TestView) -> None:
    refused: list[Callable[[], Awaitable[Any]]] = [
        minikafka.aio.add_broker,
        lambda: minikafka.aio.compact("t"),
        minikafka.aio.apply_retention,
        lambda: minikafka.aio.as_version("2.8"),
    ]
    for operation in refused:
        with pytest.raises(NotInThisPlace, match='one with where="inside" can'):
            await operation()
    with pytest.raises(NotInThisPlace, match="have faults of requests"):
        minikafka.faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce")
    with pytest.raises(NotInThisPlace, match="return the requests"):
        minikafka.requests()
