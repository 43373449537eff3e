"""The real World: this machine's clock, network, files, ZooKeeper and randomness, on uvloop."""

from __future__ import annotations

from minikafka.kernel.ports import World
from minikafka.world.real.clock import RealClock
from minikafka.world.real.entropy import RealEntropy
from minikafka.world.real.files import RealFiles
from minikafka.world.real.kerberos import RealKerberos
from minikafka.world.real.loop import run
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.workers import RealWorkers
from minikafka.world.real.zookeeper import RealCoordination

__all__ = ["real_world", "run"]


def real_world() -> World:
    """The ports of this machine."""
    return World(
        RealClock(),
        RealNetwork(),
        RealFiles(),
        RealCoordination(),
        RealEntropy(),
        RealWorkers(),
        RealKerberos(),
    )
