"""The real World: this machine's clock, network, files, ZooKeeper and randomness, on uvloop."""

from __future__ import annotations

from minikafka.kernel.ports import CoordinationSession, World
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.world.real.clock import RealClock
from minikafka.world.real.entropy import RealEntropy
from minikafka.world.real.files import RealFiles
from minikafka.world.real.kerberos import RealKerberos
from minikafka.world.real.loop import run
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.workers import RealWorkers

__all__ = ["real_world", "run"]


class Zookeeper:
    """Opens ZooKeeper sessions (``RealCoordination``). The first one imports kazoo, which clients
    do not need."""

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        from minikafka.world.real.zookeeper import RealCoordination

        open_session = RealCoordination().open
        return await open_session(connect, session_timeout_ms, connection_timeout_ms, security)


def real_world() -> World:
    """The ports of this machine."""
    return World(
        RealClock(),
        RealNetwork(),
        RealFiles(),
        Zookeeper(),
        RealEntropy(),
        RealWorkers(),
        RealKerberos(),
    )
