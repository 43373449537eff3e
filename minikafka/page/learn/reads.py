"""What chapters read from the simulated cluster for their conditions and checks."""

from __future__ import annotations

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import NoNode
from minikafka.server.node.broker import BrokerNode
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import ControllerEpochZnode
from minikafka.testing.simulator.cluster import SimCluster


def log_end(cluster: SimCluster, partition: TopicPartition, broker: int) -> int:
    """Return the log end offset of a replica; -1 if the broker is down or has no such replica."""
    replica = cluster.replicas(partition).get(broker)
    return -1 if replica is None else replica.log.log_end_offset


def high_watermark(cluster: SimCluster, partition: TopicPartition, broker: int) -> int:
    """Return the high watermark as a replica knows it; -1 if there is no such replica."""
    replica = cluster.replicas(partition).get(broker)
    return -1 if replica is None else replica.high_watermark


def isr(cluster: SimCluster, partition: TopicPartition) -> tuple[int, ...]:
    """Return the ISR in ZooKeeper, in its order there."""
    return tuple(cluster.state(partition).leader_and_isr.isr)


def leader_epoch(cluster: SimCluster, partition: TopicPartition) -> int:
    """Return the leader epoch in ZooKeeper."""
    return cluster.state(partition).leader_and_isr.leader_epoch


def is_led(cluster: SimCluster, partition: TopicPartition, broker: int) -> bool:
    """Return whether a broker that is up leads the partition, and ZooKeeper says so, too."""
    replica = cluster.replicas(partition).get(broker)
    try:
        return replica is not None and replica.is_leader and cluster.leader(partition) == broker
    except NoNode:
        return False


def purgatory(cluster: SimCluster, broker: int, name: str) -> Purgatory[DelayedOperation]:
    """Return a purgatory of a broker that is up."""
    for reaper in cluster.nodes()[broker].entities.purgatories:
        if reaper.purgatory.name == name:
            return reaper.purgatory
    raise KeyError(name)


def wake_ups(cluster: SimCluster, broker: int, name: str) -> int:
    """Return how often the reaper of a purgatory has woken up."""
    for reaper in cluster.nodes()[broker].entities.purgatories:
        if reaper.purgatory.name == name:
            return reaper.wake_ups
    raise KeyError(name)


def slots(cluster: SimCluster, broker: int, name: str, level: int) -> dict[int, int]:
    """Return the slots with tasks on one level of a purgatory's wheels, with their numbers."""
    levels = purgatory(cluster, broker, name).levels()
    if level > len(levels):
        return {}
    return {slot: count for slot, count in enumerate(levels[level - 1].tasks_by_slot) if count}


def hand(cluster: SimCluster, broker: int, name: str, level: int) -> int:
    """Return the slot at which the hand of one level stands."""
    wheel = purgatory(cluster, broker, name).levels()[level - 1]
    return wheel.current_time_ms // wheel.tick_ms % wheel.wheel_size


def znode(cluster: SimCluster, path: str) -> bytes | None:
    """Return the data of a znode; None if it does not exist."""
    try:
        return cluster.simulation.zookeeper.tree.get(path)[0]
    except NoNode:
        return None


def is_registered(cluster: SimCluster, broker: int) -> bool:
    """Return whether the broker's ephemeral znode exists."""
    return znode(cluster, paths.broker_id(broker)) is not None


def controller_epoch(cluster: SimCluster) -> int:
    """Return the epoch in ``/controller_epoch``; 0 if no controller was elected yet."""
    data = znode(cluster, paths.CONTROLLER_EPOCH)
    return 0 if data is None else ControllerEpochZnode.decode(data).epoch


def active_controllers(cluster: SimCluster) -> list[int]:
    """Return the brokers whose controller is active."""
    return [b for b, node in cluster.nodes().items() if node.controller.is_active]


def controller(cluster: SimCluster) -> BrokerNode | None:
    """Return the only broker whose controller is active; None if there is none."""
    active = active_controllers(cluster)
    return cluster.nodes()[active[0]] if len(active) == 1 else None
