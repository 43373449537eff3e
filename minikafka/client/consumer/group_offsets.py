"""The offsets of a consumer's group: committing them, and fetching the committed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from minikafka.client.consumer.group_member import GroupMember
from minikafka.client.session import ClusterSession
from minikafka.core.client.consumer.group_calls import (
    STABLE_OFFSETS_VERSION,
    offset_commit,
    offset_fetch,
)
from minikafka.core.client.consumer.membership import MemberState, Next
from minikafka.core.client.offsets import NO_GENERATION, GroupMetadata, OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey


class CommitFailedError(KafkaError):
    """A commit failed because the group has rebalanced without this consumer.

    Other members own its partitions and may have consumed the records again. Kafka:
    ``CommitFailedException``, ``RebalanceInProgressException``.
    """


class GroupOffsetClient:
    """Commits and fetches offsets through the coordinator of one group.

    ``is_member`` says whether the group assigns the partitions. Otherwise commits have no
    generation, as for a consumer with manually assigned partitions.
    """

    def __init__(
        self, session: ClusterSession, member: GroupMember, is_member: Callable[[], bool]
    ) -> None:
        self.commits = 0
        self._session = session
        self._member = member
        self._is_member = is_member

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """Commit all offsets in one request, retrying until the deadline.

        Raises CommitFailedError when the group has rebalanced, KafkaError for other errors.
        """
        if offsets:
            committer = self._committer()
            await self._session.retrying(
                lambda: self._commit(offsets, committer, deadline_ms), deadline_ms
            )
            self.commits += 1

    async def commit_existing(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """Commit as ``commit`` does, for partitions that are about to be revoked.

        A deleted partition must not block the rebalance: after an UNKNOWN_TOPIC_OR_PARTITION,
        partitions that are missing in the metadata are left out.
        """
        remaining = dict(offsets)
        committer = self._committer()

        async def attempt() -> None:
            try:
                if remaining:
                    await self._commit(remaining, committer, deadline_ms)
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    view = self._session.metadata.view
                    for tp in [tp for tp in remaining if view.partition(tp) is None]:
                        del remaining[tp]
                raise

        await self._session.retrying(attempt, deadline_ms)
        self.commits += bool(remaining)

    async def commit_once(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """Commit as ``commit`` does, with one attempt.

        It is for automatic commits: a retry could arrive after a newer commit.
        """
        if offsets:
            await self._commit(offsets, self._committer(), deadline_ms)
            self.commits += 1

    def _committer(self) -> GroupMetadata:
        """Return the member and generation for a commit; all its attempts use them.

        Raises CommitFailedError if the member has lost its generation. Kafka's
        ``ConsumerCoordinator`` takes the current generation for each attempt, but does not join
        in between. Here a join may end between two attempts, and with it the ownership.
        """
        membership = self._member.membership
        group = membership.config
        if not self._is_member():
            return GroupMetadata(group.group_id)
        if membership.generation == NO_GENERATION or membership.state is MemberState.UNJOINED:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_MEMBER_ID, "this consumer is no member of its group now"
            )
        return GroupMetadata(
            group.group_id, membership.generation, membership.member_id, group.group_instance_id
        )

    async def _commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        committer: GroupMetadata,
        deadline_ms: int,
    ) -> None:
        """Commit with one attempt. Raises CommitFailedError or KafkaError."""
        if self._committer() != committer:
            raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, "the group has rebalanced")
        membership = self._member.membership
        errors = await self._member.call(
            offset_commit(committer, offsets), self._session.remaining_ms(deadline_ms)
        )
        for tp, error in errors.items():
            if error is None:
                continue
            if committer.generation == NO_GENERATION:
                raise error
            if membership.on_commit(error.code, committer.generation) is Next.JOIN_AGAIN:
                raise CommitFailedError(error.code, f"{tp}: the group has rebalanced")
            raise error

    async def committed(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets; None where nothing is committed. Raises KafkaError."""
        wanted = sorted(partitions)
        group_id = self._member.membership.config.group_id

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            call = offset_fetch(group_id, wanted, await self._knows_stable_offsets())
            found = await self._member.call(call, self._session.timeout_ms(deadline_ms))
            return {tp: found.get(tp) for tp in wanted}

        return await self._session.retrying(attempt, deadline_ms) if wanted else {}

    async def _knows_stable_offsets(self) -> bool:
        """Whether the coordinator supports ``require_stable`` in OffsetFetch (KIP-447)."""
        versions = await self._member.coordinator_versions()
        return versions.get(ApiKey.OFFSET_FETCH, (0, 0))[1] >= STABLE_OFFSETS_VERSION
