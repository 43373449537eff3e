"""A follower whose log is damaged leaves the ISR, then fetches the records again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from minikafka.broker.metadata.topic_configs import TopicConfig
from minikafka.broker.replication.mending import CHECK_MS
from minikafka.core.log.config import LogConfig
from minikafka.storage.log.unified_log import UnifiedLog
from minikafka.storage.scrubber.config import LogScrubberConfig
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster
from tests.support.storage.compaction import committed_records

LAG_MS = 10_000
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)
VALUES = [str(number) for number in range(30)]


class Scrubbed(ReplicaCluster):
    scrubber = LogScrubberConfig(bytes_per_second=1 << 30)


async def scrub(cluster: ReplicaCluster, node: Node) -> None:
    scrubbing = asyncio.ensure_future(node.logs.scrubber.scrub_all())
    await cluster.clock.advance(100)
    assert scrubbing.done()
    await scrubbing


async def replicated(cluster: ReplicaCluster, replicas: tuple[int, ...] = (1, 2, 3)) -> None:
    """Broker 1 leads, and all replicas have all records."""
    cluster.configs.by_topic[TOPIC] = TopicConfig(log=SMALL)
    await cluster.elect(1, isr=replicas, replicas=replicas)
    for value in VALUES:
        cluster[1].produce(value, acks=1)
    await cluster.clock.advance(2_000)
    for broker_id in replicas:
        assert held(cluster[broker_id]) == VALUES


async def damage(cluster: ReplicaCluster, node: Node) -> UnifiedLog:
    """Flip a bit in the second segment, and let the scrubber find it."""
    log = node.partition().log
    second = list(log.segments)[1]
    *_, last = second.batches()
    file = node.files.open(second.path)
    byte = file.read(1, last.position + 65)[0]
    file.write(bytes([byte ^ 1]), last.position + 65)
    await scrub(cluster, node)
    (found,) = node.logs.scrubber.damaged()
    assert found.log is log
    return log


def held(node: Node) -> list[str]:
    log = node.partition().log
    return [str(r.value, "ascii") for r in committed_records(log, log.log_end_offset) if r.value]


def state(node: Node) -> list[str]:
    return [row["state"] for row in node.replicas.mending.facts(10)["damaged"]]


def isr(cluster: ReplicaCluster) -> tuple[int, ...]:
    return cluster.znodes.states[TP].isr


@pytest.mark.mission("SAFE-66")
async def test_a_follower_leaves_the_isr_before_it_truncates_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Scrubbed() as cluster:
        await replicated(cluster)
        node = cluster[2]
        log = await damage(cluster, node)
        await cluster.clock.advance(CHECK_MS)
        assert state(node) == ["leaves the ISR"]
        truncate, at = log.truncate_to, list[tuple[int, ...]]()

        def spied(offset: int) -> bool:
            at.append(isr(cluster))
            return truncate(offset)

        monkeypatch.setattr(log, "truncate_to", spied)
        await cluster.clock.advance(3 * LAG_MS)
        assert at == [(1, 3)]
        await cluster.clock.advance(2_000)
        assert sorted(isr(cluster)) == [1, 2, 3]
        assert held(node) == VALUES
        await scrub(cluster, node)
        assert state(node) == []


@pytest.mark.mission("SAFE-66")
async def test_a_leader_is_mended_after_another_was_elected() -> None:
    async with Scrubbed() as cluster:
        await replicated(cluster)
        node = cluster[1]
        log = await damage(cluster, node)
        for _ in range(3):
            await cluster.clock.advance(CHECK_MS)
            await cluster.clock.advance(LAG_MS)
        assert state(node) == [
            "this broker leads: elect another leader, then it fetches the records again"
        ]
        assert log.log_end_offset == len(VALUES)
        await cluster.elect(2, isr=[1, 2, 3], epoch=1)
        for _ in range(30):
            await cluster.clock.advance(CHECK_MS)
            await cluster.clock.advance(1_000)
        assert sorted(isr(cluster)) == [1, 2, 3]
        assert held(node) == VALUES
        await scrub(cluster, node)
        assert state(node) == []


@pytest.mark.mission("SAFE-66")
async def test_the_only_replica_is_reported_and_kept() -> None:
    async with Scrubbed([1]) as cluster:
        await replicated(cluster, (1,))
        log = await damage(cluster, cluster[1])
        for _ in range(3):
            await cluster.clock.advance(CHECK_MS)
            await cluster.clock.advance(LAG_MS)
        assert state(cluster[1]) == ["no other replica has these records"]
        assert log.log_end_offset == len(VALUES)


@pytest.mark.mission("SAFE-66")
async def test_it_waits_while_the_others_in_sync_are_too_few() -> None:
    async with Scrubbed() as cluster:
        await replicated(cluster)
        log = await damage(cluster, cluster[2])
        config = TopicConfig(log=SMALL, min_insync_replicas=3)
        cluster[2].partition().configure(config)
        for _ in range(3):
            await cluster.clock.advance(CHECK_MS)
            await cluster.clock.advance(LAG_MS)
        assert state(cluster[2]) == ["waits until more replicas are in sync"]
        assert (log.log_end_offset, sorted(isr(cluster))) == (len(VALUES), [1, 2, 3])


@pytest.mark.mission("SAFE-66")
async def test_nothing_is_truncated_while_the_znode_names_the_replica() -> None:
    async with Scrubbed() as cluster:
        await replicated(cluster)
        log = await damage(cluster, cluster[2])
        await cluster.clock.advance(CHECK_MS)
        for _ in range(5):
            await cluster.clock.advance(LAG_MS)
            found = cluster.znodes.states[TP]
            cluster.znodes.states[TP] = replace(found, isr=(1, 2, 3))
            await cluster.clock.advance(CHECK_MS)
            assert log.log_end_offset == len(VALUES)
        cluster.znodes.away = True
        await cluster.clock.advance(CHECK_MS)
        assert log.log_end_offset == len(VALUES)
        cluster.znodes.away = False


@pytest.mark.mission("SAFE-66")
async def test_a_new_leader_epoch_begins_anew() -> None:
    async with Scrubbed() as cluster:
        await replicated(cluster)
        log = await damage(cluster, cluster[2])
        await cluster.clock.advance(CHECK_MS)
        assert cluster[2].replicas.fetchers.source_of(TP) is None
        await cluster.elect(2, isr=[1, 2, 3], epoch=1)
        await cluster.clock.advance(CHECK_MS)
        await cluster.clock.advance(CHECK_MS)
        assert state(cluster[2])[0].startswith("this broker leads")
        assert log.log_end_offset == len(VALUES)
