"""The Fetch request that most consumers send, served in one straight line.

It is a Fetch of version 10 to 17 for one partition that this broker leads, without a session or in
a session of a consumer that has no other partition. There are enough records for it, and they are
in the page cache. The steps:

1. ``common_fetch`` reads the frame into plain values. There are no message objects.
2. ``_Target`` is found by the bytes that name topic and partition. It has the partition's name and
   the response, of which only numbers and records are missing.
3. The records are read. Nothing has changed so far.
4. The session goes on, and the response leaves with those of the same read.

Every request that differs in anything, or finds too little, is left to the general path, which is
the reference. It alone parks requests, reads from disks, and responds with errors. A broker with an
authorizer, with injected faults or with client quotas has the general path alone.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.broker.fetch.reader import FetchEntry, Isolation
from minikafka.broker.fetch.record_fetches import UNREAD_MIN_BYTES, RecordFetches
from minikafka.broker.fetch.sessions import FETCH_VERSIONS, FetchSessions
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import Partition
from minikafka.broker.requests.apis import ApiRow, Apis
from minikafka.broker.requests.fetch import FetchConfig
from minikafka.broker.requests.packed_fetch import PackedFetchResponse
from minikafka.broker.requests.request_times import RequestTimes
from minikafka.core.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    PartitionKey,
)
from minikafka.kernel.cluster import (
    CONSUMER_REPLICA_ID,
    NO_EPOCH,
    TopicPartition,
)
from minikafka.kernel.errors import KafkaError
from minikafka.network.reply_slots import ReplyTimes
from minikafka.network.server import FrameHandler, ServerConnection
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import uuid_from_bytes, write_uvarint
from minikafka.protocol.frames import decode_request_header
from minikafka.storage.log.reader import NotInPageCache

FETCH: Final = int(ApiKey.FETCH)
FIRST_VERSION: Final = 10  # batches of any compression are sent as they are
LAST_VERSION: Final = ApiKey.FETCH.max_version
FIRST_FLEXIBLE: Final = ApiKey.FETCH.first_flexible
FIRST_BY_ID: Final = 13
FIRST_WITHOUT_REPLICA_ID: Final = 15
MAX_TARGETS: Final = 20_000  # of all versions, each about a kilobyte
JOINED_BYTES: Final = 32 * 1024  # of records: fewer are copied, more are sent as they were read
NO_OFFSET: Final = -1

_read_header = Struct(">hhih").unpack_from  # key, version, correlation id, length of the client id
_read_replica_id = Struct(">i").unpack_from
# max_wait_ms, min_bytes, max_bytes, isolation level, session id, session epoch
_START: Final = Struct(">iiibii")
# Current leader epoch, fetch offset, last fetched epoch (flexible), log start, partition_max_bytes.
_ROW: Final = Struct(">iqqi")
_FLEXIBLE_ROW: Final = Struct(">iqiqi")
# No forgotten topics, no rack (version 11), no tags (of partition, topic and request).
_END: Final = {10: bytes(4), 11: bytes(6)}
_FLEXIBLE_END: Final = b"\0\0\x01\x01\0"

_pack_int = Struct(">i").pack
_ISOLATION: Final = (Isolation.HIGH_WATERMARK, Isolation.TXN_COMMITTED)


class CommonFetch(NamedTuple):
    """A Fetch request of a consumer for one partition. ``name`` has the encoded topic and
    partition."""

    version: int
    correlation_id: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    name: bytes
    leader_epoch: int
    offset: int
    partition_max_bytes: int


def common_fetch(frame: memoryview) -> CommonFetch | None:
    """Read a frame; None if it is no Fetch request as the module describes it. Its ``name`` is not
    checked."""
    if len(frame) < _START.size or frame[0] or frame[1] != FETCH:
        return None
    try:
        _, version, correlation_id, length = _read_header(frame)
        at = 10
        if length > 0:
            at += length
            if not frame[10:at].tobytes().isascii():
                return None
        if not FIRST_VERSION <= version <= LAST_VERSION:
            return None
        if version >= FIRST_FLEXIBLE:
            tags = frame[at]
            at += 1
            row = len(frame) - len(_FLEXIBLE_END) - _FLEXIBLE_ROW.size
            epoch, offset, last_epoch, start, most = _FLEXIBLE_ROW.unpack_from(frame, row)
            if (
                tags
                or last_epoch != NO_EPOCH
                or frame[row + _FLEXIBLE_ROW.size :].tobytes() != _FLEXIBLE_END
            ):
                return None
        else:
            end = _END[version]
            row = len(frame) - len(end) - _ROW.size
            epoch, offset, start, most = _ROW.unpack_from(frame, row)
            if frame[row + _ROW.size :].tobytes() != end:
                return None
        if version < FIRST_WITHOUT_REPLICA_ID:
            if _read_replica_id(frame, at)[0] != CONSUMER_REPLICA_ID:
                return None
            at += 4
        _, min_bytes, max_bytes, isolation, session_id, session_epoch = _START.unpack_from(
            frame, at
        )
        at += _START.size
    except (IndexError, error):
        return None
    if start != NO_OFFSET or at >= row or isolation not in (0, 1) or min_bytes > UNREAD_MIN_BYTES:
        return None
    if session_epoch == INITIAL_EPOCH or (session_epoch == FINAL_EPOCH) != (
        session_id == NO_SESSION
    ):
        return None
    name = frame[at:row].tobytes()
    return CommonFetch(
        version,
        correlation_id,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        name,
        epoch,
        offset,
        most,
    )


class Named(NamedTuple):
    """A partition as a request names it: by the name of its topic or by the id."""

    topic: str
    topic_id: UUID | None
    partition: int


def named_partition(name: bytes, version: int) -> Named | None:
    """Return what ``CommonFetch.name`` names; None unless it is one partition of one topic. By id
    the name of the topic is empty."""
    partition = name[-4:]
    if version >= FIRST_BY_ID:
        encoded = name[1:17]
        whole = b"\x02" + encoded + b"\x02"
    elif version >= FIRST_FLEXIBLE:
        encoded = name[2:-5]
        whole = b"\x02" + write_uvarint(len(encoded) + 1) + encoded + b"\x02"
    else:
        encoded = name[6:-8]
        whole = _pack_int(1) + len(encoded).to_bytes(2) + encoded + _pack_int(1)
    if name != whole + partition or len(partition) < 4:
        return None
    index = int.from_bytes(partition, signed=True)
    if version >= FIRST_BY_ID:
        return Named("", uuid_from_bytes(encoded), index)
    try:
        return Named(encoded.decode(), None, index)
    except UnicodeDecodeError:
        return None


class _Target:
    """One partition, as requests of one version and isolation level name it, and the response to
    them."""

    __slots__ = ("key", "response", "topic_id", "topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, topic_id: UUID | None, version: int, isolation: int
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        topic = topic_partition.topic if topic_id is None else topic_id.int
        self.key: PartitionKey = topic, topic_partition.partition
        packed = PackedFetchResponse(topic_partition, topic_id, version, bool(isolation))
        self.response = packed.parts

    def names(self, partition: Partition, leader_epoch: int) -> bool:
        """Whether this broker leads the partition in this epoch, and the topic is the one that is
        named."""
        return (
            partition.is_leader
            and partition.has_log
            and (leader_epoch in (NO_EPOCH, partition.state.leader_epoch))
            and partition.accepts_topic_id(self.topic_id)
        )


def by_kind(fetches: FrameHandler, others: FrameHandler) -> FrameHandler:
    """Return what gives Fetch requests to ``fetches``, and all other frames to ``others``."""

    def on_frame(connection: ServerConnection, frame: memoryview) -> bool | None:
        is_fetch = len(frame) > 1 and frame[1] == FETCH and not frame[0]
        return (fetches if is_fetch else others)(connection, frame)

    return on_frame


class CommonFetches:
    """Serves the common Fetch request, and gives all other frames to ``otherwise``."""

    def __init__(
        self,
        apis: Apis,
        otherwise: FrameHandler,
        hosted: HostedPartitions,
        fetches: RecordFetches,
        sessions: FetchSessions,
        config: FetchConfig,
    ) -> None:
        self._apis = apis
        self._otherwise = otherwise
        self._hosted = hosted
        self._fetches = fetches
        self._sessions = sessions
        self._most_bytes = config.fetch_max_bytes
        self._times: RequestTimes | None = None  # with the first request
        # By version and isolation level.
        self._targets: dict[tuple[int, int], dict[bytes, _Target]] = {
            (version, isolation): {}
            for version in range(FIRST_VERSION, LAST_VERSION + 1)
            for isolation in range(len(_ISOLATION))
        }

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool | None:
        """As ``Apis.on_frame``."""
        apis = self._apis
        request = common_fetch(frame)
        if request is None or connection.unanswered or not apis.serves_plainly:
            return self._otherwise(connection, frame)
        row = apis.rows.get(FETCH)
        if row is None or not row.first <= request.version <= row.last:
            return self._otherwise(connection, frame)
        started_ns = apis.now_ns()
        target = self._targets[request.version, request.isolation_level].get(request.name)
        target = target or self._found(request)
        if target is None:
            return self._otherwise(connection, frame)
        times = self._times_of(row)
        watched = None if apis.watch is None else apis.watch.at_once(times, connection, frame)
        try:
            replied = self._serve(connection, target, request, watched or times)
        except Exception as bug:
            apis.stop_node(bug)
            raise
        if not replied:
            return self._otherwise(connection, frame)
        times.arrived(request.version)
        now_ns = apis.now_ns()
        local_us = (now_ns - started_ns) // 1000
        queue_us = (started_ns - connection.received_ns) // 1000
        times.served(queue_us, local_us, len(frame))
        if watched is not None:
            watched.served(queue_us, local_us, 0)
        apis.busy_ns += now_ns - started_ns
        if now_ns - started_ns >= apis.stall_ns:
            header, _ = decode_request_header(frame)
            apis.note_if_long(started_ns, row.route, header, connection.client_host, len(frame))
        return False

    def _serve(
        self,
        connection: ServerConnection,
        target: _Target,
        request: CommonFetch,
        times: ReplyTimes,
    ) -> bool:
        """Read and reply; ``times`` is notified of the response. False if the general path has to
        serve the request: nothing has changed."""
        partition = self._hosted.get(target.topic_partition)
        if partition is None or not target.names(partition, request.leader_epoch):
            return False
        session, sessions = None, self._sessions
        if request.session_id != NO_SESSION:
            session = sessions.only_of(request.session_id, request.session_epoch, target.key)
            if session is None:
                return False
        offset, partition_max_bytes = request.offset, max(0, request.partition_max_bytes)
        max_bytes = max(0, min(request.max_bytes, self._most_bytes))
        isolation = _ISOLATION[request.isolation_level]
        try:
            result = self._fetches.read_one(
                partition, offset, min(max_bytes, partition_max_bytes), isolation
            )
        except (KafkaError, OSError, NotInPageCache):
            return False  # the general path meets the same error
        if len(result.records) < max(1, min(request.min_bytes, max_bytes)) or result.aborted:
            return False
        if session is not None:
            entry = FetchEntry(
                target.topic_partition,
                target.topic_id,
                offset,
                partition_max_bytes,
                request.leader_epoch,
            )
            sessions.advance(session, entry, result, FETCH_VERSIONS[request.version])
        self._fetches.count_one(result)
        response = target.response(request.correlation_id, request.session_id, result)
        if len(result.records) <= JOINED_BYTES:
            connection.send_at_once(b"".join(response), times)
        else:
            connection.send_all_at_once(response, 1, times)
        return True

    def _times_of(self, row: ApiRow) -> RequestTimes:
        if self._times is None:
            assert row.times_of is not None
            self._times = row.times_of(row.request_class())
        return self._times

    def _found(self, request: CommonFetch) -> _Target | None:
        """Return the target of a partition that this broker hosts, and remember it."""
        named = named_partition(request.name, request.version)
        if named is None:
            return None
        topic, topic_id, partition = named
        if topic_id is not None:
            topic = self._hosted.topic_name(topic_id) or ""
        topic_partition = TopicPartition(topic, partition)
        if self._hosted.get(topic_partition) is None:
            return None
        if sum(map(len, self._targets.values())) >= MAX_TARGETS:
            for targets in self._targets.values():
                targets.clear()
        target = _Target(topic_partition, topic_id, request.version, request.isolation_level)
        self._targets[request.version, request.isolation_level][request.name] = target
        return target
