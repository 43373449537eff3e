"""The Fetch request that most consumers send, served in one straight line.

It is a Fetch of version 10 to 17 for one partition that this broker leads, without a session or in
a session of a consumer that has no other partition. There are enough records for it, and they are
in the page cache. A client id of more than some 300 bytes is unusual. The steps:

1. ``common_fetch`` takes four numbers out of the frame that differ from request to request:
   correlation id, session id, session epoch and offset.
2. ``_Target`` is found by the request's form: all other bytes, which are read and checked when they
   come first. It has the partition's name, the terms of the request, and the response, of which
   only numbers and records are missing.
3. The records are read. Nothing has changed so far.
4. The session goes on, and the response leaves with those of the same read.

Every request that differs in anything, or finds too little, is left to the general path, which is
the reference. It alone parks requests, reads from disks, and responds with errors. A broker with an
authorizer, with injected faults or with client quotas has the general path alone.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, TypeAlias
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
from minikafka.network.server_connection import FrameHandler, ServerConnection
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
# A form has a client id, which any client can make up, a response a partition of this broker.
MAX_TARGETS: Final = 10_000  # each has some 600 bytes
MAX_PACKED: Final = 20_000  # responses, each has some 900 bytes
JOINED_BYTES: Final = 32 * 1024  # of records: fewer are copied, more are sent as they were read
MAX_REQUEST_BYTES: Final = 450  # a client id may have 32 KB
NO_OFFSET: Final = -1
_LEAST_BYTES: Final = 10  # of the header

_read_header = Struct(">hhih").unpack_from  # key, version, correlation id, length of the client id
# Between the session and the offset are the name of the partition and its leader epoch.
_SESSION: Final = Struct(">ii")
_OFFSET: Final = Struct(">q")
_START: Final = Struct(">iiib")  # max_wait_ms, min_bytes, max_bytes, isolation level
# Last fetched epoch (flexible), log start, partition_max_bytes; then no forgotten topics, no rack
# (version 11), no tags (of partition, topic and request).
_REST: Final = Struct(">qi")
_FLEXIBLE_REST: Final = Struct(">iqi")
_END: Final = {10: bytes(4), 11: bytes(6)}
_FLEXIBLE_END: Final = b"\0\0\x01\x01\0"

_pack_int = Struct(">i").pack
_ISOLATION: Final = (Isolation.HIGH_WATERMARK, Isolation.TXN_COMMITTED)


def _places(version: int) -> tuple[int, int]:
    """Return the place of the session without a client id, and that of the offset from the end."""
    flexible = version >= FIRST_FLEXIBLE
    rest = _FLEXIBLE_REST.size + len(_FLEXIBLE_END) if flexible else _REST.size + len(_END[version])
    replica_id = 4 if version < FIRST_WITHOUT_REPLICA_ID else 0
    return 10 + flexible + replica_id + _START.size, _OFFSET.size + rest


_PLACES: Final = {version: _places(version) for version in range(FIRST_VERSION, LAST_VERSION + 1)}
# What many requests have in common: the version, the bytes up to the session, those up to the
# offset, and the rest.
FetchForm: TypeAlias = tuple[int, bytes, bytes, bytes]


class CommonFetch(NamedTuple):
    """A Fetch request of a consumer for one partition. ``form`` is its version and its bytes
    without these numbers."""

    version: int
    correlation_id: int
    session_id: int
    session_epoch: int
    offset: int
    form: FetchForm


def common_fetch(frame: memoryview) -> CommonFetch | None:
    """Read a frame; None if it cannot be a Fetch request as the module describes it. What is in
    ``form`` is not checked."""
    size = len(frame)
    if not _LEAST_BYTES <= size <= MAX_REQUEST_BYTES or frame[0] or frame[1] != FETCH:
        return None
    _, version, correlation_id, length = _read_header(frame)
    if version not in _PLACES:
        return None
    session, from_end = _PLACES[version]
    if length > 0:
        session += length
    offset = size - from_end
    if session + _SESSION.size > offset:
        return None
    session_id, session_epoch = _SESSION.unpack_from(frame, session)
    if session_epoch == INITIAL_EPOCH or (session_epoch == FINAL_EPOCH) != (
        session_id == NO_SESSION
    ):
        return None
    form = (
        version,
        frame[8:session].tobytes(),
        frame[session + 8 : offset].tobytes(),
        frame[offset + 8 :].tobytes(),
    )
    (fetch_offset,) = _OFFSET.unpack_from(frame, offset)
    return CommonFetch(version, correlation_id, session_id, session_epoch, fetch_offset, form)


class FetchTerms(NamedTuple):
    """What requests of one form have in common. ``name`` has the encoded topic and partition."""

    min_bytes: int
    max_bytes: int
    isolation_level: int
    name: bytes
    leader_epoch: int
    partition_max_bytes: int


def fetch_terms(form: FetchForm) -> FetchTerms | None:
    """Read ``CommonFetch.form``; None unless it is of a request as the module describes it. The
    name is not checked."""
    version, start, named, rest = form
    length = int.from_bytes(start[:2], signed=True)
    at = 2 + max(length, 0)
    if len(named) < 4 or not start[2:at].isascii():
        return None
    last_epoch = NO_EPOCH
    if version >= FIRST_FLEXIBLE:
        if start[at]:
            return None  # tags of the header
        at += 1
        last_epoch, log_start, most = _FLEXIBLE_REST.unpack_from(rest)
        end, no_end = rest[_FLEXIBLE_REST.size :], _FLEXIBLE_END
    else:
        log_start, most = _REST.unpack_from(rest)
        end, no_end = rest[_REST.size :], _END[version]
    if version < FIRST_WITHOUT_REPLICA_ID:
        if int.from_bytes(start[at : at + 4], signed=True) != CONSUMER_REPLICA_ID:
            return None
        at += 4
    _, min_bytes, max_bytes, isolation = _START.unpack_from(start, at)
    if end != no_end or last_epoch != NO_EPOCH or log_start != NO_OFFSET:
        return None
    if isolation not in (0, 1) or min_bytes > UNREAD_MIN_BYTES:
        return None
    epoch = int.from_bytes(named[-4:], signed=True)
    return FetchTerms(min_bytes, max_bytes, isolation, named[:-4], epoch, most)


class Named(NamedTuple):
    """A partition as a request names it: by the name of its topic or by the id."""

    topic: str
    topic_id: UUID | None
    partition: int


def named_partition(name: bytes, version: int) -> Named | None:
    """Return what ``FetchTerms.name`` names; None unless it is one partition of one topic. By id
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
    """What requests of one form have in common, and the response to them."""

    __slots__ = (
        "isolation",
        "key",
        "leader_epoch",
        "max_bytes",
        "min_bytes",
        "partition_max_bytes",
        "response",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        terms: FetchTerms,
        fetch_max_bytes: int,
        packed: PackedFetchResponse,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.leader_epoch = terms.leader_epoch
        topic = topic_partition.topic if topic_id is None else topic_id.int
        self.key: PartitionKey = topic, topic_partition.partition
        max_bytes = max(0, min(terms.max_bytes, fetch_max_bytes))
        self.partition_max_bytes = max(0, terms.partition_max_bytes)
        self.max_bytes = min(max_bytes, self.partition_max_bytes)
        self.min_bytes = max(1, min(terms.min_bytes, max_bytes))
        self.isolation = _ISOLATION[terms.isolation_level]
        self.response = packed.parts

    def names(self, partition: Partition) -> bool:
        """Whether this broker leads the partition in the epoch that is named, and the topic is the
        one that is named."""
        return (
            partition.led_log is not None
            and (self.leader_epoch in (NO_EPOCH, partition.state.leader_epoch))
            # Mostly it is the same object: to compare two takes Python.
            and (
                self.topic_id is None
                or self.topic_id is partition.topic_id
                or self.topic_id == partition.topic_id
            )
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
        self._targets: dict[FetchForm, _Target] = {}
        # By version, isolation level and name.
        self._packed: dict[tuple[int, int, bytes], PackedFetchResponse] = {}

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
        known = self._targets.get(request.form)
        target = known or self._new_target(request.form)
        if target is None:
            return self._otherwise(connection, frame)
        times = self._times or self._times_of(row)
        watched = None if apis.watch is None else apis.watch.at_once(times, connection, frame)
        try:
            replied = self._serve(connection, target, request, watched or times)
        except Exception as bug:
            apis.stop_node(bug)
            raise
        if not replied:
            return self._otherwise(connection, frame)
        if known is None:
            self._remember(request.form, target)
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
        if partition is None or not target.names(partition):
            return False
        session, sessions, offset = None, self._sessions, request.offset
        if request.session_id != NO_SESSION:
            session = sessions.only_of(request.session_id, request.session_epoch, target.key)
            if session is None:
                return False
        try:
            result = self._fetches.read_one(partition, offset, target.max_bytes, target.isolation)
        except (KafkaError, OSError, NotInPageCache):
            return False  # the general path meets the same error
        if len(result.records) < target.min_bytes or result.aborted:
            return False
        if session is not None:
            entry = FetchEntry(
                target.topic_partition,
                target.topic_id,
                offset,
                target.partition_max_bytes,
                target.leader_epoch,
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
        assert row.times_of is not None
        self._times = times = row.times_of(row.request_class())
        return times

    def _new_target(self, form: FetchForm) -> _Target | None:
        """Return the target of a partition that this broker hosts."""
        version, terms = form[0], fetch_terms(form)
        named = None if terms is None else named_partition(terms.name, version)
        if terms is None or named is None:
            return None
        topic, topic_id, index = named
        if topic_id is not None:
            topic = self._hosted.topic_name(topic_id) or ""
        topic_partition = TopicPartition(topic, index)
        partition = self._hosted.get(topic_partition)
        if partition is None:
            return None
        if topic_id == partition.topic_id:
            topic_id = partition.topic_id
        isolation = terms.isolation_level
        packed = self._packed.get((version, isolation, terms.name))
        if packed is None:
            if len(self._packed) >= MAX_PACKED:
                self._packed.clear()
            packed = PackedFetchResponse(topic_partition, topic_id, version, bool(isolation))
            self._packed[version, isolation, terms.name] = packed
        return _Target(topic_partition, topic_id, terms, self._most_bytes, packed)

    def _remember(self, form: FetchForm, target: _Target) -> None:
        """Remember the target of a client that has got records."""
        if len(self._targets) >= MAX_TARGETS:
            self._targets.clear()
        self._targets[form] = target
