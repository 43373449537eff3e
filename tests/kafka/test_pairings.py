"""Each kind of broker in each role: controller, leader, follower, group coordinator, transaction
coordinator."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)

from minikafka.core.coordinator_shard import partition_for
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.clients.confluent import offset_of, value_of
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS, MixedCluster

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

KINDS = (NEWEST, OURS)
BROKERS = (
    NEWEST,
    NEWEST,
    OURS,
    OURS,
)  # two of each, so that a follower may be of its leader's kind
# Eight partitions: each broker coordinates two.
PROPERTIES = {
    "offsets.topic.num.partitions": 8,
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.num.partitions": 8,
    "transaction.state.log.replication.factor": 2,
    "replica.lag.time.max.ms": 3000,
}
TIMEOUT_S = 60
RECORDS = 20


@pytest.fixture(scope="module")
def cluster(mixed: Mixed) -> Iterator[MixedCluster]:
    with mixed(*BROKERS, properties=PROPERTIES) as running:
        Transfer(running, "first").commit("first", "first")  # makes the internal topics
        running.until_ready()
        yield running
        check_that_controllers_wrote_every_isr(running)


def check_that_controllers_wrote_every_isr(cluster: MixedCluster) -> None:
    """A leader that writes a state znode itself announces that by a child of this znode, after some
    seconds. Leaders of both kinds requested AlterPartition of controllers of both kinds."""
    with cluster.zk() as client:
        stat = client.exists("/isr_change_notification")
    assert stat is not None
    assert stat.cversion == 0, "a leader did not request AlterPartition"


def brokers_of(cluster: MixedCluster, leader: str, follower: str) -> list[int]:
    """Return two brokers: one of the leader's kind, and another of the follower's."""
    first = next(b for b, kind in cluster.kinds.items() if kind == leader)
    return [first, next(b for b, k in cluster.kinds.items() if k == follower and b != first)]


def name_for(cluster: MixedCluster, topic: str, kind: str) -> str:
    """Return a group or transactional id whose coordinator is of a kind."""
    partitions = len(cluster.znode(f"/brokers/topics/{topic}")["partitions"])
    names = (f"id-{number}" for number in itertools.count())
    return next(
        name
        for name in names
        if cluster.kinds[cluster.state(topic, partition_for(name, partitions))["leader"]] == kind
    )


class Transfer:
    """Transactions that write to a topic and commit offsets to a group."""

    def __init__(self, cluster: MixedCluster, topic: str, *replicas: int) -> None:
        self._cluster, self._topic = cluster, topic
        cluster.create_topic(topic, list(replicas) or [1])

    def commit(self, transactional_id: str, group: str) -> None:
        """Commit one transaction and abort one. Only the first is read, and its offset is the
        group's."""
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "transactional.id": transactional_id,
                "log_level": 0,
            }
        )
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._topic])
        read: list[bytes] = []
        try:
            until(lambda: self._poll(consumer, read) or consumer.assignment(), "joined", TIMEOUT_S)
            producer.init_transactions(TIMEOUT_S)
            for number, end in ((0, producer.commit_transaction), (1, producer.abort_transaction)):
                producer.begin_transaction()
                for record in range(RECORDS):
                    producer.produce(self._topic, f"{number}-{record}")
                # librdkafka's abort_transaction drops the records that it has not sent yet.
                assert producer.flush(TIMEOUT_S) == 0
                producer.send_offsets_to_transaction(
                    [TopicPartition(self._topic, 0, RECORDS + number)],
                    consumer.consumer_group_metadata(),
                    TIMEOUT_S,
                )
                end(TIMEOUT_S)
            # Both transactions, and their markers.
            until(lambda: self._poll(consumer, read) == 2 * (RECORDS + 1), "read", TIMEOUT_S)
        finally:
            consumer.close()
        assert read == [f"0-{record}".encode() for record in range(RECORDS)]
        self._check_offset(group)

    def _poll(self, consumer: Consumer, read: list[bytes]) -> int:
        """Add values to ``read``; return the end offset of the partition if it was reached."""
        end = 0
        for message in consumer.consume(100, 0.2):
            error = message.error()
            if error is None:
                read.append(value_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                end = offset_of(message)
        return end

    def _check_offset(self, group: str) -> None:
        admin = self._cluster.admin()
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(self._topic, 0)])
        found = admin.list_consumer_group_offsets([wanted])[group].result(TIMEOUT_S)
        (where,) = found.topic_partitions
        assert where.offset == RECORDS


@pytest.mark.mission("MIX-50")
@pytest.mark.parametrize("controller", KINDS)
def test_each_kind_works_with_each_in_every_role(cluster: MixedCluster, controller: str) -> None:
    """Sixteen pairings of leader, follower and both coordinators for each kind of controller."""
    cluster.make_controller(next(b for b, kind in cluster.kinds.items() if kind == controller))
    for leader, follower, groups, transactions in itertools.product(KINDS, repeat=4):
        topic = ".".join(("pair", controller, leader, follower, groups, transactions))
        transfer = Transfer(cluster, topic, *brokers_of(cluster, leader, follower))
        transfer.commit(
            name_for(cluster, "__transaction_state", transactions),
            name_for(cluster, "__consumer_offsets", groups),
        )


@pytest.mark.mission("MIX-50")
@pytest.mark.parametrize("controller", KINDS)
@pytest.mark.parametrize("follower", KINDS)
def test_the_isr_of_each_kind_of_leader_shrinks_and_grows(
    cluster: MixedCluster, controller: str, follower: str
) -> None:
    """A follower stands still for longer than replica.lag.time.max.ms."""
    victim = max(b for b, kind in cluster.kinds.items() if kind == follower)
    others = [b for b in cluster.broker_ids if b != victim]
    cluster.make_controller(next(b for b in others if cluster.kinds[b] == controller))
    topic = f"isr.{controller}.{follower}"
    leaders = [next(b for b in others if cluster.kinds[b] == kind) for kind in KINDS]
    cluster.create_topic(topic, *([leader, victim] for leader in leaders))
    pid = cluster.pid(victim)
    os.kill(pid, signal.SIGSTOP)
    try:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for partition in range(len(leaders)):
            producer.produce(topic, b"while it stands still", partition=partition)
        assert producer.flush(TIMEOUT_S) == 0  # acks=all: the ISR has shrunk
        for partition, leader in enumerate(leaders):
            cluster.until_isr(topic, partition, [leader])
    finally:
        os.kill(pid, signal.SIGCONT)
    for partition, leader in enumerate(leaders):
        cluster.until_isr(topic, partition, [leader, victim])
    cluster.until_ready()  # its session may have expired
