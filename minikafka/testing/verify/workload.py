"""What the workloads of a run share: its settings, its scene, and how it calls them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import ClassVar, Protocol, TypeAlias

from minikafka.client import Admin, ClientConfig
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World
from minikafka.testing.verify.finding import Finding

TOPIC_PREFIX = "minikafka-verify-"
UNREACHABLE = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The settings of a run.

    ``replication_factor`` -1: three, or the number of brokers. ``topic`` empty: a new name. The
    topics are deleted after a run without findings, unless ``keep_topic``.
    """

    duration_ms: int = 30_000
    producers: int = 3
    consumers: int = 2
    partitions: int = 6
    replication_factor: int = -1
    records_per_s: int = 1_000
    value_bytes: int = 100
    idempotent: bool = True
    topic: str = ""
    keep_topic: bool = False
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 120_000


class Scene:
    """The cluster, the settings and the time of a run.

    ``run`` is 8 hexadecimal digits, a part of all names and values. ``stop`` ends the loads, which
    have begun at ``began_ms`` of the clock."""

    def __init__(self, world: World, client: ClientConfig, config: RunConfig) -> None:
        self.world = world
        self.client = client
        self.config = config
        self.run = world.entropy.random_bytes(4).hex()
        self.topic = config.topic or f"{TOPIC_PREFIX}{self.run}"
        self.stop = asyncio.Event()
        self.began_ms = world.clock.monotonic_ms()

    def topic_of(self, workload: str) -> str:
        """Return the name of the topic that a workload has beside others."""
        return f"{self.topic}-{workload}"

    def begin(self) -> None:
        self.began_ms = self.world.clock.monotonic_ms()

    def now_ms(self) -> int:
        """Return the milliseconds since the loads began."""
        return self.world.clock.monotonic_ms() - self.began_ms

    async def sleep(self, milliseconds: int) -> None:
        await self.world.clock.sleep(milliseconds)

    async def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic with the run's replicas, and wait until it is usable. An acknowledged
        record is in two of three replicas. Raises KafkaError, and ConnectionError if no address of
        ``bootstrap_servers`` responds."""
        partitions = self.config.partitions if partitions is None else partitions
        async with Admin(self.world, self.client) as admin:
            copies = self.config.replication_factor
            brokers = await self._count_brokers(admin)
            if copies < 1:
                copies = min(3, brokers)
            # An acknowledged record with only one copy may be lost with its broker.
            least = {"min.insync.replicas": "2" if copies > 2 else "1"}
            settings = {**least, **self.config.topic_configs, **(configs or {})}
            await admin.create_topic(name, partitions, copies, settings)
            await admin.wait_for_topic(name, partitions)

    async def _count_brokers(self, admin: Admin) -> int:
        try:
            return len((await admin.describe_cluster()).nodes)
        except KafkaError as error:
            silent = error.retriable and error.code in UNREACHABLE
            if silent and not admin.session.metadata.view.nodes:
                servers = self.client.bootstrap_servers
                raise ConnectionError(
                    f"no broker responded at {servers}; the last error was {error}"
                ) from error
            raise


class Workload(Protocol):
    """One kind of load on topics of its own, and its judge.

    A run calls ``prepare``, ``load``, ``conclude`` and ``judge`` in this order. ``promise`` is what
    holds if nothing is found, in words."""

    name: ClassVar[str]
    promise: ClassVar[str]
    topics: list[str]

    async def prepare(self) -> None:
        """Create topics. Raises KafkaError if the brokers cannot serve the load at all, and
        ConnectionError if no broker responds."""
        ...

    async def load(self) -> None:
        """Work until ``stop`` is set, then until all that was begun has ended. Faults of brokers
        are waited for, and do not raise."""
        ...

    async def conclude(self) -> None:
        """Read what the final state is. Raises KafkaError if it cannot be read."""
        ...

    def judge(self) -> list[Finding]:
        """Return what the history breaks."""
        ...

    def evidence(self, finding: Finding) -> Iterator[str]:
        """Yield what happened to what a finding is about, line by line in the order of time."""
        ...

    def counts(self) -> dict[str, int]:
        """Return what was done so far. The first one grows with each success. Keys are words with
        ``_`` between them; one that ends with ``_ms`` is a time."""
        ...


MakeWorkload: TypeAlias = Callable[[Scene], Workload]
