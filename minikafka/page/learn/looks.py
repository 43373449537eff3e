"""What chapters read of a simulated cluster: of its ZooKeeper, its brokers and their disks.

The functions look at the objects of the simulation: at znodes, and at the entities of the brokers
that are up. They send nothing and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

from minikafka.core.client.assignors.wire import decode_assignment
from minikafka.core.controller.context import ControllerContext
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.member import NOT_JOINED
from minikafka.core.group.group import Group
from minikafka.core.group.records import ModernGroupRecord, decode_record
from minikafka.core.group.result import AnyGroup
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.core.share.records import ShareRecord
from minikafka.core.share.records import decode_record as decode_share_record
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.ports import NoNode
from minikafka.protocol.records.batch import RecordBatch
from minikafka.protocol.records.record import Record, decode_records
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.coordinator.group_facts import facts_of_each
from minikafka.server.node.state_facts import transaction_facts
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import ControllerEpochZnode, TopicZnode
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.world.sim.disk import SimDirectory, SimInode

MAX_FACTS = 1_000

T = TypeVar("T")


def is_up(cluster: SimCluster) -> bool:
    """Return whether all brokers have started and one of them is the active controller."""
    return len(cluster.nodes()) == len(cluster.broker_ids) and bool(active_controllers(cluster))


def active_controllers(cluster: SimCluster) -> dict[int, int]:
    """Return the brokers that believe to be the controller, each with its controller epoch."""
    controllers = {i: node.entities.controller for i, node in cluster.nodes().items()}
    return {i: each.context.epoch for i, each in controllers.items() if each.is_active}


def has_controller(cluster: SimCluster) -> bool:
    """Return whether exactly one broker believes to be the controller."""
    return len(active_controllers(cluster)) == 1


def context(cluster: SimCluster) -> ControllerContext:
    """Return what the active controller knows: of several, the one with the highest epoch."""
    epochs = active_controllers(cluster)
    return cluster.nodes()[max(epochs, key=epochs.__getitem__)].entities.controller.context


def replica_states(cluster: SimCluster, partition: TopicPartition) -> dict[int, str]:
    """Return the state of each replica in the controller's table; empty without the topic."""
    known = context(cluster)
    if partition.topic not in known.all_topics:
        return {}
    replicas = known.assignment(partition).replicas
    return {i: str(known.replica_state(PartitionAndReplica(partition, i))) for i in replicas}


# ---------------------------------------------------------------------------------------- ZooKeeper


def znode(cluster: SimCluster, path: str) -> bytes | None:
    """Return the data of a znode; None if it does not exist."""
    try:
        return cluster.simulation.zookeeper.tree.get(path)[0]
    except NoNode:
        return None


def has_znode(cluster: SimCluster, path: str) -> bool:
    return znode(cluster, path) is not None


def is_registered(cluster: SimCluster, broker: int) -> bool:
    """Return whether the broker's ephemeral znode exists."""
    return has_znode(cluster, paths.broker_id(broker))


def controller_epoch(cluster: SimCluster) -> int:
    """Return the epoch in ``/controller_epoch``; 0 if no controller was elected yet."""
    data = znode(cluster, paths.CONTROLLER_EPOCH)
    return 0 if data is None else ControllerEpochZnode.decode(data).epoch


def assignment(cluster: SimCluster, partition: TopicPartition) -> ReplicaAssignment:
    """Return the assignment in the znode of the topic. Raises NoNode."""
    data, _ = cluster.simulation.zookeeper.tree.get(paths.topic(partition.topic))
    return TopicZnode.decode(partition.topic, data).assignment[partition.partition]


def isr(cluster: SimCluster, partition: TopicPartition) -> tuple[int, ...]:
    """Return the ISR in the state znode of the partition, in its order there. Raises NoNode."""
    return tuple(cluster.state(partition).leader_and_isr.isr)


def in_sync(cluster: SimCluster, partition: TopicPartition) -> tuple[int, ...]:
    """Return the ISR in the state znode of the partition, sorted. Raises NoNode."""
    return tuple(sorted(isr(cluster, partition)))


def leader_epoch(cluster: SimCluster, partition: TopicPartition) -> int:
    """Return the leader epoch in the state znode of the partition. Raises NoNode."""
    return cluster.state(partition).leader_and_isr.leader_epoch


# ----------------------------------------------------------------------------------------- replicas


def log_ends(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    """Return the log end offset of each replica on the brokers that are up."""
    return _of_replicas(cluster, partition, lambda replica: replica.log.log_end_offset)


def log_end(cluster: SimCluster, partition: TopicPartition, broker: int) -> int:
    """Return the log end offset of a replica; -1 if the broker is down or has no such replica."""
    return log_ends(cluster, partition).get(broker, -1)


def log_starts(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    """Return the log start offset of each replica on the brokers that are up."""
    return _of_replicas(cluster, partition, lambda replica: replica.log.log_start_offset)


def batches(cluster: SimCluster, partition: TopicPartition) -> list[RecordBatch]:
    """Return the batches in the log of the partition's leader: their headers, without records."""
    replicas = cluster.replicas(partition).values()
    return [batch for each in replicas if each.is_leader for batch in each.log.batches_from(0)]


def high_watermarks(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    """Return the high watermark as each replica on the brokers that are up knows it."""
    return _of_replicas(cluster, partition, lambda replica: replica.high_watermark)


def high_watermark(cluster: SimCluster, partition: TopicPartition, broker: int) -> int:
    """Return the high watermark as a replica knows it; -1 if there is no such replica."""
    return high_watermarks(cluster, partition).get(broker, -1)


def _of_replicas(
    cluster: SimCluster, partition: TopicPartition, read: Callable[[Partition], T]
) -> dict[int, T]:
    replicas = cluster.replicas(partition)
    return {i: read(each) for i, each in replicas.items() if each.has_log}


def leaders(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    """Return the brokers that believe to lead a partition, each with its leader epoch."""
    replicas = cluster.replicas(partition)
    return {i: each.leader_epoch for i, each in replicas.items() if each.is_leader}


def is_led(cluster: SimCluster, partition: TopicPartition, broker: int) -> bool:
    """Return whether a broker that is up leads the partition, and ZooKeeper says so, too."""
    try:
        return broker in leaders(cluster, partition) and cluster.leader(partition) == broker
    except NoNode:
        return False


def directories(cluster: SimCluster, broker: int, topic: str) -> list[str]:
    """Return the names of the directories of a topic on a broker's disk, also if it is down."""
    found = cluster.host(broker).disk.find("/data")
    entries = getattr(found, "entries", {})
    return sorted(name for name in entries if name.startswith(f"{topic}-"))


# ------------------------------------------------------------------------------------- coordinators


def group(cluster: SimCluster, name: str) -> dict[str, Any] | None:
    """Return the facts of a group with its ``coordinator``; None if no broker knows it."""
    for broker, node in cluster.nodes().items():
        for facts in facts_of_each(node.entities.groups, MAX_FACTS):
            if facts["group"] == name:
                return {**facts, "coordinator": broker}
    return None


def shares(cluster: SimCluster, name: str) -> dict[str, list[int]]:
    """Return the partitions of each member of a group, by member id; empty if no broker knows the
    group, or while the leader of a classic group has not assigned any.

    Those of a member that has yet to revoke some are the others.
    """
    _, found = _group(cluster, name) or (None, None)
    if isinstance(found, Group):
        return {each.member_id: _partitions(each.assignment) for each in found.members.values()}
    if isinstance(found, ConsumerGroup):
        current = {member: found.current.get(member, NOT_JOINED) for member in found.members}
        return {member: sorted(chain(*each.assigned.values())) for member, each in current.items()}
    if isinstance(found, ShareGroup):
        joined = found.current.items()
        return {member: sorted(chain(*each.assigned.values())) for member, each in joined}
    return {}


def _group(cluster: SimCluster, name: str) -> tuple[int, AnyGroup] | None:
    """Return a group and the partition of ``__consumer_offsets`` that has it."""
    for node in cluster.nodes().values():
        for context, found in node.entities.groups.groups():
            if found.group_id == name:
                return context.partition, found
    return None


def _partitions(assignment: bytes) -> list[int]:
    if not assignment:
        return []
    return sorted(partition.partition for partition in decode_assignment(assignment))


def group_partition(cluster: SimCluster, name: str) -> TopicPartition | None:
    """Return the partition of ``__consumer_offsets`` that has a group; None if no broker knows
    it."""
    found = _group(cluster, name)
    return None if found is None else TopicPartition(GROUP_METADATA_TOPIC, found[0])


def group_records(cluster: SimCluster, name: str) -> list[ModernGroupRecord]:
    """Return the records of a consumer group of KIP-848, without its committed offsets, from the
    files of its coordinator: in the order of the log, as far as it is not compacted."""
    partition = group_partition(cluster, name)
    if partition is None:
        return []
    records = _stored_records(cluster, partition)
    decoded = (decode_record(each.key or b"", each.value) for each in records)
    return [
        each for each in decoded if isinstance(each, ModernGroupRecord) and each.group_id == name
    ]


def _stored_records(cluster: SimCluster, partition: TopicPartition) -> Iterator[Record]:
    """Iterate over the records in the files of a partition's leader."""
    logs = _log_files(cluster, cluster.leader(partition), partition)
    return chain.from_iterable(map(decode_records, logs))


def _log_files(cluster: SimCluster, broker: int, partition: TopicPartition) -> list[bytes]:
    """Return the contents of the segments of a replica, in their order."""
    directory = cluster.host(broker).disk.find(f"/data/{partition}")
    assert isinstance(directory, SimDirectory)
    files = sorted(directory.entries.items())
    return [
        bytes(file.data)
        for name, file in files
        if name.endswith(".log") and isinstance(file, SimInode)
    ]


def share_partition(
    cluster: SimCluster, name: str, partition: TopicPartition
) -> dict[str, Any] | None:
    """Return what the leader of a partition knows of the records that a share group reads there.

    Those from ``start`` to ``end``, both inclusive, are in flight: ``records`` has for each offset
    the state, the member that has acquired it, and how often it was delivered. Of several brokers
    that believe to lead, the one with the highest leader epoch counts. None while no leader has
    read the stored state."""
    found = {
        led.leader_epoch: (broker, led.machine)
        for broker, node in cluster.nodes().items()
        for led in node.entities.shares
        if (led.key.group_id, led.topic_partition) == (name, partition) and led.machine
    }
    if not found:
        return None
    leader, machine = found[max(found)]
    records = {
        offset: (delivery.state.name, delivery.member_id, delivery.count)
        for first, last, delivery in machine.states()
        for offset in range(max(first, machine.start_offset), last + 1)
    }
    bounds = {"start": machine.start_offset, "end": machine.end_offset}
    return {"leader": leader, **bounds, "records": records}


def share_records(cluster: SimCluster, name: str) -> list[ShareRecord]:
    """Return the records of a share group in ``__share_group_state``, from the files of the share
    coordinators: in the order of each log."""
    data, _ = cluster.simulation.zookeeper.tree.get(paths.topic(SHARE_GROUP_STATE_TOPIC))
    numbers = sorted(TopicZnode.decode(SHARE_GROUP_STATE_TOPIC, data).assignment)
    places = [TopicPartition(SHARE_GROUP_STATE_TOPIC, number) for number in numbers]
    stored = chain.from_iterable(_stored_records(cluster, place) for place in places)
    decoded = (decode_share_record(each.key or b"", each.value) for each in stored)
    return [each for each in decoded if each is not None and each.key.group_id == name]


def transaction(cluster: SimCluster, transactional_id: str) -> dict[str, Any] | None:
    """Return the facts of a transactional id with its ``coordinator``; None if no coordinator knows
    it."""
    for broker, node in cluster.nodes().items():
        for each in node.entities.transactions.all_transactions():
            if each.transactional_id == transactional_id:
                return {**transaction_facts(each), "coordinator": broker}
    return None


# ------------------------------------------------------------------------- purgatories and sessions


def purgatory(cluster: SimCluster, broker: int, name: str) -> Purgatory[DelayedOperation]:
    """Return a purgatory of a broker that is up."""
    reapers = cluster.nodes()[broker].entities.purgatories
    return next(each.purgatory for each in reapers if each.purgatory.name == name)


def parked(cluster: SimCluster, broker: int, name: str) -> int:
    """Return how many delayed operations are in a purgatory of a broker."""
    return purgatory(cluster, broker, name).delayed


def slots(purgatory: Purgatory[DelayedOperation], level: int) -> dict[int, int]:
    """Return the slots with tasks on one level of a purgatory's wheels, with their numbers."""
    levels = purgatory.levels()
    if level > len(levels):
        return {}
    return {slot: count for slot, count in enumerate(levels[level - 1].tasks_by_slot) if count}


def sessions(cluster: SimCluster, broker: int) -> list[dict[str, int | bool]]:
    """Return the facts of the fetch sessions that a broker keeps."""
    return cluster.nodes()[broker].entities.fetch_sessions.facts(MAX_FACTS)
