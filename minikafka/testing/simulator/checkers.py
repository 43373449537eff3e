"""Checks of a simulated cluster: at every election, and at rest.

A cluster is at rest when its brokers are up, no client writes, and all records are replicated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Buffer
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.storage.log.invariants import check_log
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import BrokerZnode, ControllerEpochZnode, TopicZnode
from minikafka.testing.simulator.cluster import LogEvent, SimCluster

ALL_BYTES = 1 << 40


class WrittenRecords(Protocol):
    """The records that a load has sent, and the acknowledged ones, by partition."""

    @property
    def sent(self) -> Mapping[TopicPartition, Sequence[bytes]]:
        """The values in the order in which they were sent."""
        ...

    @property
    def acknowledged(self) -> Mapping[TopicPartition, Mapping[bytes, int]]:
        """The offsets of the values that the cluster has acknowledged."""
        ...


class ElectionChecker:
    """An observer that checks each election and each truncation in the brokers' event logs.

    A leader epoch of a partition has one leader, whose log contains all committed records. No
    follower truncates below its high watermark, since elections are clean. Records below the
    highest high watermark of any broker, read at each event, are committed.
    """

    def __init__(self, cluster: SimCluster, partitions: Iterable[TopicPartition]) -> None:
        self.leaders: dict[tuple[str, int], int] = {}
        self.committed: dict[str, int] = defaultdict(int)
        self._cluster = cluster
        self._partitions = {str(partition): partition for partition in partitions}

    def __call__(self, event: LogEvent) -> None:
        if event.name == "replica_became_leader" and event.facts["partition"] in self._partitions:
            self._check(event)
        if event.name == "replica_truncated" and event.facts["partition"] in self._partitions:
            assert event.facts["offset"] >= event.facts["high_watermark"], f"{event}"
        for name, partition in self._partitions.items():
            high_watermarks = [p.high_watermark for p in self._cluster.replicas(partition).values()]
            self.committed[name] = max(self.committed[name], *high_watermarks, 0)

    def _check(self, event: LogEvent) -> None:
        partition, epoch = event.facts["partition"], event.facts["leader_epoch"]
        broker, start_offset = event.facts["broker"], event.facts["start_offset"]
        first = self.leaders.setdefault((partition, epoch), broker)
        assert first == broker, f"{partition} epoch {epoch} led by {first} and {broker}"
        committed = self.committed[partition]
        assert start_offset >= committed, f"{event}: {committed} records were committed"


def check_acknowledged(
    writer: WrittenRecords,
    found: dict[TopicPartition, dict[int, bytes]],
    starts: Mapping[TopicPartition, int],
) -> None:
    """Check that acknowledged records from ``starts`` on are not lost, moved or out of order.

    ``found`` has the records in the logs by offset. There may be none below ``starts``, and only
    records that were sent. An acknowledged offset of -1 is unknown: the broker reported a
    duplicate.
    """
    for partition, offsets in writer.acknowledged.items():
        held, start = found[partition], starts.get(partition, 0)
        assert min(held, default=start) >= start, f"{partition}: {min(held)} is below {start}"
        lost = [(v, o) for v, o in offsets.items() if o >= start and held.get(o) != v]
        assert not lost, f"{partition}: {len(lost)} acknowledged records not there: {lost[:5]}"
        if start == 0:
            absent = {v for v, o in offsets.items() if o < 0} - set(held.values())
            assert not absent, f"{partition}: acknowledged records not there: {sorted(absent)[:5]}"
        order = [offsets[v] for v in writer.sent[partition] if offsets.get(v, -1) >= 0]
        assert order == sorted(order), f"{partition}: acknowledged records out of order"
    for partition, held in found.items():
        not_sent = set(held.values()) - set(writer.sent[partition])
        assert not not_sent, f"{partition}: {sorted(not_sent)[:5]} were never sent"


def check_replicas_alike(
    cluster: SimCluster, partition: TopicPartition, brokers: Iterable[int] | None = None
) -> None:
    """Check that the replicas on ``brokers`` (default: on all) are equal byte by byte.

    Each must be valid, and its high watermark its log end offset. Call it at rest.
    """
    expected = sorted(cluster.broker_ids if brokers is None else brokers)
    replicas = cluster.replicas(partition)
    assert sorted(replicas) == expected, f"{partition} is on {sorted(replicas)}, not on {expected}"
    ends = {i: (r.high_watermark, r.log.log_end_offset) for i, r in replicas.items()}
    assert len(set(ends.values())) == 1, f"{partition}: high watermarks, ends {ends}"
    mark, end = next(iter(ends.values()))
    assert mark == end, f"{partition}: {end - mark} records are not committed at rest"
    for replica in replicas.values():
        check_log(replica.log)
    contents = {bytes(_content(replica)) for replica in replicas.values()}
    assert len(contents) == 1, f"{partition}: the replicas differ below {mark}"


def _content(replica: Partition) -> Buffer:
    log = replica.log
    mark = replica.high_watermark
    if mark == log.log_start_offset:
        return b""
    return log.read(log.log_start_offset, ALL_BYTES, mark, True).records


def check_context(cluster: SimCluster) -> None:
    """Check at rest that the broker in /controller is the only active controller, and that its
    context equals the data in ZooKeeper."""
    active = [node for node in cluster.nodes().values() if node.entities.controller.is_active]
    named = cluster.controller_id()
    active_ids = [node.broker_id for node in active]
    assert active_ids == [named], f"{active_ids} are active controllers, /controller names {named}"
    context = active[0].entities.controller.context
    tree = cluster.simulation.zookeeper.tree
    data, stat = tree.get(paths.CONTROLLER_EPOCH)
    epoch = ControllerEpochZnode.decode(data).epoch
    assert (context.epoch, context.epoch_zk_version) == (epoch, stat.version)
    registered = {}
    for name in tree.children(paths.BROKER_IDS):
        data, stat = tree.get(paths.broker_id(int(name)))
        registered[int(name)] = BrokerZnode.decode(int(name), data).broker(stat.czxid)
    assert context.brokers == registered
    topics = tree.children(paths.TOPICS)
    assert sorted(context.all_topics) == topics
    for topic in topics:
        node = TopicZnode.decode(topic, tree.get(paths.topic(topic))[0])
        assert context.topic_ids.get(topic) == node.topic_id
        assert context.assignments[topic] == node.assignment
        for number in node.assignment:
            partition = TopicPartition(topic, number)
            assert context.leadership[partition] == cluster.state(partition)


def check_leadership_known(cluster: SimCluster, partition: TopicPartition) -> None:
    """Check that leader, replicas and all metadata caches agree with the state znode at rest."""
    state = cluster.state(partition).leader_and_isr
    for broker_id, replica in cluster.replicas(partition).items():
        assert replica.is_leader == (broker_id == state.leader)
        assert replica.leader_epoch == state.leader_epoch
        if replica.is_leader:
            assert replica.state.isr.committed == state.isr
            assert replica.state.zk_version == state.zk_version
    for node in cluster.nodes().values():
        known = node.entities.metadata.partition(partition)
        assert known is not None
        assert (known.leader, known.leader_epoch) == (state.leader, state.leader_epoch)
        assert tuple(known.isr) == tuple(state.isr), f"broker {node.broker_id} knows {known.isr}"


def check_at_rest(cluster: SimCluster, partitions: Iterable[TopicPartition]) -> None:
    """Run all checks of a cluster at rest."""
    check_context(cluster)
    for partition in partitions:
        check_leadership_known(cluster, partition)
        check_replicas_alike(cluster, partition)
