"""ShareFetch (key 78): a member of a share group acquires records, and acknowledges others."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from minikafka.core.share.persister import TopicIdPartition
from minikafka.core.share.records import SharePartitionKey
from minikafka.core.share.session import CLOSES, OPENS, ShareSession, ShareSessionKey, rotated
from minikafka.core.share.settings import READ_COMMITTED
from minikafka.core.share.share_partition import AcquireMode
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.share.acknowledging import (
    FIRST_VERSION_WITH_RENEW,
    ShareRequests,
    rows_by_partition,
)
from minikafka.server.broker.fetch.reader import Isolation
from minikafka.server.broker.fetch.record_fetches import RecordFetches
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.share.delayed_fetch import (
    DelayedShareFetch,
    FetchedShares,
    SharedRecords,
    ShareFetchParams,
)
from minikafka.server.broker.share.share_partitions import LedSharePartition
from minikafka.server.listeners.server_connection import ServerConnection


class ShareFetchHandler:
    """Serves ShareFetch (a ``TaskHandler``), once share.version is in force.

    Acknowledgements are stored while the fetch waits for records; the response is sent when both
    are done. ``fetch_max_bytes`` is the broker's own limit for one response."""

    def __init__(
        self,
        requests: ShareRequests,
        fetches: RecordFetches,
        clock: Clock,
        fetch_max_bytes: int,
    ) -> None:
        self._requests = requests
        self._shares = requests.shares
        self._fetches = fetches
        self._clock = clock
        self._fetch_max_bytes = fetch_max_bytes

    async def __call__(
        self, context: RequestContext, request: ShareFetchRequest
    ) -> ShareFetchResponse:
        group_id, member_id = request.group_id or "", request.member_id or ""
        key = ShareSessionKey(group_id, member_id)
        acknowledged = {
            where: rows for where, rows in rows_by_partition(request.topics).items() if rows
        }
        try:
            self._requests.check(context, group_id, member_id)
            _check_renewal(request, context.version)
            session = self._session(context, request, key, bool(acknowledged))
        except KafkaError as error:
            if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                await self._clock.sleep(max(0, request.max_wait_ms))
            return ShareFetchResponse(error_code=error.code)
        epoch = request.share_session_epoch
        partitions = [] if epoch == CLOSES else list(session.partitions)
        named = {*partitions, *acknowledged}
        names = (self._requests.topic_name(where.topic_id) for where in named)
        readable = await self._requests.readable(context, filter(None, names))
        acknowledging = self._requests.acknowledge(
            key, acknowledged, readable, context.version, request.is_renew_ack
        )
        fetched: FetchedShares = {}
        if not request.is_renew_ack:
            fetched = await self._fetch(context, request, partitions, readable)
        outcomes = await acknowledging.stored()
        response = self._response(context, request, session, fetched, outcomes)
        if epoch == CLOSES:
            await self._shares.close_session(key)
        return response

    def _session(
        self,
        context: RequestContext,
        request: ShareFetchRequest,
        key: ShareSessionKey,
        acknowledges: bool,
    ) -> ShareSession:
        connection = context.connection
        session = self._shares.sessions.fetch(
            key,
            request.share_session_epoch,
            [
                TopicIdPartition(topic.topic_id, row.partition_index)
                for topic in request.topics
                for row in topic.partitions
            ],
            [
                TopicIdPartition(topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ],
            acknowledges,
            connection,
        )
        if request.share_session_epoch == OPENS and isinstance(connection, ServerConnection):
            connection.call_when_lost(self._shares.connection_closed)
        return session

    # -- fetching

    async def _fetch(
        self,
        context: RequestContext,
        request: ShareFetchRequest,
        partitions: list[TopicIdPartition],
        readable: Collection[str],
    ) -> FetchedShares:
        """Wait for records, and acquire them. Return what each share-partition has, and errors."""
        found: dict[TopicIdPartition, SharedRecords] = {}
        led: dict[TopicIdPartition, LedSharePartition] = {}
        group_id = request.group_id or ""
        params = self._params(context, request)
        may_fetch = params.max_records > 0 and params.max_bytes > 0
        usable = []
        for where in partitions:
            error = self._requests.refusal(where, readable)
            if error is None:
                usable.append(where)
            else:
                found[where] = SharedRecords(error)
        for where in rotated(usable, request.share_session_epoch) if may_fetch else ():
            name = self._requests.topic_name(where.topic_id) or ""
            try:
                led[where] = self._shares.lead(
                    SharePartitionKey(group_id, where), TopicPartition(name, where.partition)
                )
            except KafkaError as error:
                found[where] = SharedRecords(error.code)
        if led:
            found |= await self._wait(params, led)
        return found

    def _params(self, context: RequestContext, request: ShareFetchRequest) -> ShareFetchParams:
        group_id = request.group_id or ""
        committed = self._shares.settings(group_id).isolation_level == READ_COMMITTED
        max_bytes = max(0, min(request.max_bytes, self._fetch_max_bytes))
        if context.throttle is not None:
            max_bytes = int(min(max_bytes, max(0, context.throttle.most_fetched)))
        limited = request.share_acquire_mode == AcquireMode.RECORD_LIMIT
        return ShareFetchParams(
            group_id,
            request.member_id or "",
            AcquireMode.RECORD_LIMIT if limited else AcquireMode.BATCH_OPTIMIZED,
            max(0, request.max_wait_ms),
            min(request.min_bytes, max_bytes),
            max_bytes,
            request.max_records,
            request.batch_size,
            Isolation.TXN_COMMITTED if committed else Isolation.HIGH_WATERMARK,
        )

    async def _wait(
        self, params: ShareFetchParams, led: Mapping[TopicIdPartition, LedSharePartition]
    ) -> FetchedShares:
        fetched: asyncio.Future[FetchedShares] = asyncio.get_running_loop().create_future()

        def respond(found: FetchedShares) -> None:
            if not fetched.done():  # cancelled when the node stops
                fetched.set_result(found)

        delayed = DelayedShareFetch(params, led, self._shares, self._fetches, respond)
        self._shares.parked.try_complete_else_watch(delayed, list(delayed.watched_keys()))
        return await fetched

    # -- the response

    def _response(
        self,
        context: RequestContext,
        request: ShareFetchRequest,
        session: ShareSession,
        fetched: FetchedShares,
        outcomes: Mapping[TopicIdPartition, KafkaError | None],
    ) -> ShareFetchResponse:
        """Return the response: what is new in the session, and the errors of acknowledgements."""
        epoch = request.share_session_epoch
        if context.throttle is not None:
            # The records are acquired, so that they are sent; the next request waits.
            context.throttle.fetched(sum(len(row.records) for row in fetched.values()))
        errors = {where: row.error for where, row in fetched.items()}
        leaders, endpoints = self._requests.leaders(errors, context.listener)
        rows: dict[TopicIdPartition, PartitionData] = {}
        for where, shared in fetched.items():
            size, has_error = len(shared.records), shared.error is not ErrorCode.NONE
            if epoch in (OPENS, CLOSES) or session.must_respond(where, size > 0, has_error):
                row = rows[where] = PartitionData(where.partition, shared.error)
                row.records = shared.records
                row.acquired_records = [AcquiredRecords(*acquired) for acquired in shared.acquired]
                row.current_leader = leaders.get(where, row.current_leader)
        for where, error in outcomes.items():
            row = rows.setdefault(where, PartitionData(where.partition))
            if error is not None:
                row.acknowledge_error_code = error.code
                row.acknowledge_error_message = error.message
        by_topic = grouped((where.topic_id, row) for where, row in rows.items())
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._shares.settings(
                request.group_id or ""
            ).lock_duration_ms,
            responses=[ShareFetchableTopicResponse(*topic) for topic in by_topic.items()],
            node_endpoints=endpoints,
        )


def _check_renewal(request: ShareFetchRequest, version: int) -> None:
    """Raise KafkaError INVALID_REQUEST for a request that renews locks, and fetches as well
    (KIP-1222)."""
    fetches = request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms
    if version >= FIRST_VERSION_WITH_RENEW and request.is_renew_ack and any(fetches):
        raise KafkaError(ErrorCode.INVALID_REQUEST)


SHARE_FETCH = Api(
    key=ApiKey.SHARE_FETCH,
    handler=lambda broker: ShareFetchHandler(
        ShareRequests(broker.shares, broker.cache, broker.features, broker.authorization),
        broker.fetches,
        broker.world.clock,
        broker.config.integer("fetch.max.bytes"),
    ),
    task=True,
    authorization=BY_HANDLER,
    quota=Quota.FETCH,
    changes_state=True,
    in_parts=True,
)
