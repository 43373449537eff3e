"""Leaders, coordinators, sessions and brokers that a test moves, with clients of others beside."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from minikafka.kernel import errors
from minikafka.kernel.errors import ErrorCode
from minikafka.testing.inside.cluster import InsideCluster

TIMEOUT_S = 20


@pytest.fixture(scope="module")
def three() -> Iterator[InsideCluster]:
    with InsideCluster(3, {"min.insync.replicas": 2}) as cluster:
        yield cluster


class SteadyProducer:
    """Produces numbers with acks=all in a thread, and remembers those that were acknowledged."""

    def __init__(self, cluster: InsideCluster, topic: str, **own: int) -> None:
        self.acknowledged: list[bytes] = []
        self.errors: list[KafkaError] = []
        self._topic = topic
        settings = {"linger.ms": 0, "acks": "all", "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings, **own})
        self._ending = threading.Event()
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def more(self, count: int = 20) -> None:
        """Wait until so many more records are acknowledged."""
        with self._progress:
            goal = len(self.acknowledged) + count
            assert self._progress.wait_for(lambda: len(self.acknowledged) >= goal, TIMEOUT_S)

    def _run(self) -> None:
        number = 0
        while not self._ending.is_set():
            self._producer.produce(self._topic, str(number), on_delivery=self._delivered)
            self._producer.poll(0.001)
            number += 1
        assert self._producer.flush(TIMEOUT_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        with self._progress:
            if error is None:
                self.acknowledged.append(message.value() or b"")
                self._progress.notify_all()
            else:
                self.errors.append(error)


async def read_all(cluster: InsideCluster, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, enable_auto_commit=False)
    async with consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        found: list[bytes] = []
        while await consumer.position(partition) < end:
            found.append((await consumer.getone()).value)
        return found


def leader_seen(cluster: InsideCluster, topic: str) -> int:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, TIMEOUT_S)
    found: int = metadata.topics[topic].partitions[0].leader
    return found


@pytest.mark.mission("IN-60")
async def test_a_leader_moves_and_loses_nothing(three: InsideCluster) -> None:
    three.create_topic("moved")
    with SteadyProducer(three, "moved") as producer:
        for broker in (1, 2, 3, 2):
            producer.more()
            three.move_leader("moved", 0, broker)
            assert three.leader("moved", 0) == broker
            assert leader_seen(three, "moved") == broker
        producer.more()
    assert producer.errors == []
    found = await read_all(three, "moved")
    assert len(found) == len(set(found))
    assert found == producer.acknowledged


@pytest.mark.mission("IN-60")
async def test_a_leader_moves_to_a_broker_without_a_replica(three: InsideCluster) -> None:
    three.create_topic("alone", replication_factor=1, settings={"min.insync.replicas": "1"})
    target = three.leader("alone") % 3 + 1
    with SteadyProducer(three, "alone") as producer:
        producer.more()
        three.move_leader("alone", 0, target)
        producer.more()
    assert three.leader("alone") == target
    assert await read_all(three, "alone") == producer.acknowledged


@pytest.mark.mission("IN-60")
def test_moves_that_cannot_be_made_are_errors(three: InsideCluster) -> None:
    with pytest.raises(errors.KafkaError) as caught:
        three.move_leader("missing", 0, 1)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(errors.KafkaError):
        three.leader("missing")
    three.create_topic("there")
    with pytest.raises(ValueError, match=r"broker 9 does not run; brokers that run: \[1, 2, 3\]"):
        three.move_leader("there", 0, 9)


@pytest.mark.mission("IN-61")
def test_a_coordinator_moves_with_the_commits_of_its_group(three: InsideCluster) -> None:
    three.create_topic("committed")
    producer = Producer({"bootstrap.servers": three.bootstrap, "log_level": 0})
    for number in range(10):
        producer.produce("committed", str(number))
    assert producer.flush(TIMEOUT_S) == 0
    settings = {
        "bootstrap.servers": three.bootstrap,
        "group.id": "travellers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["committed"])
    assert len(consumer.consume(4, TIMEOUT_S)) == 4
    for broker in (1, 2, 3):
        three.move_coordinator("travellers", broker)
        assert three.coordinator("travellers") == broker
        place = confluent_kafka.TopicPartition("committed", 0, 3 + broker)
        consumer.commit(offsets=[place], asynchronous=False)
        (found,) = Consumer(settings).committed([place], TIMEOUT_S)
        assert found.offset == 3 + broker
    consumer.close()


@pytest.mark.mission("IN-62")
async def test_an_expired_session_elects_other_leaders(three: InsideCluster) -> None:
    three.create_topic("expired")
    with SteadyProducer(three, "expired") as producer:
        for broker in (1, 2, 3):  # one of them is the controller
            three.move_leader("expired", 0, broker)
            producer.more()
            three.expire_session(broker)
            assert [e.facts["broker"] for e in three.events("broker_registered")][-1] == broker
            producer.more()
    assert await read_all(three, "expired") == producer.acknowledged


@pytest.mark.mission("IN-62")
def test_a_broker_is_added() -> None:
    with InsideCluster(1) as cluster:
        cluster.create_topic("t")
        assert cluster.add_broker() == 2
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        assert sorted(admin.list_topics(timeout=TIMEOUT_S).brokers) == [1, 2]
        cluster.move_leader("t", 0, 2)
        cluster.stop_broker(1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        producer.produce("t", b"here")
        assert producer.flush(TIMEOUT_S) == 0
        assert cluster.leader("t") == 2
