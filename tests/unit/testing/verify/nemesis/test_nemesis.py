"""The nemesis against a cluster of dictionaries: order, ends, recoveries, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from minikafka.client import ClientConfig
from minikafka.core.client.cluster_view import Node
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.verify.nemesis.nemesis import ClusterNemesis, NemesisConfig
from minikafka.testing.verify.nemesis.plan import FaultKind, PlannedFault
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import client_world, jumping

RECOVERY_S = 2


class FakePlace:
    """Stops brokers, and starts them two seconds after the end of a fault."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.acts: list[tuple[str, PlannedFault | None]] = []
        self.fails: Exception | None = None
        self.heals = True
        self.checked: Mapping[int, Node] = {}
        self.begun = asyncio.Event()
        self.starting: set[asyncio.Task[None]] = set()

    async def check(self, nodes: Mapping[int, Node]) -> None:
        self.checked = nodes

    def refusal(self, kind: FaultKind) -> str:
        return "" if kind in (FaultKind.KILL9, FaultKind.TERM) else f"no {kind.value} here"

    def victims(self, kind: FaultKind) -> Sequence[int]:
        return [1, 2]

    async def begin(self, fault: PlannedFault) -> None:
        self.acts.append(("begin", fault))
        self.begun.set()
        if self.fails is not None:
            raise self.fails
        for broker in fault.victims:
            self.cluster.stop_broker(broker)

    async def end(self, fault: PlannedFault) -> None:
        self.acts.append(("end", fault))
        for broker in fault.victims:
            if self.heals and broker not in self.cluster._listeners:
                self.starting.add(asyncio.create_task(self._start_later(broker)))

    async def _start_later(self, broker: int) -> None:
        await asyncio.sleep(RECOVERY_S)
        await self.cluster.start_broker(broker)

    async def close(self) -> None:
        self.acts.append(("close", None))


async def nemesis_of(*kinds: FaultKind, **config: Any) -> tuple[ClusterNemesis, FakePlace]:
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t")
    await cluster.start()
    place = FakePlace(cluster)
    client = ClientConfig(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000)
    settings = NemesisConfig(kinds, seed=3, **config)
    return ClusterNemesis(world, client, settings, [place], "t"), place


@jumping
async def test_faults_follow_each_other_and_are_timed() -> None:
    nemesis, place = await nemesis_of(FaultKind.KILL9, FaultKind.TERM)
    await nemesis.prepare()
    assert sorted(place.checked) == [1, 2]
    assert place.acts == [], "nothing is broken yet"
    stop = asyncio.Event()
    running = asyncio.create_task(nemesis.run(stop))
    await asyncio.sleep(120)
    stop.set()
    await running
    assert nemesis.ok
    assert len(nemesis.caused) >= 6
    names = [name for name, _ in place.acts]
    assert names == ["begin", "end"] * len(nemesis.caused) + ["close"]
    before_ms = 0
    for each in nemesis.caused:
        assert before_ms <= each.began_ms <= each.ended_ms <= each.whole_ms
        assert RECOVERY_S * 1000 <= each.recovery_ms < RECOVERY_S * 1000 + 1_500
        before_ms = each.whole_ms
    told = "\n".join(nemesis.lines())
    assert told.startswith(f"nemesis: seed 3, faults: {len(nemesis.caused)}\n    ")
    assert "kill9: " in told
    shown = nemesis.as_json()
    assert shown["ok"]
    assert shown["recoveries"]["kill9"]["worst_ms"] >= shown["recoveries"]["kill9"]["p50_ms"]
    assert shown["recoveries"]["kill9"]["count"] + shown["recoveries"]["term"]["count"] == len(
        shown["faults"]
    )


@jumping
@pytest.mark.mission("JUDGE-83")
async def test_a_fault_ends_when_the_run_is_stopped_or_cancelled() -> None:
    for cancelled in (False, True):
        nemesis, place = await nemesis_of(FaultKind.KILL9, longest_ms=10_000_000)
        stop = asyncio.Event()
        running = asyncio.create_task(nemesis.run(stop))
        await place.begun.wait()
        if cancelled:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            stop.set()
            await running
            assert nemesis.caused[0].recovery_ms >= 0, "it waits for the last recovery"
        assert [name for name, _ in place.acts] == ["begin", "end", "close"]


@jumping
@pytest.mark.mission("JUDGE-83")
async def test_a_fault_that_cannot_be_caused_after_all_ends_the_run() -> None:
    nemesis, place = await nemesis_of(FaultKind.KILL9)
    place.fails = ChildProcessError("no such command")
    await nemesis.run(asyncio.Event())
    assert not nemesis.ok
    assert nemesis.complaint.endswith(" failed: no such command")
    assert [name for name, _ in place.acts] == ["begin", "end", "close"]


@jumping
async def test_a_request_that_fails_is_noted_and_the_next_fault_follows() -> None:
    nemesis, place = await nemesis_of(FaultKind.KILL9)
    place.fails = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    stop = asyncio.Event()
    running = asyncio.create_task(nemesis.run(stop))
    await asyncio.sleep(120)
    stop.set()
    await running
    assert nemesis.ok
    assert len(nemesis.caused) > 2
    assert "failed: REQUEST_TIMED_OUT" in str(nemesis.caused[0])
    assert nemesis.as_json()["faults"][0]["failure"].startswith("REQUEST_TIMED_OUT")


@jumping
@pytest.mark.mission("JUDGE-83")
async def test_a_cluster_that_stays_broken_ends_the_run() -> None:
    nemesis, place = await nemesis_of(FaultKind.KILL9, recovery_limit_ms=20_000)
    place.heals = False
    await nemesis.run(asyncio.Event())
    assert not nemesis.ok
    assert "is not whole within 20 s: broker" in nemesis.complaint
    assert [*nemesis.lines()][-1].endswith(nemesis.complaint)
    assert nemesis.as_json()["faults"][0]["whole_ms"] == -1
    assert len(nemesis.caused) == 1


@jumping
@pytest.mark.mission("JUDGE-82")
async def test_what_no_place_can_cause_is_an_error_before_anything_is_broken() -> None:
    nemesis, place = await nemesis_of(FaultKind.KILL9, FaultKind.CLOCK)
    with pytest.raises(ConfigError, match="clock: no clock here"):
        await nemesis.run(asyncio.Event())
    assert place.acts == []
    # The brokers of dictionaries know no request for it.
    nemesis, place = await nemesis_of(FaultKind.KILL9, FaultKind.ELECT)
    with pytest.raises(ConfigError, match=r"elect: brokers before Kafka 2\.4"):
        await nemesis.prepare()


@jumping
async def test_kinds_may_be_left_out() -> None:
    nemesis, _ = await nemesis_of(*FaultKind, is_choosy=True)
    await nemesis.prepare()
    assert FaultKind.KILL9 not in nemesis.left_out
    assert nemesis.left_out[FaultKind.CUT] == "no cut here"
    assert any("cut left out: no cut here" in line for line in nemesis.lines())
    nemesis, _ = await nemesis_of(FaultKind.CUT, is_choosy=True)
    with pytest.raises(ConfigError, match="no fault can be caused"):
        await nemesis.prepare()


@jumping
@pytest.mark.mission("JUDGE-82")
async def test_a_cluster_that_is_not_whole_is_not_broken_further() -> None:
    nemesis, place = await nemesis_of(FaultKind.KILL9)
    tp = next(iter(place.cluster.partitions))
    place.cluster.move_leader(tp, -1)
    with pytest.raises(ConfigError, match="not whole before the first fault"):
        await nemesis.run(asyncio.Event())
    assert place.acts == []
