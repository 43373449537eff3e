"""The Fetch request that most followers send, served without message objects.

It is a Fetch of version 15 to 17 in a session, and names one partition of which the follower has
appended records: the partition that it follows, or the only one that has moved. Mostly it finds no
more records and is parked.

All such requests of a follower are alike but for four numbers: correlation id, session id, session
epoch and offset. The first one is decoded as on the general path. ``_Target`` keeps what is in it,
under its bytes without these numbers, and the response, of which only numbers and records are
missing. The steps:

1. The session goes on. Mostly no other partition has changed in it (``resume_alone``).
2. Mostly the follower has all records. Its position is recorded, which may move the high watermark,
   and the request is parked as any Fetch is (``park_caught_up``).
3. When records are appended, they alone are read, and packed into the response (``respond_alone``).

A step that finds something else, such as another partition, an error or a throttle, changes
nothing and leaves the rest to the general path. So does every other request. The general path is
the reference. A broker with an authorizer, with injected faults or with client quotas has it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from minikafka.broker.fetch.reader import FetchEntry, FetchParams, ReadResult
from minikafka.broker.fetch.record_fetches import RecordFetches
from minikafka.broker.fetch.sessions import (
    FETCH_VERSIONS,
    FetchSessions,
    SessionResponse,
    key_of,
)
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import Partition
from minikafka.broker.requests.apis import (
    UNDECODABLE,
    ApiRow,
    Apis,
    PendingReply,
    RequestContext,
)
from minikafka.broker.requests.fetch import FetchHandler
from minikafka.broker.requests.packed_fetch import PackedFetchResponse
from minikafka.broker.requests.request_times import RequestTimes
from minikafka.core.replication.fetch_session import is_full
from minikafka.kernel.errors import KafkaError
from minikafka.network.reply_slots import ReplyBytes
from minikafka.network.server_connection import FrameHandler, ServerConnection
from minikafka.protocol.codec import decode
from minikafka.protocol.follower_fetch import FETCH, FollowerFetchFrame, follower_fetch
from minikafka.protocol.frames import RequestHeader, decode_request_header

MAX_TARGETS: Final = 20_000  # each about a kilobyte
JOINED_BYTES: Final = 32 * 1024  # of records: more are sent as they were read
MAX_ALIKE_BYTES: Final = 500  # most of it a client id, which may have 32 KB


class _Target:
    """What requests of one follower for one partition have in common, and the response to them."""

    __slots__ = (
        "_after_offset",
        "_parts",
        "client_id",
        "key",
        "params",
        "times",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        version: int,
        client_id: str | None,
        params: FetchParams,
        entry: FetchEntry,
        times: RequestTimes,
    ) -> None:
        self.client_id = client_id
        self.params = params
        self.times = times
        self.topic_partition, self.topic_id, _, *self._after_offset = entry
        self.key = key_of(entry)
        packed = PackedFetchResponse(self.topic_partition, self.topic_id, version, False)
        self._parts = packed.parts

    def response(self, request: FollowerFetchFrame, result: ReadResult, _: int) -> ReplyBytes:
        """Return the response, as a frame. No client is throttled here."""
        parts = self._parts(request.correlation_id, request.session_id, result)
        return b"".join(parts) if len(result.records) <= JOINED_BYTES else parts

    def entry(self, offset: int) -> FetchEntry:
        return FetchEntry(self.topic_partition, self.topic_id, offset, *self._after_offset)


def _is_alone(entry: FetchEntry, selected: SessionResponse) -> bool:
    """Whether a response has this partition alone, and no error."""
    entries = selected.entries
    return (
        len(entries) == 1
        and entries[0] is entry
        and not selected.error
        and not selected.results[0].is_urgent
    )


class FollowerFetches:
    """Serves the Fetch request that followers send, and gives all other frames to ``otherwise``."""

    def __init__(
        self,
        apis: Apis,
        otherwise: FrameHandler,
        handler: FetchHandler,
        hosted: HostedPartitions,
        fetches: RecordFetches,
        sessions: FetchSessions,
    ) -> None:
        self._apis = apis
        self._otherwise = otherwise
        self._handler = handler
        self._hosted = hosted
        self._fetches = fetches
        self._sessions = sessions
        self._targets: dict[tuple[int, bytes, bytes, bytes], _Target] = {}

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool | None:
        """As ``Apis.on_frame``."""
        apis = self._apis
        request = follower_fetch(frame)
        if request is None or is_full(request.session_epoch):
            return self._otherwise(connection, frame)
        if connection.unanswered or not apis.serves_plainly:
            return self._otherwise(connection, frame)
        row = apis.rows.get(FETCH)
        if row is None or not row.first <= request.version <= row.last:
            return self._otherwise(connection, frame)
        started_ns = apis.now_ns()
        target = self._targets.get(request.alike)
        partition = None if target is None else self._hosted_as(target)
        if partition is None:
            target = self._found(connection, row, request, frame)
            partition = None if target is None else self._hosted_as(target)
        if target is None or partition is None:
            return self._otherwise(connection, frame)
        connection.overlapping = row.overlapping
        slot = connection.open_slot(len(frame))
        target.times.arrived(request.version)  # which is no deprecated one
        header = RequestHeader(FETCH, request.version, request.correlation_id, target.client_id)
        reply = PendingReply(apis, slot, row.route, header, request.version, target.times)
        try:
            host = connection.client_host
            contain = partial(apis.contain, route=row.route, header=header, host=host, reply=reply)
            self._serve(connection.listener, target, partition, request, reply, contain)
        except KafkaError as error:
            reply(error)
        except Exception as bug:
            apis.stop_node(bug)
            raise
        now_ns = apis.now_ns()
        took_ns = now_ns - started_ns
        apis.busy_ns += took_ns
        reply.handled((started_ns - connection.received_ns) // 1000, took_ns // 1000, now_ns)
        if took_ns >= apis.stall_ns:
            apis.note_if_long(started_ns, row.route, header, connection.client_host, len(frame))
        return False

    def _serve(
        self,
        listener: str,
        target: _Target,
        partition: Partition,
        request: FollowerFetchFrame,
        reply: PendingReply,
        contain: Callable[[Exception], None],
    ) -> None:
        """Read and reply, or park the request. Raises KafkaError as ``FetchSessions.resume``."""
        sessions, fetches, params = self._sessions, self._fetches, target.params
        entry, version = target.entry(request.offset), FETCH_VERSIONS[request.version]
        session = request.session_id, request.session_epoch

        def respond(results: Sequence[ReadResult]) -> None:
            selected = select(results)
            if _is_alone(entry, selected):
                reply.send_packed(partial(target.response, request, selected.results[0]))
            else:
                reply(self._handler.response(listener, version, params.isolation, selected))

        following = sessions.resume_alone(*session, target.key, entry, version, params.replica_id)
        if following is None:
            context = sessions.resume(*session, (entry,), (), version, params.replica_id)
            entries, select, following = context
            fetches.fetch(params, entries, respond, contain, following)
            return

        def respond_alone() -> bool:
            if following.is_overtaken:
                return False
            result = fetches.read_appended(params, entry, partition)
            if result is None:
                return False
            sessions.respond_alone(following, version, result)
            reply.send_packed(partial(target.response, request, result))
            return True

        select = partial(sessions.respond_to, following, version)
        if not fetches.park_caught_up(
            params, partition, following, respond, contain, respond_alone
        ):
            fetches.fetch(params, following.entries, respond, contain, following)

    def _hosted_as(self, target: _Target) -> Partition | None:
        """Return the partition if it is here, and is of the same topic. A topic of the same name
        has another id, and so another object."""
        partition = self._hosted.get(target.topic_partition)
        return partition if partition and partition.topic_id is target.topic_id else None

    def _found(
        self,
        connection: ServerConnection,
        row: ApiRow,
        request: FollowerFetchFrame,
        frame: memoryview,
    ) -> _Target | None:
        """Decode a request and remember what later ones have in common with it. None if it is no
        request of a follower for one partition alone, which is hosted here by its topic id."""
        if len(frame) > MAX_ALIKE_BYTES:
            return None
        try:
            header, position = decode_request_header(frame)
            message: Any = decode(row.request_class, request.version, frame, position)
        except UNDECODABLE:
            return None
        version = FETCH_VERSIONS[request.version]
        context = RequestContext(header, connection.listener, connection.client_host)
        params = self._handler.params(context, message, version)
        entries = self._handler.entries(message, version)
        if not params.is_from_follower or len(entries) != 1 or message.forgotten_topics_data:
            return None
        partition = self._hosted.get(entries[0].topic_partition)
        if partition is None or partition.topic_id != entries[0].topic_id:
            return None
        if len(self._targets) >= MAX_TARGETS:
            self._targets.clear()
        assert row.times_of is not None
        times = row.times_of(message)
        entry = entries[0]._replace(topic_id=partition.topic_id)  # the same object, for ``is``
        target = _Target(request.version, header.client_id, params, entry, times)
        self._targets[request.alike] = target
        return target
