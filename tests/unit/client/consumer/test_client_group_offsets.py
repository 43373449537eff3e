"""Commits of a group member whose generation changes between two attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.client.consumer.group_consumer import CommitFailedError, GroupOffsetClient
from minikafka.core.client.assignors.catalogue import resolve_strategy
from minikafka.core.client.calls import Call
from minikafka.core.client.consumer.membership import GroupRebalanceConfig, Membership, MemberState
from minikafka.core.client.offsets import OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

T0 = TopicPartition("t", 0)


class Member:
    """A stable member of generation 4. Its coordinator loads when the first commit arrives; then
    ``meanwhile`` is called, and the next commit succeeds."""

    def __init__(self, meanwhile: Callable[[Membership], None]) -> None:
        self.membership = Membership(GroupRebalanceConfig("g", resolve_strategy(["range"])))
        self.membership.member_id, self.membership.generation = "me", 4
        self.membership.state = MemberState.STABLE
        self.generations: list[int] = []  # of the commits that were sent
        self._meanwhile = meanwhile

    async def call(self, call: Call[Any], timeout_ms: int) -> Any:
        request: Any = call.request
        self.generations.append(request.generation_id_or_member_epoch)
        code = ErrorCode.NONE
        if len(self.generations) == 1:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self._meanwhile(self.membership)
        rows = [OffsetCommitResponsePartition(0, code)]
        return call.read(
            OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions=rows)])
        )


async def retrying(attempt: Callable[[], Awaitable[None]], deadline_ms: int) -> None:
    for _ in range(3):
        try:
            return await attempt()
        except KafkaError as error:
            if not error.code.retriable:
                raise
    raise AssertionError("retried too often")


def joined_again(membership: Membership) -> None:
    membership.generation = 5


def unchanged(membership: Membership) -> None:
    """The generation stays."""


@pytest.mark.parametrize("name", ["commit", "commit_existing"])
@pytest.mark.parametrize("meanwhile", [joined_again, unchanged])
def test_no_attempt_of_a_commit_carries_a_later_generation(
    name: str, meanwhile: Callable[[Membership], None]
) -> None:
    """The partitions may belong to other members by then."""
    member = Member(meanwhile)
    session = SimpleNamespace(retrying=retrying, remaining_ms=lambda _: 1_000)
    offsets = GroupOffsetClient(cast(Any, session), cast(Any, member), lambda: True)
    commit = getattr(offsets, name)({T0: OffsetAndMetadata(7)}, 1_000)
    if meanwhile is unchanged:
        asyncio.run(commit)
        assert member.generations == [4, 4]
        return
    with pytest.raises(CommitFailedError):
        asyncio.run(commit)
    assert member.generations == [4]
