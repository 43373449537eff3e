"""Lookups of offsets by timestamp, at the leaders of the partitions (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import raise_gravest
from minikafka.core.client.cluster_view import group_by_leader
from minikafka.core.client.consumer import list_offsets_call
from minikafka.core.client.consumer.list_offsets_call import ListedOffsets
from minikafka.core.client.offsets import OffsetAndTimestamp
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError


async def list_offsets(
    session: ClusterSession,
    timestamps: Mapping[TopicPartition, int],
    deadline_ms: int,
    isolation_level: int = 0,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the first offset at or after each timestamp (or EARLIEST, LATEST, MAX_TIMESTAMP).

    Raises KafkaError for final errors, and when the deadline passes.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        missing = {tp: at for tp, at in timestamps.items() if tp not in found}
        await _wait_for_a_leader(session, missing, deadline_ms)
        listed = await list_offsets_once(session, missing, deadline_ms, isolation_level)
        found.update(listed.found)
        raise_gravest(listed.errors)

    await session.retrying(attempt, deadline_ms)
    return found


async def list_offsets_once(
    session: ClusterSession,
    timestamps: Mapping[TopicPartition, int],
    deadline_ms: int,
    isolation_level: int,
) -> ListedOffsets:
    """Send one ListOffsets to each known leader; ``errors`` explain the missing offsets."""
    view = session.metadata.view
    groups = group_by_leader(timestamps, view.leaders)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    errors = [KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp)) for tp in groups.leaderless]

    async def request(leader: int, wanted: Mapping[TopicPartition, int]) -> ListedOffsets:
        try:
            call = list_offsets_call.list_offsets(wanted, view, isolation_level)
            return await session.call(leader, call, deadline_ms)
        except KafkaError as error:
            return ListedOffsets({}, [error])

    for listed in await asyncio.gather(
        *(request(*row) for row in sorted(groups.by_leader.items()))
    ):
        found.update(listed.found)
        errors.extend(listed.errors)
    return ListedOffsets(found, errors)


async def _wait_for_a_leader(
    session: ClusterSession, partitions: Collection[TopicPartition], deadline_ms: int
) -> None:
    """Wait until any of the partitions has a leader. Raises KafkaError."""
    if not partitions:
        return
    session.metadata.add_topics({tp.topic for tp in partitions})
    await session.metadata.wait_until(
        lambda view: next((True for tp in partitions if tp in view.leaders), None),
        session.remaining_ms(deadline_ms),
        f"leader of {next(iter(partitions))}",
    )
