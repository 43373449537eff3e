"""The World inside a process: this machine's clock and network, files and ZooKeeper in memory."""

from __future__ import annotations

from minikafka.kernel.ports import World
from minikafka.world.memory.coordination import MemoryZookeeper
from minikafka.world.memory.file_tree import FileTree
from minikafka.world.memory.files import MemoryFiles
from minikafka.world.real.clock import RealClock
from minikafka.world.real.entropy import RealEntropy
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.workers import RealWorkers


def inside_world(zookeeper: MemoryZookeeper, tree: FileTree) -> World:
    """The ports of one broker. ``zookeeper`` is shared by the brokers of a cluster; ``tree``
    outlives the broker, as a disk does."""
    return World(
        RealClock(),
        RealNetwork(),
        MemoryFiles(tree),
        zookeeper,
        RealEntropy(),
        RealWorkers(),
    )
