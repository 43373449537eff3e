"""What chapters read of a simulated cluster: of its ZooKeeper, its brokers and their disks.

The functions look at the objects of the simulation directly. They send nothing and change nothing.
"""

from __future__ import annotations

from typing import Any

from minikafka.core.client.assignors.wire import decode_assignment
from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import PartitionAndReplica, ReplicaAssignment, TopicPartition
from minikafka.kernel.ports import NoNode
from minikafka.protocol.records.batch import RecordBatch
from minikafka.server.coordinator.group_facts import facts_of_each
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import TopicZnode
from minikafka.testing.simulator.cluster import SimCluster

MAX_FACTS = 1_000


def is_up(cluster: SimCluster) -> bool:
    """Return whether all brokers have started and one of them is the active controller."""
    return len(cluster.nodes()) == len(cluster.broker_ids) and bool(active_controllers(cluster))


def active_controllers(cluster: SimCluster) -> dict[int, int]:
    """Return the brokers that believe to be the controller, each with its controller epoch."""
    controllers = {i: node.controller for i, node in cluster.nodes().items()}
    return {i: each.context.epoch for i, each in controllers.items() if each.is_active}


def context(cluster: SimCluster) -> ControllerContext:
    """Return what the active controller knows: of several, the one with the highest epoch."""
    epochs = active_controllers(cluster)
    return cluster.nodes()[max(epochs, key=epochs.__getitem__)].controller.context


def replica_states(cluster: SimCluster, partition: TopicPartition) -> dict[int, str]:
    """Return the state of each replica in the controller's table; empty without the topic."""
    known = context(cluster)
    if partition.topic not in known.all_topics:
        return {}
    replicas = known.assignment(partition).replicas
    return {i: str(known.replica_state(PartitionAndReplica(partition, i))) for i in replicas}


# ---------------------------------------------------------------------------------------- ZooKeeper


def has_znode(cluster: SimCluster, path: str) -> bool:
    try:
        cluster.simulation.zookeeper.tree.get(path)
    except NoNode:
        return False
    return True


def assignment(cluster: SimCluster, partition: TopicPartition) -> ReplicaAssignment:
    """Return the assignment in the znode of the topic. Raises NoNode."""
    data, _ = cluster.simulation.zookeeper.tree.get(paths.topic(partition.topic))
    return TopicZnode.decode(partition.topic, data).assignment[partition.partition]


def isr(cluster: SimCluster, partition: TopicPartition) -> tuple[int, ...]:
    """Return the ISR in the state znode of the partition, sorted. Raises NoNode."""
    return tuple(sorted(cluster.state(partition).leader_and_isr.isr))


# ----------------------------------------------------------------------------------------- replicas


def log_ends(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    """Return the log end offset of each replica on the brokers that are up."""
    replicas = cluster.replicas(partition)
    return {i: each.log.log_end_offset for i, each in replicas.items() if each.has_log}


def log_starts(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    """Return the log start offset of each replica on the brokers that are up."""
    replicas = cluster.replicas(partition)
    return {i: each.log.log_start_offset for i, each in replicas.items() if each.has_log}


def batches(cluster: SimCluster, partition: TopicPartition) -> list[RecordBatch]:
    """Return the batches in the log of the partition's leader: their headers, without records."""
    replicas = cluster.replicas(partition).values()
    return [batch for each in replicas if each.is_leader for batch in each.log.batches_from(0)]


def high_watermarks(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    replicas = cluster.replicas(partition)
    return {i: each.high_watermark for i, each in replicas.items() if each.has_log}


def leaders(cluster: SimCluster, partition: TopicPartition) -> dict[int, int]:
    """Return the brokers that believe to lead a partition, each with its leader epoch."""
    replicas = cluster.replicas(partition)
    return {i: each.leader_epoch for i, each in replicas.items() if each.is_leader}


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
    group, or while the leader has not assigned any."""
    for node in cluster.nodes().values():
        for _, found in node.entities.groups.groups():
            if found.group_id == name and found.members:
                members = found.members.values()
                return {each.member_id: _partitions(each.assignment) for each in members}
    return {}


def _partitions(assignment: bytes) -> list[int]:
    if not assignment:
        return []
    return sorted(partition.partition for partition in decode_assignment(assignment))


def parked(cluster: SimCluster, broker: int, purgatory: str) -> int:
    """Return how many delayed operations are in a purgatory of a broker."""
    reapers = cluster.nodes()[broker].entities.purgatories
    return sum(each.purgatory.delayed for each in reapers if each.purgatory.name == purgatory)


def sessions(cluster: SimCluster, broker: int) -> list[dict[str, int | bool]]:
    """Return the facts of the fetch sessions that a broker keeps."""
    return cluster.nodes()[broker].entities.fetch_sessions.facts(MAX_FACTS)


def transaction(cluster: SimCluster, transactional_id: str) -> dict[str, Any] | None:
    """Return the facts of a transactional id; None if no coordinator knows it."""
    for broker, node in cluster.nodes().items():
        for each in node.entities.transactions.all_transactions():
            if each.transactional_id == transactional_id:
                return {
                    "coordinator": broker,
                    "state": each.facts.state.title,
                    "producer_id": each.facts.producer_id,
                    "producer_epoch": each.facts.producer_epoch,
                    "partitions": sorted(str(tp) for tp in each.facts.partitions),
                }
    return None
