"""The nemesis: causes the faults of its plan, waits until the cluster is whole, and keeps times."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from statistics import median
from typing import Any, Final

from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig
from minikafka.core.client.cluster_view import Node
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World
from minikafka.testing.verify.nemesis.health import ClusterHealth
from minikafka.testing.verify.nemesis.placement import PlacementPlace
from minikafka.testing.verify.nemesis.places import NemesisPlace
from minikafka.testing.verify.nemesis.plan import (
    BY_REQUEST,
    FaultKind,
    PlannedFault,
    plan,
    spare_brokers,
)

TICK_MS: Final = 100  # between two checks of ``stop``
FIRST_LIMIT_MS: Final = 60_000  # for a cluster to be whole before the first fault


@dataclass(frozen=True, slots=True)
class NemesisConfig:
    """The settings of a nemesis. ``replication_factor`` (-1: three, or the number of brokers) and
    ``min_insync_replicas`` (0: two of three) are those of the run's topics. With ``is_choosy``,
    kinds that no place can cause are left out."""

    kinds: tuple[FaultKind, ...]
    seed: int
    replication_factor: int = -1
    min_insync_replicas: int = 0
    longest_ms: int = 15_000
    calm_ms: int = 5_000
    recovery_limit_ms: int = 300_000
    is_choosy: bool = False


@dataclass(slots=True)
class CausedFault:
    """A fault with its times in ms since the run began; -1 if it did not come to that."""

    fault: PlannedFault
    began_ms: int
    ended_ms: int = -1
    whole_ms: int = -1
    failure: str = ""  # of a request that should have caused it

    @property
    def recovery_ms(self) -> int:
        """From the end of the fault until the cluster is whole; -1 if it is not."""
        return -1 if self.whole_ms < 0 else self.whole_ms - self.ended_ms

    def __str__(self) -> str:
        lasted_s = (self.ended_ms - self.began_ms) / 1000
        text = f"{self.began_ms / 1000:8.1f} s  {self.fault} for {lasted_s:.1f} s"
        if self.failure:
            text += f", failed: {self.failure}"
        if self.whole_ms < 0:
            return f"{text}, not whole afterwards"
        return f"{text}, whole {self.recovery_ms / 1000:.1f} s later"

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.fault.kind.value,
            "brokers": [victim for victim in self.fault.victims if victim >= 0],
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "whole_ms": self.whole_ms,
            **({"failure": self.failure} if self.failure else {}),
        }


class ClusterNemesis:
    """The nemesis of a run: ``prepare`` once, then ``run`` once.

    ``places`` are asked in their order; faults by requests need none. The names of the run's topics
    begin with ``prefix``.
    """

    def __init__(
        self,
        world: World,
        client: ClientConfig,
        config: NemesisConfig,
        places: Sequence[NemesisPlace],
        prefix: str,
    ) -> None:
        self._world = world
        self._client = client
        self._config = config
        self._places = [*places, PlacementPlace(lambda: Admin(world, client), prefix)]
        self._place_of: dict[FaultKind, NemesisPlace] = {}
        self._nodes: dict[int, Node] = {}
        self._started_ms = world.clock.monotonic_ms()
        self.left_out: dict[FaultKind, str] = {}  # with the reason
        self.caused: list[CausedFault] = []
        self.complaint = ""  # why it ended before its time, in words

    @property
    def ok(self) -> bool:
        """Whether all faults could be caused, and the cluster was whole after each."""
        return not self.complaint

    # --------------------------------------------------------------------------------------- before

    async def prepare(self) -> None:
        """Find the place for each kind of fault. Nothing is broken yet.

        Raises ConfigError if a fault cannot be caused, a place is not that of the cluster, or the
        cluster is not whole; OSError and KafkaError if a place or the cluster does not respond.
        """
        async with Admin(self._world, self._client) as admin:
            cluster = await admin.describe_cluster()
        self._nodes = {node.id: node for node in cluster.nodes}
        for place in self._places:
            await place.check(self._nodes)
        for kind in self._config.kinds:
            self._choose_place(kind)
        if not self._place_of:
            raise ConfigError(f"no fault can be caused: {self._reasons()}")
        async with self._new_health() as health:
            found = await health.until_whole(FIRST_LIMIT_MS)
        if found.problem:
            raise ConfigError(f"the cluster is not whole before the first fault: {found.problem}")

    def _choose_place(self, kind: FaultKind) -> None:
        refusals = [(place.refusal(kind), place) for place in self._places]
        for refusal, place in refusals:
            if not refusal:
                self._place_of[kind] = place
                return
        # The last place makes requests; the one before it is where the brokers are.
        reason, _ = refusals[-1] if kind in BY_REQUEST else refusals[-2:][0]
        self.left_out[kind] = reason
        if not self._config.is_choosy:
            raise ConfigError(f"--nemesis {self._reasons()}")

    def _reasons(self) -> str:
        return "; ".join(f"{kind.value}: {why}" for kind, why in self.left_out.items())

    def _new_health(self) -> ClusterHealth:
        return ClusterHealth(self._world, self._client, self._nodes)

    # --------------------------------------------------------------------------------------- faults

    async def run(self, stop: asyncio.Event) -> None:
        """Cause faults until ``stop`` is set. All of them have ended when this returns or raises.

        Ends early, with a ``complaint``, if a place cannot cause or end a fault after all, or the
        cluster does not become whole.
        """
        config = self._config
        if not self._nodes:
            await self.prepare()
        self._started_ms = self._world.clock.monotonic_ms()
        victims = {kind: place.victims(kind) for kind, place in self._place_of.items()}
        faults = plan(config.seed, victims, self._spare(), config.longest_ms, config.calm_ms)
        try:
            async with self._new_health() as health:
                for fault in faults:
                    await self._sleep(fault.calm_ms, stop)
                    if stop.is_set():
                        return
                    await self._cause(fault, stop)
                    if not self.complaint:
                        await self._recover(health, self.caused[-1])
                    if self.complaint:
                        return
        finally:
            await uncancelled(self._close())

    def _spare(self) -> int:
        copies = self._config.replication_factor
        if copies < 1:
            copies = min(3, len(self._nodes))
        return spare_brokers(copies, self._config.min_insync_replicas or (2 if copies > 2 else 1))

    async def _cause(self, fault: PlannedFault, stop: asyncio.Event) -> None:
        """Cause a fault, and end it in any case."""
        place, caused = self._place_of[fault.kind], CausedFault(fault, self._now_ms())
        self.caused.append(caused)
        try:
            try:
                await place.begin(fault)
                await self._sleep(fault.duration_ms, stop)
            except KafkaError as error:  # of a request, which may have been too much just now
                caused.failure = str(error)
            finally:
                await uncancelled(place.end(fault))
        except (KafkaError, OSError) as error:
            self.complaint = f"{fault} failed: {error}"
        caused.ended_ms = self._now_ms()

    async def _recover(self, health: ClusterHealth, caused: CausedFault) -> None:
        found = await health.until_whole(self._config.recovery_limit_ms)
        if found.problem:
            limit_s = self._config.recovery_limit_ms // 1000
            self.complaint = (
                f"after {caused.fault} the cluster is not whole within {limit_s} s: {found.problem}"
            )
        else:
            caused.whole_ms = max(found.since_ms - self._started_ms, caused.ended_ms)

    async def _close(self) -> None:
        for place in self._places:
            try:
                await place.close()
            except KafkaError as error:
                self.complaint = self.complaint or f"replicas are not where they were: {error}"

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms() - self._started_ms

    async def _sleep(self, duration_ms: int, stop: asyncio.Event) -> None:
        deadline_ms = self._now_ms() + duration_ms
        while not stop.is_set() and (left_ms := deadline_ms - self._now_ms()) > 0:
            await self._world.clock.sleep(min(TICK_MS, left_ms))

    # -------------------------------------------------------------------------------------- results

    def recoveries(self) -> dict[FaultKind, list[int]]:
        """Return the times to recover in ms, by kind, in the order of the faults."""
        found: dict[FaultKind, list[int]] = {}
        for each in self.caused:
            if each.recovery_ms >= 0:
                found.setdefault(each.fault.kind, []).append(each.recovery_ms)
        return found

    def lines(self) -> Iterator[str]:
        """Yield the seed, the times to recover by kind, then each fault."""
        yield f"nemesis: seed {self._config.seed}, faults: {len(self.caused)}"
        for kind, times in self.recoveries().items():
            p50_s, worst_s = median(times) / 1000, max(times) / 1000
            yield (
                f"    {kind.value}: {len(times)}, whole after {p50_s:.1f} s (p50), "
                f"{worst_s:.1f} s (worst)"
            )
        yield from (f"    {kind.value} left out: {why}" for kind, why in self.left_out.items())
        yield from (f"    {each}" for each in self.caused)
        if self.complaint:
            yield f"    {self.complaint}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "seed": self._config.seed,
            "faults": [each.as_json() for each in self.caused],
            "recoveries": {
                kind.value: {
                    "count": len(times),
                    "p50_ms": int(median(times)),
                    "worst_ms": max(times),
                }
                for kind, times in self.recoveries().items()
            },
            "left_out": {kind.value: why for kind, why in self.left_out.items()},
            "complaint": self.complaint,
        }


async def uncancelled(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work`` to its end also if this task is cancelled meanwhile, which is raised then."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
