"""``ShareRequests``: authorization and acknowledgements of ShareFetch and ShareAcknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.share.persister import TopicIdPartition
from minikafka.core.share.records import SharePartitionKey
from minikafka.core.share.session import ShareSessionKey
from minikafka.core.share.share_partition import Acknowledgement, AcknowledgeType
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.records.current_leader import (
    LeaderHint,
    leader_hint,
    node_endpoints,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.share.share_partitions import SharePartitions

LONGEST_MEMBER_ID: Final = 36  # that of a UUID's text
FIRST_VERSION_WITH_RENEW: Final = 2
_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
# Kafka's messages of errors from the share coordinator; the others have none.
_MESSAGES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


class Acknowledging:
    """Acknowledgements that are being stored."""

    def __init__(self) -> None:
        self.outcomes: dict[TopicIdPartition, KafkaError | None] = {}
        self.waiting: dict[TopicIdPartition, asyncio.Future[KafkaError | None]] = {}

    def fail(self, where: TopicIdPartition, error: KafkaError) -> None:
        code = error.code
        self.outcomes[where] = KafkaError(code, error.message or _MESSAGES.get(code))

    async def stored(self) -> Mapping[TopicIdPartition, KafkaError | None]:
        """Wait until all are stored. Return the error of each partition, None after a success."""
        for where, future in self.waiting.items():
            error = await future
            if error is not None:
                self.fail(where, error)
        return self.outcomes


async def _outcome(storing: Coroutine[Any, Any, None]) -> KafkaError | None:
    """Return the KafkaError of a change, or None. A request that is cancelled waits for neither."""
    try:
        await storing
    except KafkaError as error:
        return error
    return None


class ShareRequests:
    """The common part of the two handlers."""

    def __init__(
        self,
        shares: SharePartitions,
        cache: MetadataCache,
        features: FinalizedFeatures,
        authorization: Authorization | None,
    ) -> None:
        self.shares = shares
        self._cache = cache
        self._features = features
        self._authorization = authorization

    def check(self, context: RequestContext, group_id: str, member_id: str) -> None:
        """Raise KafkaError unless a member may send the request: UNSUPPORTED_VERSION without the
        feature share.version, which also ends what was shared before it was taken away,
        GROUP_AUTHORIZATION_FAILED, INVALID_REQUEST for its id."""
        if not self._features.level(SHARE_VERSION):
            self.shares.forget_all()
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if self._authorization is not None and not self._authorization.is_allowed(
            context, AclOperation.READ, AclResourceType.GROUP, group_id
        ):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not 0 < len(member_id) <= LONGEST_MEMBER_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._cache.image.topic_names.get(topic_id)

    async def readable(self, context: RequestContext, topics: Iterable[str]) -> Collection[str]:
        """Return the topics that the member may read."""
        names = set(topics)
        if self._authorization is None:
            return names
        return await self._authorization.readable(context, names)

    def refusal(self, where: TopicIdPartition, readable: Collection[str]) -> ErrorCode | None:
        """Return why a member cannot use a partition; None if it can."""
        name = self.topic_name(where.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if name not in readable:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self._cache.image.partition(TopicPartition(name, where.partition)) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None

    def acknowledge(
        self,
        key: ShareSessionKey,
        rows: Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]],
        readable: Collection[str],
        version: int,
        renews: bool,
    ) -> Acknowledging:
        """Acknowledge records for a member, at once."""
        begun = Acknowledging()
        renewal, newest = AcknowledgeType.RENEW, version >= FIRST_VERSION_WITH_RENEW
        last_type = renewal if newest else AcknowledgeType.REJECT
        for where, batches in rows.items():
            error = self.refusal(where, readable)
            is_valid = _are_valid(batches, last_type, renews)
            if error is not ErrorCode.UNKNOWN_TOPIC_ID and not is_valid:
                error = ErrorCode.INVALID_REQUEST
            begun.outcomes[where] = None if error is None else KafkaError(error)
            if error is None and batches:
                own = [
                    Acknowledgement(row.first_offset, row.last_offset, row.acknowledge_types)
                    for row in batches
                ]
                share_partition = SharePartitionKey(key.group_id, where)
                try:
                    work = self.shares.acknowledge(share_partition, key.member_id, own)
                except KafkaError as refused:
                    begun.fail(where, refused)
                else:
                    begun.waiting[where] = asyncio.ensure_future(_outcome(work))
        return begun

    def leaders(
        self, errors: Mapping[TopicIdPartition, int], listener: str
    ) -> tuple[dict[TopicIdPartition, LeaderIdAndEpoch], list[NodeEndpoint]]:
        """Return the leaders of partitions whose error says that it is another broker, and where
        these brokers can be reached."""
        hints: dict[TopicIdPartition, LeaderHint] = {}
        for where, error in errors.items():
            name = self.topic_name(where.topic_id)
            if error in _LEADER_ERRORS and name is not None:
                topic_partition = TopicPartition(name, where.partition)
                hints[where] = leader_hint(
                    self._cache, self.shares.hosted, topic_partition, listener
                )
        named = {
            where: LeaderIdAndEpoch(hint.leader, hint.leader_epoch) for where, hint in hints.items()
        }
        return named, node_endpoints(hints.values(), NodeEndpoint) if hints else []


def _are_valid(batches: Sequence[AcknowledgementBatch], last_type: int, renews: bool) -> bool:
    """Whether acknowledgements are in order, and their types are known and as many as they should
    be. Only a request that says so renews."""
    previous = -1
    for row in batches:
        types, count = row.acknowledge_types, row.last_offset - row.first_offset + 1
        if count < 1 or row.first_offset < previous or not types:
            return False
        if len(types) > 1 and len(types) != count:
            return False
        if min(types) < 0 or max(types) > last_type:
            return False
        if not renews and AcknowledgeType.RENEW in types:
            return False
        previous = row.last_offset
    return True


def rows_by_partition(topics: Iterable[Any]) -> dict[TopicIdPartition, list[AcknowledgementBatch]]:
    """Return the acknowledgements in the topics of a request."""
    return {
        TopicIdPartition(topic.topic_id, row.partition_index): row.acknowledgement_batches
        for topic in topics
        for row in topic.partitions
    }
