"""OffsetFetch (key 9): the committed positions of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from minikafka.core.group.description import NOTHING_COMMITTED, FetchedOffset
from minikafka.core.group.records import CommittedOffset
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import ApiGuard, Serve, TopicRows, around, knowing, split
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.apis.topic_ids import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    name_topics,
)
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.zookeeper_offsets import ZookeeperOffsets

FIRST_VERSION_WITH_ERROR: Final = 2
FIRST_VERSION_WITH_MANY_GROUPS: Final = 8
NO_MEMBER_EPOCH: Final = -1


class OffsetFetchHandler:
    """Serves OffsetFetch (an ``ImmediateHandler``).

    Version 0 reads the offsets from ZooKeeper.

    The response of version 1 has no error code for the group: each requested partition has it.
    (Kafka 3.9 responds without any partitions.)
    """

    def __init__(
        self, groups: GroupCoordination, zookeeper: ZookeeperOffsets, cluster: MetadataCache
    ) -> None:
        self._groups = groups
        self._zookeeper = zookeeper
        self._cluster = cluster

    def __call__(self, context: RequestContext, request: OffsetFetchRequest, reply: Reply) -> None:
        if context.version == 0:
            self._from_zookeeper(request, reply)
        elif context.version >= FIRST_VERSION_WITH_MANY_GROUPS:
            stable = request.require_stable
            if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
                groups = [self._group_by_ids(group, stable) for group in request.groups]
            else:
                groups = [self._group(group, group.topics, stable) for group in request.groups]
            reply(OffsetFetchResponse(groups=groups))
        else:
            reply(self._of_one_group(context.version, request))

    def _group_by_ids(
        self, group: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """Return the response for a group whose topics have ids.

        Topics without an id are left out if all offsets are requested, as in Kafka."""
        if group.topics is None:
            response = self._group(group, None, require_stable)
            for row in response.topics:
                row.topic_id = self._cluster.topic_id(row.name)
            response.topics = [row for row in response.topics if row.topic_id != ZERO_UUID]
            return response
        name_topics(group.topics, self._cluster)
        ids = {topic.name: topic.topic_id for topic in group.topics}
        known = [topic for topic in group.topics if topic.name]
        response = self._group(group, known, require_stable)
        if response.error_code == ErrorCode.NONE:
            for row in response.topics:
                row.topic_id = ids[row.name]
            response.topics += [_unknown(topic) for topic in group.topics if not topic.name]
        return response

    def _group(
        self,
        group: OffsetFetchRequestGroup,
        topics: Sequence[OffsetFetchRequestTopics] | None,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup:
        """Return the response for ``topics`` of a group; None requests all committed offsets."""
        group_id, member_id, epoch = group.group_id, group.member_id, group.member_epoch
        try:
            found = self._fetch(group_id, topics, require_stable, member_id, epoch)
        except KafkaError as error:
            return OffsetFetchResponseGroup(group_id, error_code=error.code)
        rows = (
            (
                topic,
                OffsetFetchResponsePartitions(
                    index,
                    committed.offset,
                    committed.leader_epoch,
                    committed.metadata,
                    error_code,
                ),
            )
            for (topic, index), committed, error_code in found
        )
        by_topic = [
            OffsetFetchResponseTopics(name, partitions=found)
            for name, found in grouped(rows).items()
        ]
        return OffsetFetchResponseGroup(group_id, by_topic)

    def _of_one_group(self, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        try:
            found = self._fetch(request.group_id, request.topics, request.require_stable)
        except KafkaError as error:
            if version >= FIRST_VERSION_WITH_ERROR:
                return OffsetFetchResponse(error_code=error.code)
            requested = _requested(request.topics or ())
            found = [FetchedOffset(tp, NOTHING_COMMITTED, error.code) for tp in requested]
        return _fetch_response(found)

    def _fetch(
        self,
        group_id: str,
        topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = NO_MEMBER_EPOCH,
    ) -> list[FetchedOffset]:
        """Return the response for one group. ``topics`` None requests all committed offsets."""
        groups = self._groups
        if topics is None:
            return groups.fetch_all(
                group_id, require_stable, member_id=member_id, member_epoch=member_epoch
            )
        return groups.fetch(
            group_id,
            _requested(topics),
            require_stable,
            member_id=member_id,
            member_epoch=member_epoch,
        )

    def _from_zookeeper(self, request: OffsetFetchRequest, reply: Reply) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        requested = _requested(request.topics or ())
        known = [tp for tp in requested if self._cluster.contains(tp)]

        def respond(found: Mapping[TopicPartition, int | ErrorCode | None]) -> None:
            offsets: list[FetchedOffset] = []
            for topic_partition in requested:
                value = found.get(topic_partition)
                if value is None or isinstance(value, ErrorCode):
                    error = unknown if value is None else value
                    offsets.append(FetchedOffset(topic_partition, NOTHING_COMMITTED, error))
                else:
                    offsets.append(FetchedOffset(topic_partition, CommittedOffset(value)))
            reply(_fetch_response(offsets))

        self._zookeeper.fetch(request.group_id, known, respond)


def _requested(
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics],
) -> list[TopicPartition]:
    """Return the partitions in the order of the request. As in Kafka, a partition that it names
    twice has one row in the response."""
    named = (
        TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes
    )
    return list(dict.fromkeys(named))


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    """Return the row of a topic whose id is unknown."""
    error = ErrorCode.UNKNOWN_TOPIC_ID
    rows = [
        OffsetFetchResponsePartitions(index, -1, error_code=error)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics("", topic.topic_id, rows)


def _fetch_response(found: Sequence[FetchedOffset]) -> OffsetFetchResponse:
    rows = (
        (
            topic,
            OffsetFetchResponsePartition(
                index, committed.offset, committed.leader_epoch, committed.metadata, error
            ),
        )
        for (topic, index), committed, error in found
    )
    topics = [OffsetFetchResponseTopic(*of_topic) for of_topic in grouped(rows).items()]
    return OffsetFetchResponse(topics=topics)


_FETCH = TopicRows(
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    lambda index, error: OffsetFetchResponsePartition(index, -1, error_code=error),
    partitions="partition_indexes",
)
_FETCH_OF_GROUP = TopicRows(
    OffsetFetchResponseGroup,
    lambda name, rows: OffsetFetchResponseTopics(name, partitions=rows),
    lambda index, error: OffsetFetchResponsePartitions(index, -1, error_code=error),
    partitions="partition_indexes",
    ids_since=FIRST_VERSION_WITH_TOPIC_IDS,
)


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of OffsetFetch, which needs the names of topics that have ids."""

    async def respond(
        authorization: Authorization,
        context: RequestContext,
        request: OffsetFetchRequest,
        serve: Serve,
    ) -> OffsetFetchResponse:
        if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
            for group in request.groups:
                name_topics(group.topics or (), broker.cache)
        return await _filter_fetched_offsets(authorization, context, request, serve)

    return around(respond)


async def _filter_fetched_offsets(
    authorization: Authorization,
    context: RequestContext,
    request: OffsetFetchRequest,
    serve: Serve,
) -> OffsetFetchResponse:
    """DESCRIBE is needed on the groups, and on the topics. Topics of a request for all offsets are
    left out if they are not allowed."""
    if context.version >= FIRST_VERSION_WITH_MANY_GROUPS:
        return await _filter_groups(authorization, context, request, serve)
    if not authorization.is_allowed(
        context, AclOperation.DESCRIBE, AclResourceType.GROUP, request.group_id
    ):
        if context.version == 0:
            response: OffsetFetchResponse = await _FETCH.refuse_all(
                request, ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
            return response
        # Version 1 has no field for the error: as in Kafka it gets an empty response.
        error = (
            ErrorCode.GROUP_AUTHORIZATION_FAILED
            if context.version >= FIRST_VERSION_WITH_ERROR
            else ErrorCode.NONE
        )
        return OffsetFetchResponse(error_code=error)
    refused = await _take_refused_topics(_FETCH, authorization, context, request)
    is_all = request.topics is None
    response = await serve(request)
    if response.error_code == ErrorCode.NONE:
        rows = await _FETCH.refused(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        response.topics = response.topics + rows
        if is_all:
            await _leave_out(authorization, context, response)
    return response


async def _filter_groups(
    authorization: Authorization,
    context: RequestContext,
    request: OffsetFetchRequest,
    serve: Serve,
) -> OffsetFetchResponse:
    groups = request.groups
    names = [group.group_id for group in groups]
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.GROUP, names
    )
    request.groups = [group for group in groups if group.group_id in allowed]
    refused = [
        await _take_refused_topics(_FETCH_OF_GROUP, authorization, context, group)
        for group in request.groups
    ]
    is_all = [group.topics is None for group in request.groups]
    response: OffsetFetchResponse = await serve(request)
    for group, topics, leaves_out in zip(response.groups, refused, is_all, strict=True):
        if group.error_code == ErrorCode.NONE:
            rows = await _FETCH_OF_GROUP.refused(topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            group.topics = group.topics + rows
            if leaves_out:
                await _leave_out(authorization, context, group)
    served = iter(response.groups)
    response.groups = [
        next(served)
        if name in allowed
        else OffsetFetchResponseGroup(name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in names
    ]
    return response


async def _take_refused_topics(
    rows: TopicRows, authorization: Authorization, context: RequestContext, asked: Any
) -> list[Any]:
    """Remove the topics that are not allowed from a request or a group of it, and return them."""
    if asked.topics is None:
        return []
    asked.topics, refused = await rows.split(
        authorization, context, AclOperation.DESCRIBE, asked.topics
    )
    return refused


async def _leave_out(authorization: Authorization, context: RequestContext, found: Any) -> None:
    """Remove the topics that are not allowed from a response or a group of it."""
    names = [topic.name for topic in found.topics]
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names
    )
    found.topics, _ = await split(found.topics, "name", allowed)


OFFSET_FETCH = Api(
    key=ApiKey.OFFSET_FETCH,
    handler=lambda broker: OffsetFetchHandler(
        broker.groups, broker.zookeeper_offsets, broker.cache
    ),
    task=False,
    authorization=knowing(_guard),
    quota=Quota.REQUESTS,
    changes_state=False,
)
