"""Links of brokers that a test cuts and slows, with clients of others beside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from minikafka.testing.inside.brokers import BrokerState
from minikafka.testing.inside.cluster import InsideCluster
from tests.unit.testing.inside.test_operations import TIMEOUT_S, SteadyProducer, read_all

SETTINGS = {
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 500,
    "zookeeper.session.timeout.ms": 500,
}


# A client waits so long for the response of a broker that is gone without a word.
IMPATIENT = {"socket.timeout.ms": 1000, "request.timeout.ms": 1000}


@pytest.fixture(scope="module")
def three() -> Iterator[InsideCluster]:
    with InsideCluster(3, SETTINGS) as cluster:
        yield cluster


@pytest.mark.mission("IN-71", "IN-90")
@pytest.mark.parametrize(("begin", "end"), [("isolate", "heal"), ("pause", "resume")])
async def test_a_leader_that_falls_silent_loses_nothing_that_was_acknowledged(
    three: InsideCluster, begin: str, end: str
) -> None:
    three.create_topic(begin)
    with SteadyProducer(three, begin, **IMPATIENT) as producer:
        for _ in range(2):
            producer.more()
            old = three.leader(begin)
            getattr(three, f"{begin}_broker")(old)
            producer.more()
            getattr(three, f"{end}_broker")(old)
            producer.more()
    assert set(producer.acknowledged) <= set(await read_all(three, begin))


async def timer_of(broker: BrokerState, fired: list[bool]) -> None:
    assert broker.process is not None
    broker.process.world.clock.call_later(1, lambda: fired.append(True))


@pytest.mark.mission("IN-90")
async def test_a_paused_broker_responds_when_it_goes_on(three: InsideCluster) -> None:
    """A session of 500 ms ends in a long pause only: this one is over at once."""
    three.create_topic("paused", replication_factor=1)
    old = three.leader("paused")
    broker = three._brokers[old]
    async with AIOKafkaProducer(bootstrap_servers=three.bootstrap) as producer:
        await producer.send_and_wait("paused", b"before")
        assert broker.node is not None
        epoch = broker.node.broker_epoch
        three.pause_broker(old)
        sent = await producer.send("paused", b"after")
        fired: list[bool] = []
        three.call(timer_of(broker, fired))
        done, _ = await asyncio.wait([sent], timeout=0.1)
        assert not done
        assert not fired
        three.resume_broker(old)
        await sent
        eventually(lambda: fired == [True])
        assert broker.node.broker_epoch == epoch
    assert await read_all(three, "paused") == [b"before", b"after"]


@pytest.mark.mission("IN-90")
def test_a_broker_may_be_paused_and_isolated(three: InsideCluster) -> None:
    assert three._brokers[2].process is not None
    three.pause_broker(2)
    three.isolate_broker(2)
    three.resume_broker(2)
    assert not three._brokers[2].process.coordination._connected.is_set()
    three.heal_broker(2)
    assert three._brokers[2].process.coordination._connected.is_set()
    three.pause_broker(2)
    three.stop_broker(2)  # as SIGTERM, which a stopped process takes when it goes on
    three.start_broker(2)
    three.pause_broker(2)
    three.kill_broker(2)
    three.start_broker(2)
    eventually(lambda: three.is_running(2))


@pytest.mark.mission("IN-71")
def test_others_see_an_isolated_broker_go_and_come_back(three: InsideCluster) -> None:
    def seen() -> list[int]:
        client = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 1000})
        try:
            return sorted(client.list_topics(timeout=2).brokers)
        except KafkaException:  # it may choose the broker that is silent
            return []

    bootstrap = ",".join(three.bootstrap.split(",")[:2])
    three.isolate_broker(3)
    eventually(lambda: seen() == [1, 2])
    three.heal_broker(3)
    eventually(lambda: seen() == [1, 2, 3])


@pytest.mark.mission("IN-72")
async def test_records_arrive_over_slow_links(three: InsideCluster) -> None:
    three.create_topic("slow")
    with three.environment_faults.slow_link(1, None, 0.02) as fault:
        async with AIOKafkaProducer(bootstrap_servers=three.bootstrap, acks="all") as producer:
            for number in range(5):
                await producer.send_and_wait("slow", str(number).encode())
        assert fault.hits > 0
    hits = fault.hits
    assert await read_all(three, "slow") == [b"%d" % number for number in range(5)]
    assert fault.hits == hits


@pytest.mark.mission("IN-72")
async def test_a_follower_behind_a_cut_link_leaves_the_isr(three: InsideCluster) -> None:
    three.create_topic("cut")
    three.move_leader("cut", 0, 1)
    admin = AdminClient({"bootstrap.servers": three.bootstrap})
    # The leader changes the ISR by way of the controller, which it has to reach.
    controller = admin.list_topics(timeout=TIMEOUT_S).controller_id
    follower = 2 if controller == 3 else 3
    with SteadyProducer(three, "cut") as producer:
        producer.more()
        with three.environment_faults.cut_link(1, follower) as fault:
            producer.more()
            fault.wait()
            eventually(lambda: set(in_sync(three, "cut")) == {1, 2, 3} - {follower})
        eventually(lambda: set(in_sync(three, "cut")) == {1, 2, 3})
        producer.more()
    assert set(producer.acknowledged) <= set(await read_all(three, "cut"))


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def in_sync(cluster: InsideCluster, topic: str) -> list[int]:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, TIMEOUT_S)
    found: list[int] = metadata.topics[topic].partitions[0].isrs
    return found


def test_links_that_are_not_there_are_refused(three: InsideCluster) -> None:
    with pytest.raises(ValueError, match="there is no broker 7"):
        three.environment_faults.cut_link(1, 7)
    with pytest.raises(ValueError, match="no link to itself"):
        three.environment_faults.cut_link(1, 1)
    with pytest.raises(ValueError, match="slow"):
        three.environment_faults.slow_link(1, 2, -1)
