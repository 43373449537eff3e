"""The Produce request that most producers send, served in one straight line.

It is a Produce of version 7 to 11 with acks 1 or all, without a transactional id, for one partition
of this broker, with one batch that has no attributes (no compression, no transaction). A client id
of more than some 300 bytes is unusual, and so is a topic of more than 126. The steps:

1. ``common_request`` finds the records in the frame. There are no message objects.
2. ``_Target`` is found by the request's form: all bytes before the records but the correlation id,
   which are read and checked when they come first. It has the partition's name, the terms of the
   request, and the response, of which only numbers are missing.
3. ``plain_batch`` checks the records.
4. Requests of the same read that differ in their records alone are taken along: a producer keeps
   several in flight. The partition appends their batches with one write, and with acks=all they
   wait for their replicas as one delayed operation. If the partition cannot, or if the disk refuses
   that write, the request is served alone, and so is each of the others later.
5. Counts and delayed operations are those of any append, and the clock is read once for all
   requests. The responses leave with those of the same read, or wait for the in-sync replicas.

Every request that differs in anything is left to the general path, ``Apis.on_frame``, before
anything has changed. That path is the reference, and says what is wrong with a request: this one
has no errors but that of a failing disk. A broker with an authorizer of the user's, or with
injected faults, has the general path alone; the built-in authorizer knows from its cache what it
allows without a line of audit. What requests of a client with a quota use is recorded once for
those that are served together; one by one are served those of which one before the last is
throttled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from minikafka.broker.quotas import RequestThrottle
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import Partition
from minikafka.broker.replication.record_appends import (
    ACKS_ALL,
    ACKS_LEADER,
    AppendResult,
    RecordAppends,
)
from minikafka.broker.replication.transactional_appends import TransactionalAppends
from minikafka.broker.requests.apis import ApiRow, Apis, PendingReply
from minikafka.broker.requests.packed_produce import PackedProduceResponse
from minikafka.broker.requests.produce import ProduceHandler
from minikafka.broker.requests.request_times import WatchedTimes
from minikafka.core.log.append import LogAppendInfo
from minikafka.core.log.config import LOG_APPEND_TIME, NO_LIMIT, LogConfig
from minikafka.core.log.producer_state import continues_producer
from minikafka.core.log.validation import plain_batch, takes_plain_batches
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.network.server_connection import ServerConnection
from minikafka.protocol.api_keys import LAST_DEPRECATED, ApiKey
from minikafka.protocol.buffer import DecodeError, read_uvarint
from minikafka.protocol.frames import RequestHeader, decode_request_header, encode_response
from minikafka.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, RecordBatch

if TYPE_CHECKING:
    from minikafka.broker.requests.authorization.authorization import Authorization

PRODUCE: Final = int(ApiKey.PRODUCE)
FIRST_VERSION: Final = LAST_DEPRECATED[ApiKey.PRODUCE] + 1  # the others are counted by client
FIRST_FLEXIBLE: Final = ApiKey.PRODUCE.first_flexible
LAST_VERSION: Final = 11
# A form has a client id, which any client can make up, a response a partition of this broker.
MAX_TARGETS: Final = 10_000  # each has some 500 bytes
MAX_PACKED: Final = 20_000  # responses, each has some 700 bytes
MAX_FORM_BYTES: Final = 400  # most of it a client id, which may have 32 KB

_read_header = Struct(">hhih").unpack_from  # key, version, correlation id, length of the client id
# After the client id: tags of the header, transactional id, acks, time-out, topics + 1.
_FLEXIBLE_START: Final = Struct(">BBhiB")
_START: Final = Struct(">hhii")  # transactional id, acks, time-out, topics
_read_length = Struct(">h").unpack_from
_read_size = Struct(">i").unpack_from
_ACKS: Final = (ACKS_LEADER, ACKS_ALL)
_NO_ERROR: Final = ErrorCode.NONE

# What many requests have in common: the version, and the bytes from the length of the client id up
# to the size of the records.
ProduceForm: TypeAlias = tuple[int, bytes]


class CommonRequest(NamedTuple):
    """A Produce request for one partition. ``sized_at`` is the place of the size of the records in
    the frame, ``start`` and ``stop`` are the ends of the records."""

    version: int
    correlation_id: int
    form: ProduceForm
    sized_at: int
    start: int
    stop: int


def common_request(frame: memoryview) -> CommonRequest | None:
    """Read a frame; None if it cannot be a Produce request as the module describes it. Neither its
    records nor what is in ``form`` are checked: the decoder may refuse it, and then
    ``plain_batch`` refuses the records."""
    if len(frame) < BATCH_OVERHEAD or frame[0] or frame[1] != PRODUCE:
        return None
    try:
        _, version, correlation_id, length = _read_header(frame)
        if not FIRST_VERSION <= version <= LAST_VERSION:
            return None
        at = 10 + length if length > 0 else 10
        if version >= FIRST_FLEXIBLE:
            name = frame[at + _FLEXIBLE_START.size]
            # Behind the name are the number of partitions, and the partition.
            sized_at = at + _FLEXIBLE_START.size + name + 5
            if name >= 0x80:
                return None
        else:
            (name,) = _read_length(frame, at + _START.size)
            sized_at = at + _START.size + name + 10
            if name < 0:
                return None
        ends = _ends_of_records(frame, sized_at, version)
    except (IndexError, DecodeError, error):
        return None
    if ends is None:
        return None
    start, stop = ends
    form = version, frame[8:sized_at].tobytes()
    return CommonRequest(version, correlation_id, form, sized_at, start, stop)


class ProduceTerms(NamedTuple):
    """What requests of one form have in common. ``name`` has the encoded topic and
    partition."""

    client_id: str
    acks: int
    timeout_ms: int
    name: bytes


def produce_terms(form: ProduceForm) -> ProduceTerms | None:
    """Read ``CommonRequest.form``; None unless it is of a request as the module describes it. The
    name is not checked."""
    version, data = form
    at = 2 + max(int.from_bytes(data[:2], signed=True), 0)
    client_id = data[2:at]
    if version >= FIRST_FLEXIBLE:
        start, no_id, one = _FLEXIBLE_START, 0, 2
        tags, transactional_id, acks, timeout_ms, topics = start.unpack_from(data, at)
    else:
        start, no_id, one, tags = _START, -1, 1, 0
        transactional_id, acks, timeout_ms, topics = start.unpack_from(data, at)
    if tags or transactional_id != no_id or topics != one or acks not in _ACKS:
        return None
    if not client_id.isascii():
        return None
    return ProduceTerms(client_id.decode(), acks, timeout_ms, data[at + start.size :])


def _ends_of_records(frame: memoryview, at: int, version: int) -> tuple[int, int] | None:
    """Return the ends of the records, whose size is at ``at``; None unless they end the request.
    Raises IndexError, DecodeError and ``struct.error``."""
    if version < FIRST_FLEXIBLE:
        (size,) = _read_size(frame, at)
        start = at + 4
        stop = start + size
        return (start, stop) if stop == len(frame) else None
    size, start = read_uvarint(frame, at)
    stop = start + size - 1
    if stop + 3 != len(frame) or frame[stop] or frame[stop + 1] or frame[stop + 2]:
        return None  # there are tags of the partition, the topic or the request
    return start, stop


def of_the_same_form(
    request: CommonRequest, frame: memoryview, following: Sequence[memoryview]
) -> Iterator[tuple[int, memoryview]]:
    """Yield the correlation ids and the records of the frames that follow, until one differs from
    ``frame``, which has the ``request``, in more than these two."""
    size, start, stop = len(frame), request.start, request.stop
    # Mostly their records have the same size, and so the same ends.
    read = Struct(f">4si{start - 8}s{stop - start}x{size - stop}s").unpack_from
    key, _, rest, end = read(frame)
    for other in following:
        if len(other) == size:
            its_key, correlation_id, its_rest, its_end = read(other)
            if its_rest != rest or its_key != key or its_end != end:
                return
            yield correlation_id, other[start:stop]
            continue
        found = _of_another_size(request, key, rest, other)
        if found is None:
            return
        yield found


def _of_another_size(
    request: CommonRequest, key: bytes, rest: bytes, other: memoryview
) -> tuple[int, memoryview] | None:
    """Return the correlation id and the records of a frame; None if it differs in more. ``rest``
    are the bytes of the first one between its correlation id and its records."""
    to_size = request.sized_at - 8
    try:
        its_key, correlation_id, its_rest = Struct(f">4si{to_size}s").unpack_from(other)
        ends = _ends_of_records(other, request.sized_at, request.version)
    except (IndexError, DecodeError, error):
        return None
    if ends is None or its_rest != rest[:to_size] or its_key != key:
        return None
    start, stop = ends
    return correlation_id, other[start:stop]


def named_partition(name: bytes, version: int) -> TopicPartition | None:
    """Return what ``ProduceTerms.name`` names; None unless it is one partition of one topic."""
    flexible = version >= FIRST_FLEXIBLE
    one = b"\x02" if flexible else b"\0\0\0\x01"
    start, end = (1 if flexible else 2), len(name) - len(one) - 4
    if end <= start or name[end:-4] != one:
        return None
    try:
        topic = name[start:end].decode()
    except UnicodeDecodeError:
        return None
    return TopicPartition(topic, int.from_bytes(name[-4:], signed=True))


class _Target:
    """What requests of one form have in common, and the responses to them.

    ``accepts`` remembers its outcome for a configuration, which a change replaces by another
    object. ``max_message_bytes`` is that of the topic, once it has returned True."""

    __slots__ = (
        "_accepted",
        "_config",
        "acks",
        "client_id",
        "header_bytes",
        "max_message_bytes",
        "packed",
        "timeout_ms",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        version: int,
        terms: ProduceTerms,
        packed: PackedProduceResponse,
    ) -> None:
        self.topic_partition = topic_partition
        self.packed = packed
        self.client_id = terms.client_id
        # The size of the header, which does not count towards a quota.
        self.header_bytes = 10 + len(terms.client_id) + (version >= FIRST_FLEXIBLE)
        self.acks = terms.acks
        self.timeout_ms = max(0, terms.timeout_ms)
        self._config: LogConfig | None = None
        self._accepted = False
        self.max_message_bytes = 0

    def accepts(self, partition: Partition) -> bool:
        """Whether this broker may append to the partition, which takes plain batches as they are,
        and does not flush them first."""
        log = partition.led_log
        if log is None:
            return False
        if self.acks == ACKS_ALL and partition.is_under_min_isr:
            return False
        config = log.config
        if config is not self._config:
            self._config = config
            self.max_message_bytes = config.max_message_bytes
            self._accepted = (
                takes_plain_batches(config)
                and config.message_timestamp_type != LOG_APPEND_TIME
                and config.flush_messages == NO_LIMIT
            )
        return self._accepted


class _Call:
    """What requests have in common that are served together. ``throttle`` measures those of a
    client with a quota."""

    __slots__ = ("connection", "partition", "request", "row", "started_ns", "target", "throttle")

    def __init__(
        self,
        connection: ServerConnection,
        row: ApiRow,
        request: CommonRequest,
        target: _Target,
        partition: Partition,
        throttle: RequestThrottle | None,
        started_ns: int,
    ) -> None:
        self.connection = connection
        self.row = row
        self.request = request  # the first one
        self.target = target
        self.partition = partition
        self.throttle = throttle
        self.started_ns = started_ns

    def bytes_of(self, frames: Sequence[memoryview]) -> int:
        """Return what the requests count towards a quota."""
        return sum(map(len, frames)) - len(frames) * self.target.header_bytes


class _ParkedRow:
    """Requests of a row that wait for the in-sync replicas, with one delayed operation."""

    __slots__ = (
        "_answered",
        "_apis",
        "_call",
        "_correlation_ids",
        "_handled",
        "_handler",
        "_infos",
        "_slots",
    )

    def __init__(
        self,
        apis: Apis,
        handler: ProduceHandler,
        call: _Call,
        correlation_ids: Sequence[int],
        infos: Sequence[LogAppendInfo],
        frames: Sequence[memoryview],
    ) -> None:
        self._apis = apis
        self._handler = handler
        self._call = call
        self._correlation_ids = correlation_ids
        self._infos = infos
        self._slots = call.connection.open_slots(list(map(len, frames)))
        self._answered = 0
        self._handled = (0, 0, 0)
        call.connection.overlapping = call.row.overlapping
        for slot in self._slots:
            slot.times = call.row.times

    def handled(self, queue_us: int, local_us: int, now_ns: int) -> None:
        """As ``PendingReply.handled`` of each. No reply comes before."""
        assert not self._answered
        self._handled = queue_us, local_us, now_ns

    def respond(self, outcome: ErrorCode, count: int) -> None:
        """Reply to the next ``count`` requests."""
        start = self._answered
        stop = self._answered = start + count
        slots, infos = self._slots[start:stop], self._infos[start:stop]
        correlation_ids = self._correlation_ids[start:stop]
        call, (queue_us, local_us, handled_ns) = self._call, self._handled
        if outcome:
            responses = list(map(partial(self._refusal, outcome), correlation_ids, infos))
        else:
            responses = call.target.packed.responses(correlation_ids, infos)
        call.connection.send_row(slots, responses)
        remote_us = (self._apis.now_ns() - handled_ns) // 1000
        sizes = [slot.request_bytes for slot in slots]
        call.row.times.responded_together(queue_us, local_us, remote_us, sizes)

    def _refusal(self, outcome: ErrorCode, correlation_id: int, info: LogAppendInfo) -> bytes:
        """Count an error, and return the response that has it, as a frame."""
        call, version = self._call, self._call.request.version
        call.row.times.failed(outcome.name)
        result = AppendResult(call.target.topic_partition, outcome, info)
        response = self._handler.response(call.connection.listener, version, [result])
        return encode_response(correlation_id, response, version)


def _is_complete(target: _Target, partition: Partition, info: LogAppendInfo) -> bool:
    """Whether the replicas that ``acks`` names have the records."""
    if target.acks == ACKS_LEADER:
        return True
    return partition.acknowledged(info.last_offset + 1) is _NO_ERROR


class CommonProduce:
    """Serves the common Produce request, and gives all other frames to ``apis``."""

    def __init__(
        self,
        apis: Apis,
        handler: ProduceHandler,
        hosted: HostedPartitions,
        appends: RecordAppends,
        in_order: TransactionalAppends,
        authorization: Authorization | None = None,
    ) -> None:
        self._apis = apis
        self._handler = handler
        self._hosted = hosted
        self._appends = appends
        self._in_order = in_order
        self._authorization = authorization
        self._targets: dict[ProduceForm, _Target] = {}
        self._packed: dict[tuple[int, bytes], PackedProduceResponse] = {}  # by version and name

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool:
        """As ``Apis.on_frame``."""
        apis = self._apis
        request = common_request(frame)
        if request is None or apis.injects_faults or self._in_order.has_parked:
            return apis.on_frame(connection, frame)
        version, correlation_id, form, _, start, stop = request
        row = apis.rows.get(PRODUCE)
        if row is None or not row.first <= version <= row.last:
            return apis.on_frame(connection, frame)
        if connection.unanswered and connection.overlapping is not row.overlapping:
            return apis.on_frame(connection, frame)
        known = self._targets.get(form)
        target = known or self._new_target(form)
        partition = None if target is None else self._hosted.get(target.topic_partition)
        if target is None or partition is None or not target.accepts(partition):
            return apis.on_frame(connection, frame)
        if self._authorization is not None and not self._may_write(connection, target):
            return apis.on_frame(connection, frame)
        throttle = self._throttle(connection, target, frame) if apis.throttles else None
        started_ns = apis.now_ns()
        batch = plain_batch(frame[start:stop], target.max_message_bytes)
        if batch is None:
            return apis.on_frame(connection, frame)
        if known is None:
            self._remember(form, target)
        parts = connection, row, request, target, partition, throttle, started_ns
        following = connection.following()
        if following and self._served_together(_Call(*parts), batch, frame, following):
            return False
        try:
            info, moved = partition.append_valid(batch, started_ns // 1_000_000)
        except KafkaError:  # nothing has changed: the general path meets the same error
            return apis.on_frame(connection, frame)
        except OSError as failure:
            self._disk_failed(_Call(*parts), failure, frame)
            return False
        except Exception as bug:
            apis.stop_node(bug)
            raise
        row.times.arrived(version)
        try:
            messages, size = info.last_offset - info.first_offset + 1, batch.length + LOG_OVERHEAD
            self._appends.appended(partition, 1, messages, size, moved)
            is_plain = throttle is None and apis.watch is None
            if is_plain and self._responds_at_once(connection, target, partition, info):
                connection.send_at_once(target.packed.response(correlation_id, info), row.times)
                self._record_served(connection, row, frame, started_ns)
            else:
                self._respond(_Call(*parts), (correlation_id,), (frame,), (info,))
        except Exception as bug:  # of any kind: the batch is in the log
            apis.stop_node(bug)
            raise
        return False

    def _throttle(
        self, connection: ServerConnection, target: _Target, frame: memoryview
    ) -> RequestThrottle | None:
        size = len(frame) - target.header_bytes
        return self._apis.throttle_of(ApiKey.PRODUCE, connection, target.client_id, size)

    def _may_write(self, connection: ServerConnection, target: _Target) -> bool:
        """Whether the guard of Produce would let the client write, without a line of audit: that is
        written by the general path."""
        assert self._authorization is not None
        return self._authorization.allows_silently(
            connection.principal,
            connection.client_host,
            AclOperation.WRITE,
            AclResourceType.TOPIC,
            target.topic_partition.topic,
        )

    def _served_together(
        self, call: _Call, batch: RecordBatch, frame: memoryview, following: Sequence[memoryview]
    ) -> bool:
        """Serve the request together with those alike that follow. False, without a change, if
        there are none, or if they have to be served one by one."""
        request, partition = call.request, call.partition
        if partition.commits_alone and self._appends.is_awaited(partition):
            return False  # what waits for the first batch must not see the others
        most = call.target.max_message_bytes
        correlation_ids, batches = [request.correlation_id], [batch]
        for correlation_id, records in of_the_same_form(request, frame, following):
            other = plain_batch(records, most)
            if other is None or not continues_producer(other, batches[-1]):
                break
            correlation_ids.append(correlation_id)
            batches.append(other)
        count = len(batches)
        frames = [frame, *following[: count - 1]]
        if count == 1 or not self._within_quota(call, frames):
            return False
        try:
            together = partition.append_together(batches, call.started_ns // 1_000_000)
        except OSError:  # some of them may fit on the disk
            return False
        except Exception as bug:
            self._apis.stop_node(bug)
            raise
        if together is None:
            return False
        call.connection.serve_also(count - 1)
        try:
            self._respond_to_all(call, correlation_ids, frames, *together)
        except Exception as bug:  # of any kind: the batches are in the log
            self._apis.stop_node(bug)
            raise
        return True

    @staticmethod
    def _within_quota(call: _Call, frames: Sequence[memoryview]) -> bool:
        """Whether a quota lets the requests be served together: a throttled one is the last one,
        and its response leaves at once."""
        throttle = call.throttle
        if throttle is None:
            return True
        at_once = call.target.acks == ACKS_LEADER or call.partition.commits_alone
        if call.connection.unanswered or not at_once:
            return False
        return throttle.has_room(call.bytes_of(frames))

    def _respond_to_all(
        self,
        call: _Call,
        correlation_ids: Sequence[int],
        frames: Sequence[memoryview],
        infos: Sequence[LogAppendInfo],
        moved: bool,
    ) -> None:
        """As ``on_frame`` does for one request: count, complete what waits, and reply."""
        count = len(infos)
        call.row.times.arrived(call.request.version, count)
        messages = infos[-1].last_offset - infos[0].first_offset + 1
        size = sum([info.size_bytes for info in infos])
        self._appends.appended(call.partition, count, messages, size, moved)
        self._respond(call, correlation_ids, frames, infos)

    def _respond(
        self,
        call: _Call,
        correlation_ids: Sequence[int],
        frames: Sequence[memoryview],
        infos: Sequence[LogAppendInfo],
    ) -> None:
        """Reply to requests that were served together, or to one, and measure them."""
        connection, last, count = call.connection, infos[-1], len(infos)
        replies: Sequence[PendingReply | None] | _ParkedRow | None = None
        watched: Sequence[WatchedTimes] = ()
        if self._responds_at_once(connection, call.target, call.partition, last):
            watched = self._watched(call, frames)
            responses = call.target.packed.responses(correlation_ids, infos)
            throttle = call.throttle
            if throttle is not None:
                throttle.size = call.bytes_of(frames)
                throttle_ms = self._settle(call, throttle)
                responses[-1] = call.target.packed.response(correlation_ids[-1], last, throttle_ms)
            times = watched[-1] if watched else call.row.times
            connection.send_all_at_once(responses, count, times)
            if throttle is not None:
                throttle.sent()
        elif count > 1 and self._parks_row(call, infos[0]):
            replies = self._park_row(call, correlation_ids, infos, frames)
        else:
            replies = list(map(self._reply, repeat(call), correlation_ids, infos, frames))
        self._handled(call, frames, replies, watched)

    @staticmethod
    def _settle(call: _Call, throttle: RequestThrottle) -> int:
        """Record what the requests have used, and return for how long their client is throttled."""
        throttle_ms = throttle.settle(counts=True)
        if throttle_ms:
            call.connection.mute(throttle_ms)
            call.row.times.throttled(throttle_ms)
        return throttle_ms

    def _watched(self, call: _Call, frames: Sequence[memoryview]) -> Sequence[WatchedTimes]:
        """Return what a page sees of the requests; nothing while no page looks."""
        watch = self._apis.watch
        if watch is None:
            return ()
        return [watch.at_once(call.row.times, call.connection, frame) for frame in frames]

    def _record_served(
        self, connection: ServerConnection, row: ApiRow, frame: memoryview, started_ns: int
    ) -> None:
        """As ``_handled`` of one request, which nobody watches and whose response has left."""
        apis = self._apis
        took_ns = apis.now_ns() - started_ns
        queue_us = (started_ns - connection.received_ns) // 1000
        row.times.served(queue_us, took_ns // 1000, len(frame))
        apis.busy_ns += took_ns
        if took_ns >= apis.stall_ns:
            self._note_stall(connection, row, (frame,), started_ns)

    def _note_stall(
        self,
        connection: ServerConnection,
        row: ApiRow,
        frames: Sequence[memoryview],
        started_ns: int,
    ) -> None:
        header, _ = decode_request_header(frames[0])
        size = sum(map(len, frames))
        self._apis.note_if_long(started_ns, row.route, header, connection.client_host, size)

    def _handled(
        self,
        call: _Call,
        frames: Sequence[memoryview],
        replies: Sequence[PendingReply | None] | _ParkedRow | None,
        watched: Sequence[WatchedTimes],
    ) -> None:
        """Record where the time of the requests went, and for how long they have kept the loop.
        Without ``replies`` the responses have left."""
        apis, connection, started_ns = self._apis, call.connection, call.started_ns
        times = call.row.times
        now_ns = apis.now_ns()
        took_ns = now_ns - started_ns
        queue_us = (started_ns - connection.received_ns) // 1000
        local_us = took_ns // (1000 * len(frames))
        if replies is None:
            times.served_together(queue_us, local_us, list(map(len, frames)))
        elif isinstance(replies, _ParkedRow):
            replies.handled(queue_us, local_us, now_ns)
        else:
            for reply, frame in zip(replies, frames, strict=True):
                if reply is None:
                    times.served(queue_us, local_us, len(frame))
                else:
                    reply.handled(queue_us, local_us, now_ns)
        for request in watched:
            request.served(queue_us, local_us, 0)
        apis.busy_ns += took_ns
        if took_ns >= apis.stall_ns:
            self._note_stall(connection, call.row, frames, started_ns)

    @staticmethod
    def _responds_at_once(
        connection: ServerConnection, target: _Target, partition: Partition, info: LogAppendInfo
    ) -> bool:
        """Whether responses leave with those of the same read, up to the one with ``info``."""
        if connection.unanswered or connection.closed:
            return False
        return _is_complete(target, partition, info)

    def _reply(
        self, call: _Call, correlation_id: int, info: LogAppendInfo, frame: memoryview
    ) -> PendingReply | None:
        """Reply behind earlier requests, or when the in-sync replicas have the records. Return the
        reply if it has to be notified when the request is handled."""
        connection = call.connection
        if connection.closed:
            return None
        if not _is_complete(call.target, call.partition, info):
            return self._await_replicas(call, correlation_id, info, frame)
        if call.throttle is not None or self._apis.watch is not None:
            reply = self._pending(call, correlation_id, frame)
            reply.send_packed(partial(call.target.packed.response, correlation_id, info))
            self._end_turn(call)
            return reply
        slot = connection.open_slot(len(frame))
        slot.times = call.row.times
        slot.send(call.target.packed.response(correlation_id, info))
        return None

    def _await_replicas(
        self, call: _Call, correlation_id: int, info: LogAppendInfo, frame: memoryview
    ) -> PendingReply:
        """Reply when the in-sync replicas have the records."""
        version, target, listener = call.request.version, call.target, call.connection.listener
        reply = self._pending(call, correlation_id, frame)

        def respond(results: Sequence[AppendResult]) -> None:
            if results[0].error:
                reply(self._handler.response(listener, version, results))
            else:
                reply.send_packed(partial(target.packed.response, correlation_id, info))

        result = AppendResult(target.topic_partition, ErrorCode.NONE, info)
        self._appends.await_replicas(result, call.target.timeout_ms, respond)
        self._end_turn(call)
        return reply

    def _parks_row(self, call: _Call, first: LogAppendInfo) -> bool:
        """Whether a row waits for the in-sync replicas with its first append. Of requests that a
        page watches, or of a client with a quota, each waits for itself."""
        if call.connection.closed or self._apis.watch is not None or call.throttle is not None:
            return False
        return not _is_complete(call.target, call.partition, first)

    def _park_row(
        self,
        call: _Call,
        correlation_ids: Sequence[int],
        infos: Sequence[LogAppendInfo],
        frames: Sequence[memoryview],
    ) -> _ParkedRow:
        """As ``_await_replicas`` for a row of requests."""
        parked = _ParkedRow(self._apis, self._handler, call, correlation_ids, infos, frames)
        ends = [info.last_offset + 1 for info in infos]
        timeout_ms = call.target.timeout_ms
        topic_partition = call.target.topic_partition
        self._appends.await_replicas_of_row(topic_partition, ends, timeout_ms, parked.respond)
        return parked

    def _disk_failed(self, call: _Call, failure: OSError, frame: memoryview) -> None:
        """Take the partition offline, and reply with the error."""
        version = call.request.version
        call.row.times.arrived(version)
        reply = self._pending(call, call.request.correlation_id, frame)
        result = self._appends.after_disk_failure(call.target.topic_partition, failure)
        reply(self._handler.response(call.connection.listener, version, [result]))
        self._end_turn(call)
        reply.handled(0, 0, self._apis.now_ns())

    def _pending(self, call: _Call, correlation_id: int, frame: memoryview) -> PendingReply:
        """Return a reply as the general path has it. Only a page that watches requests needs all
        of the header."""
        apis, row, version = self._apis, call.row, call.request.version
        if apis.watch is None:
            header = RequestHeader(PRODUCE, version, correlation_id)
        else:
            header, _ = decode_request_header(frame)
        call.connection.overlapping = row.overlapping
        slot = call.connection.open_slot(len(frame))
        return PendingReply(apis, slot, row.route, header, version, row.times, call.throttle)

    @staticmethod
    def _end_turn(call: _Call) -> None:
        """After a request of a client with a quota, the next one waits for the response, which may
        throttle it."""
        if call.throttle is not None:
            call.connection.overlapping = None
            call.throttle.pause()

    def _new_target(self, form: ProduceForm) -> _Target | None:
        """Return the target of a partition that this broker hosts."""
        version, data = form
        terms = produce_terms(form) if len(data) <= MAX_FORM_BYTES else None
        named = None if terms is None else named_partition(terms.name, version)
        if terms is None or named is None:
            return None
        if named.topic in INTERNAL_TOPICS or self._hosted.get(named) is None:
            return None
        packed = self._packed.get((version, terms.name))
        if packed is None:
            if len(self._packed) >= MAX_PACKED:
                self._packed.clear()
            packed = PackedProduceResponse(named, version)
            self._packed[version, terms.name] = packed
        return _Target(named, version, terms, packed)

    def _remember(self, form: ProduceForm, target: _Target) -> None:
        """Remember the target of a client that may write, and has sent valid records."""
        if len(self._targets) >= MAX_TARGETS:
            self._targets.clear()
        self._targets[form] = target
