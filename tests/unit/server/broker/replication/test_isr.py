"""The ISR of three replicas: shrinking, expanding, and the write to ZooKeeper."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.replication.isr import IsrConfig
from tests.support.broker.replicas import TP, ReplicaCluster, error_of
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element, pause_nowhere


async def test_a_laggard_leaves_the_isr_and_comes_back() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        produced = cluster[1].produce("a", timeout_ms=60_000)
        await cluster.clock.advance(9_000)
        assert cluster[1].partition().state.isr.committed == (1, 2, 3)
        await cluster.clock.advance(7_000)
        assert cluster[1].partition().state.isr.committed == (1, 2)
        assert cluster.znodes.states[TP].isr == (1, 2)
        assert cluster.znodes.states[TP].zk_version == 1
        assert error_of(produced) is ErrorCode.NONE
        assert cluster[1].partition().is_under_replicated
        cluster.thaw(3)
        await cluster.clock.advance(2_000)
        assert cluster[1].partition().state.isr.committed == (1, 2, 3)
        assert cluster.znodes.states[TP].isr == (1, 2, 3)
        assert cluster[3].held() == ["a"]


@pytest.mark.mission("SCALE-7")
async def test_many_isrs_shrink_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead broker follows thousands of partitions, and their leader serves others meanwhile."""
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, partitions=[*range(40)])
        await cluster.clock.settle()
        maintenance = cluster[1].replicas.isr

        pause_nowhere(monkeypatch)
        _, most_at_once = await most_calls_in_a_turn(maintenance._shrink_all())
        pause_at_every_element(monkeypatch)
        _, most = await most_calls_in_a_turn(maintenance._shrink_all())
        assert most * 4 < most_at_once


async def test_an_idle_follower_that_holds_everything_stays_in_the_isr() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a")
        await cluster.clock.advance(1_000)
        cluster.freeze(2, 3)
        await cluster.clock.advance(60_000)
        assert cluster[1].partition().state.isr.committed == (1, 2, 3)


async def test_until_the_shrink_is_written_the_laggard_still_counts() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster.znodes.held = asyncio.Event()
        cluster[1].produce("a", acks=1)
        await cluster.clock.advance(20_000)
        partition = cluster[1].partition()
        assert partition.state.isr.proposed == (1, 2)
        assert partition.high_watermark == 0
        cluster.znodes.held.set()
        await cluster.clock.settle()
        assert partition.state.isr.committed == (1, 2)
        assert partition.high_watermark == 1


async def test_lost_isr_race_keeps_the_old_isr_until_the_next_leader_and_isr() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster[1].produce("a", acks=1)
        # The controller has just written version 1, and its LeaderAndIsr is still on its way.
        await cluster.elect(1, isr=[1, 2], epoch=1, tell=[])
        await cluster.clock.advance(20_000)
        partition = cluster[1].partition()
        assert partition.state.isr.committed == (1, 2, 3)
        assert partition.state.isr.lost
        assert partition.high_watermark == 0
        assert cluster.znodes.states[TP].leader_epoch == 1
        await cluster.elect(1, isr=[1, 2], epoch=2, tell=[1, 2])
        await cluster.clock.advance(1_000)
        assert partition.state.isr.committed == (1, 2)  # type: ignore[comparison-overlap]  # changed since
        assert not partition.state.isr.in_flight
        assert partition.high_watermark == 1


async def test_zookeeper_away_delays_the_write_and_nothing_else() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster.znodes.away = True
        produced = cluster[1].produce("a", timeout_ms=60_000)
        await cluster.clock.advance(20_000)
        assert produced == []
        assert cluster[1].partition().state.isr.proposed == (1, 2)
        cluster.znodes.away = False
        await cluster.clock.advance(2_000)
        assert error_of(produced) is ErrorCode.NONE


async def test_an_isr_that_cannot_be_written_keeps_no_other_from_it() -> None:
    other = TP._replace(partition=1)
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, partitions=[0, 1])
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster.znodes.forbidden.add(TP)
        refused = cluster[1].produce("a", timeout_ms=60_000)
        taken = cluster[1].produce("b", timeout_ms=60_000, topic_partition=other)
        await cluster.clock.advance(50_000)
        assert (refused, error_of(taken)) == ([], ErrorCode.NONE)
        cluster.znodes.forbidden.clear()
        await cluster.clock.advance(2_000)
        assert error_of(refused) is ErrorCode.NONE


async def test_an_isr_refused_for_good_is_seldom_tried_however_many_others_change() -> None:
    others = range(1, 21)
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, partitions=[0, *others])
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster.znodes.forbidden.add(TP)
        cluster[1].produce("a", acks=1)
        for index in others:
            cluster[1].produce("a", acks=1, topic_partition=TP._replace(partition=index))
            await cluster.clock.advance(3_000)
        tries = cluster.znodes.tries
        await cluster.clock.advance(20_000)
        assert tries < cluster.znodes.tries <= tries + 10


async def test_an_isr_does_not_wait_for_another_to_be_tried_again() -> None:
    other = TP._replace(partition=1)
    hours_ms = 10_000_000
    async with ReplicaCluster(isr=IsrConfig(write_retry_ms=hours_ms)) as cluster:
        await cluster.elect(1, partitions=[0, 1])
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster.znodes.forbidden.add(TP)
        cluster[1].produce("a", acks=1)
        await cluster.clock.advance(60_000)
        assert cluster[1].partition().state.isr.proposed == (1, 2)
        cluster[1].produce("b", acks=1, topic_partition=other)
        await cluster.clock.advance(60_000)
        assert cluster[1].partition(other).state.isr.committed == (1, 2)


async def test_changes_are_announced_after_a_while_of_quiet() -> None:
    config = IsrConfig(replica_lag_time_max_ms=1_000)
    async with ReplicaCluster(isr=config) as cluster:
        await cluster.elect(1, partitions=[0, 1])
        await cluster.clock.settle()
        cluster.freeze(3)
        for index in (1, 0):
            cluster[1].produce("a", acks=1, topic_partition=TP._replace(partition=index))
        await cluster.clock.advance(2_000)
        assert cluster[1].partition().state.isr.committed == (1, 2)
        assert cluster.znodes.announced == []
        await cluster.clock.advance(8_000)
        assert cluster.znodes.announced == [[TP, TP._replace(partition=1)]]
        await cluster.clock.advance(20_000)
        assert len(cluster.znodes.announced) == 1


async def test_a_failed_announcement_is_repeated() -> None:
    async with ReplicaCluster(isr=IsrConfig(replica_lag_time_max_ms=1_000)) as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster[1].produce("a", acks=1)
        await cluster.clock.advance(2_000)
        cluster.znodes.away = True
        await cluster.clock.advance(10_000)
        cluster.znodes.away = False
        await cluster.clock.advance(3_000)
        assert cluster.znodes.announced == [[TP]]
