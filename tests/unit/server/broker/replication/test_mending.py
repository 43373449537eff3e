"""A damaged log is mended with the records of another replica, or stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from minikafka.core.log.config import LogConfig
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.broker.replication.mending import CHECK_MS, RETRY_MS
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.scrubber import LogScrubberConfig
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster
from tests.support.storage.compaction import committed_records

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


def flip(node: Node, segment_index: int, batch_index: int, byte: int = 65) -> None:
    """Flip a bit in a batch of a segment: of its records, or of the header if ``byte`` is small."""
    segment = list(node.partition().log.segments)[segment_index]
    found = list(segment.batches())[batch_index]
    file = node.files.open(segment.path)
    value = file.read(1, found.position + byte)[0]
    file.write(bytes([value ^ 1]), found.position + byte)


async def damage(cluster: ReplicaCluster, node: Node, *places: tuple[int, int, int]) -> UnifiedLog:
    """Damage batches, by default the last one of the second segment, and scrub."""
    for place in places or ((1, -1, 65),):
        flip(node, *place)
    await scrub(cluster, node)
    log = node.partition().log
    (found,) = node.logs.scrubber.damaged()
    assert found.log is log
    return log


async def mend(cluster: ReplicaCluster) -> None:
    """The first attempt, and time for what follows it."""
    await cluster.clock.advance(CHECK_MS)
    await cluster.clock.advance(1_000)


def contents(node: Node) -> list[bytes]:
    """The bytes of all segments."""
    return [segment.read(1 << 20, 0) for segment in node.partition().log.segments]


def held(node: Node) -> list[str]:
    log = node.partition().log
    return [str(r.value, "ascii") for r in committed_records(log, log.log_end_offset) if r.value]


def state(node: Node) -> list[str]:
    return [row["state"] for row in node.replicas.mending.facts(10)["damaged"]]


def isr(cluster: ReplicaCluster) -> Sequence[int]:
    return sorted(cluster.znodes.states[TP].isr)


PLACES = [
    pytest.param([(1, -1, 65)], id="records of the last batch"),
    pytest.param([(0, 0, 65)], id="records of the first batch"),
    pytest.param([(1, 1, 16)], id="magic"),
    pytest.param([(1, 1, 11)], id="length"),
    pytest.param([(1, 1, 8)], id="huge length"),
    pytest.param([(1, 1, 7)], id="base offset"),
    pytest.param([(1, 0, 65), (1, 1, 65)], id="neighbours"),
    pytest.param([(1, 0, 65), (1, -1, 65)], id="two of a segment"),
    pytest.param([(0, 1, 65), (2, 1, 65)], id="two segments"),
]


@pytest.mark.mission("SAFE-66")
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("damaged", [1, 2])
async def test_a_leader_and_a_follower_are_mended_and_stay_in_the_isr(
    damaged: int, places: list[tuple[int, int, int]]
) -> None:
    async with Scrubbed() as cluster:
        await replicated(cluster)
        node, before = cluster[damaged], contents(cluster[3])
        assert contents(node) == before
        log = await damage(cluster, node, *places)
        for _ in range(len(places)):
            await mend(cluster)
            await cluster.clock.advance(RETRY_MS)
        assert isr(cluster) == [1, 2, 3]
        assert (state(node), held(node), contents(node)) == ([], VALUES, before)
        assert log.cuts == 0
        await scrub(cluster, node)
        assert state(node) == []
        assert cluster[1].produce("more", acks=1)[0].error_code == 0
        await cluster.clock.advance(2_000)
        assert held(cluster[2]) == [*VALUES, "more"]


@pytest.mark.mission("SAFE-66")
async def test_nothing_changes_where_the_other_replica_is_damaged_too() -> None:
    """Neither in turn, and both are mended once a third replica has the records."""
    async with Scrubbed() as cluster:
        await replicated(cluster)
        cluster.freeze(3)
        for node in (cluster[1], cluster[2]):
            await damage(cluster, node)
        before = contents(cluster[1]), contents(cluster[2])
        for _ in range(3):
            await mend(cluster)
            await cluster.clock.advance(RETRY_MS)
        assert (contents(cluster[1]), contents(cluster[2])) == before
        for node, other in ((cluster[1], 2), (cluster[2], 1)):
            (said,) = state(node)
            assert said.startswith(f"broker {other}: the CRC of the batch")
            assert said.endswith("; broker 3: connection refused")
        cluster.thaw(3)
        for _ in range(2):
            await cluster.clock.advance(RETRY_MS)
        for node in (cluster[1], cluster[2]):
            assert (state(node), held(node)) == ([], VALUES)


@pytest.mark.mission("SAFE-66")
async def test_two_replicas_mend_each_other_at_different_places() -> None:
    async with Scrubbed((1, 2)) as cluster:
        await replicated(cluster, (1, 2))
        before = contents(cluster[1])
        await damage(cluster, cluster[1], (2, 0, 65))
        await damage(cluster, cluster[2], (0, 0, 65))
        for _ in range(2):
            await mend(cluster)
            await cluster.clock.advance(RETRY_MS)
        assert (contents(cluster[1]), contents(cluster[2])) == (before, before)


@pytest.mark.mission("SAFE-66")
async def test_the_only_replica_is_reported_and_kept() -> None:
    async with Scrubbed([1]) as cluster:
        await replicated(cluster, (1,))
        log = await damage(cluster, cluster[1])
        before = contents(cluster[1])
        for _ in range(3):
            await mend(cluster)
        assert state(cluster[1]) == ["no other replica is in sync"]
        assert (log.log_end_offset, contents(cluster[1])) == (len(VALUES), before)


@pytest.mark.mission("SAFE-66")
async def test_a_source_that_is_away_or_fenced_is_tried_again() -> None:
    async with Scrubbed((1, 2)) as cluster:
        await replicated(cluster, (1, 2))
        node = cluster[2]
        await damage(cluster, node)
        cluster.freeze(1)
        await mend(cluster)
        assert state(node) == ["broker 1: connection refused"]
        cluster.thaw(1)
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=1, tell=[1])
        await cluster.clock.advance(RETRY_MS)
        assert state(node) == ["broker 1: it refused the fetch with FENCED_LEADER_EPOCH"]
        cluster.znodes.away = True
        await cluster.clock.advance(RETRY_MS)
        assert state(node)[0].startswith("failed: ")
        cluster.znodes.away = False
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=2)
        await cluster.clock.advance(RETRY_MS)
        assert (state(node), held(node)) == ([], VALUES)


@pytest.mark.mission("SAFE-66")
async def test_a_log_truncated_during_its_repair_is_not_rebuilt() -> None:
    async with Scrubbed() as cluster:
        await replicated(cluster)
        node = cluster[2]
        log = await damage(cluster, node)
        fetch = node.replicas.fetchers.read_once

        async def truncating(*place: object) -> object:
            found = await fetch(*place)  # type: ignore[arg-type]
            node.partition().truncate_to(1)
            return found

        node.replicas.fetchers.read_once = truncating  # type: ignore[method-assign, assignment]
        await mend(cluster)
        assert state(node) == []
        assert not [path for path in node.files.list(log.directory) if ".cleaned" in path]
