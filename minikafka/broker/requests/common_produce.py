"""The Produce request that most producers send, served in one straight line.

It is a Produce of version 5 to 11 with acks 1 or all, without a transactional id, for one partition
of this broker, with one batch that has no attributes (no compression, no transaction). The steps:

1. ``common_request`` reads the frame into plain values. There are no message objects.
2. ``_Target`` is found by the bytes that name topic and partition. It has the partition's name and
   the response, of which only numbers are missing.
3. ``plain_batch`` checks the records, and the partition appends them.
4. Counts and delayed operations are those of any append. The response leaves with those of the same
   read, or waits for the in-sync replicas.

Every request that differs in anything is left to the general path, ``Apis.on_frame``, before
anything has changed. That path is the reference, and says what is wrong with a request: this one
has no errors but that of a failing disk. A broker with an authorizer, with injected faults or with
client quotas has the general path alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

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
from minikafka.broker.requests.produce import ProduceHandler
from minikafka.broker.requests.request_times import NO_QUEUE_US
from minikafka.core.log.append import LogAppendInfo
from minikafka.core.log.config import LOG_APPEND_TIME, NO_LIMIT, LogConfig
from minikafka.core.log.validation import plain_batch, takes_plain_batches
from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.network.server import ServerConnection
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_request_header, encode_response
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import BATCH_OVERHEAD

PRODUCE: Final = int(ApiKey.PRODUCE)
FIRST_VERSION: Final = 5  # responses have a log start offset
FIRST_FLEXIBLE: Final = ApiKey.PRODUCE.first_flexible
LAST_VERSION: Final = 11
MAX_TARGETS: Final = 20_000

_read_header = Struct(">hhih").unpack_from  # key, version, correlation id, length of the client id
# After the client id: tags of the header, transactional id, acks, time-out, topics + 1.
_read_flexible_start = Struct(">BBhiB").unpack_from
_read_start = Struct(">hhii").unpack_from  # transactional id, acks, time-out, topics
_read_length = Struct(">h").unpack_from
_read_size = Struct(">i").unpack_from
_ACKS: Final = (ACKS_LEADER, ACKS_ALL)
_NO_ERROR: Final = ErrorCode.NONE
_NO_TAGS: Final = b"\0\0\0"  # of partition, topic and request
_OFFSETS: Final = Struct(">qqq")  # base offset, log append time, log start offset
_PLACE: Final = (-2, -3, -4)  # in their place, while a response is encoded


class CommonRequest(NamedTuple):
    """A Produce request for one partition. ``name`` has the encoded topic and partition, ``start``
    and ``stop`` are the ends of the records in the frame."""

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int
    name: bytes
    start: int
    stop: int


def common_request(frame: memoryview) -> CommonRequest | None:
    """Read a frame; None if it is no Produce request as the module describes it. Its ``name`` and
    its records are not checked."""
    size = len(frame)
    if size < BATCH_OVERHEAD or frame[0] or frame[1] != PRODUCE:
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
            tags, transactional_id, acks, timeout_ms, topics = _read_flexible_start(frame, at)
            at += 9
            name = frame[at]
            if tags or transactional_id or topics != 2 or name >= 0x80 or acks not in _ACKS:
                return None
            start = at + name + 5  # with the number of partitions, and the partition
            named = frame[at:start].tobytes()
            records = frame[start]
            start += 1
            shift = 7
            if records >= 0x80:
                records &= 0x7F
                while shift <= 28:
                    byte = frame[start]
                    start += 1
                    records |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
            stop = start + records - 1
            if stop + 3 != size or frame[stop:].tobytes() != _NO_TAGS:
                return None
        else:
            transactional_id, acks, timeout_ms, topics = _read_start(frame, at)
            at += 12
            (name,) = _read_length(frame, at)
            if transactional_id != -1 or topics != 1 or name < 0 or acks not in _ACKS:
                return None
            start = at + name + 14
            named = frame[at : start - 4].tobytes()
            (records,) = _read_size(frame, start - 4)
            stop = start + records
            if stop != size:
                return None
    except (IndexError, error):
        return None
    return CommonRequest(version, correlation_id, acks, timeout_ms, named, start, stop)


def named_partition(name: bytes, version: int) -> TopicPartition | None:
    """Return what ``CommonRequest.name`` names; None unless it is one partition of one topic."""
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
    """One partition, as requests of one version name it, and the response to them.

    ``accepts`` remembers its outcome for a configuration, which a change replaces by another
    object."""

    __slots__ = (
        "_accepted",
        "_config",
        "_end",
        "_middle",
        "_pack",
        "_size",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, version: int) -> None:
        self.topic_partition = topic_partition
        self._config: LogConfig | None = None
        self._accepted = False
        row = PartitionProduceResponse(topic_partition.partition, 0, *_PLACE)
        response = ProduceResponse([TopicProduceResponse(topic_partition.topic, [row])])
        frame = encode_response(0, response, version)
        offsets = frame.index(_OFFSETS.pack(*_PLACE))
        self._size = len(frame) - 4
        self._middle = frame[8:offsets]
        self._end = frame[offsets + _OFFSETS.size :]
        self._pack = Struct(f">ii{len(self._middle)}sqqq{len(self._end)}s").pack

    def accepts(self, partition: Partition, acks: int) -> bool:
        """Whether this broker may append to the partition, which takes plain batches as they are,
        and does not flush them first."""
        if not partition.is_leader or not partition.has_log:
            return False
        if acks == ACKS_ALL and partition.is_under_min_isr:
            return False
        config = partition.log.config
        if config is not self._config:
            self._config = config
            self._accepted = (
                takes_plain_batches(config)
                and config.message_timestamp_type != LOG_APPEND_TIME
                and config.flush_messages == NO_LIMIT
            )
        return self._accepted

    def response(self, correlation_id: int, info: LogAppendInfo) -> bytes:
        """Return the response to a successful append, as a frame."""
        return self._pack(
            self._size,
            correlation_id,
            self._middle,
            info.first_offset,
            info.log_append_time,
            info.log_start_offset,
            self._end,
        )


class CommonProduce:
    """Serves the common Produce request, and gives all other frames to ``apis``."""

    def __init__(
        self,
        apis: Apis,
        handler: ProduceHandler,
        hosted: HostedPartitions,
        appends: RecordAppends,
        in_order: TransactionalAppends,
    ) -> None:
        self._apis = apis
        self._handler = handler
        self._hosted = hosted
        self._appends = appends
        self._in_order = in_order
        self._targets: dict[int, dict[bytes, _Target]] = {
            version: {} for version in range(FIRST_VERSION, LAST_VERSION + 1)
        }

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool:
        """As ``Apis.on_frame``."""
        apis = self._apis
        request = common_request(frame)
        if request is None or not apis.serves_plainly or self._in_order.has_parked:
            return apis.on_frame(connection, frame)
        row = apis.rows.get(PRODUCE)
        if row is None or not row.first <= request.version <= row.last:
            return apis.on_frame(connection, frame)
        if connection.unanswered and connection.overlapping is not row.overlapping:
            return apis.on_frame(connection, frame)
        target = self._targets[request.version].get(request.name) or self._found(request)
        partition = None if target is None else self._hosted.get(target.topic_partition)
        if target is None or partition is None or not target.accepts(partition, request.acks):
            return apis.on_frame(connection, frame)
        started_ns = apis.now_ns()
        records = frame[request.start : request.stop]
        batch = plain_batch(records, partition.log.config.max_message_bytes)
        if batch is None:
            return apis.on_frame(connection, frame)
        try:
            info, moved = partition.append_valid(batch, started_ns // 1_000_000)
        except KafkaError:  # nothing has changed: the general path meets the same error
            return apis.on_frame(connection, frame)
        except OSError as failure:
            self._disk_failed(connection, row, request, target, failure, frame)
            return False
        except Exception as bug:
            apis.stop_node(bug)
            raise
        times = row.times
        times.arrived(request.version)
        try:
            self._appends.appended(partition, batch, info, moved)
            reply = self._reply(connection, row, request, target, partition, info, frame)
        except Exception as bug:  # of any kind: the batch is in the log
            apis.stop_node(bug)
            raise
        now_ns = apis.now_ns()
        queue_us = (started_ns - connection.received_ns) // 1000
        local_us = (now_ns - started_ns) // 1000
        if reply is not None:
            reply.handled(queue_us, local_us, now_ns)
        elif queue_us < NO_QUEUE_US:
            times.served_at_once(local_us)
        else:
            times.responded(queue_us, local_us, 0)
        apis.busy_ns += now_ns - started_ns
        if now_ns - started_ns >= apis.stall_ns:
            header, _ = decode_request_header(frame)
            apis.note_if_long(started_ns, row.route, header, connection.client_host, len(frame))
        return False

    def _reply(
        self,
        connection: ServerConnection,
        row: ApiRow,
        request: CommonRequest,
        target: _Target,
        partition: Partition,
        info: LogAppendInfo,
        frame: memoryview,
    ) -> PendingReply | None:
        """Reply now, or when the in-sync replicas have the records. Return the reply if its
        ``handled`` is to be called."""
        if connection.closed:  # since an earlier request has its reply, which was refused
            return None
        if request.acks != ACKS_LEADER and (
            partition.acknowledged(info.last_offset + 1) is not _NO_ERROR
        ):
            return self._await_replicas(connection, row, request, target, info, frame)
        response = target.response(request.correlation_id, info)
        if self._apis.make_reply is not PendingReply:
            reply = self._pending(connection, row, request, frame)
            reply.send_encoded(response)
            return reply
        if connection.unanswered:
            slot = connection.open_slot(len(frame))
            slot.times = row.times
            slot.send(response)
        else:
            connection.send_at_once(response, row.times)
        return None

    def _await_replicas(
        self,
        connection: ServerConnection,
        row: ApiRow,
        request: CommonRequest,
        target: _Target,
        info: LogAppendInfo,
        frame: memoryview,
    ) -> PendingReply:
        """Reply when the in-sync replicas have the records."""
        version, correlation_id = request.version, request.correlation_id
        reply = self._pending(connection, row, request, frame)
        listener = connection.listener

        def respond(results: Sequence[AppendResult]) -> None:
            if results[0].error:
                reply(self._handler.response(listener, version, results))
            else:
                reply.send_encoded(target.response(correlation_id, info))

        result = AppendResult(target.topic_partition, ErrorCode.NONE, info)
        self._appends.await_replicas(result, max(0, request.timeout_ms), respond)
        return reply

    def _disk_failed(
        self,
        connection: ServerConnection,
        row: ApiRow,
        request: CommonRequest,
        target: _Target,
        failure: OSError,
        frame: memoryview,
    ) -> None:
        """Take the partition offline, and reply with the error."""
        row.times.arrived(request.version)
        reply = self._pending(connection, row, request, frame)
        result = self._appends.after_disk_failure(target.topic_partition, failure)
        reply(self._handler.response(connection.listener, request.version, [result]))
        reply.handled(0, 0, self._apis.now_ns())

    def _pending(
        self,
        connection: ServerConnection,
        row: ApiRow,
        request: CommonRequest,
        frame: memoryview,
    ) -> PendingReply:
        """Return a reply as the general path has it. Only a page that watches requests needs all
        of the header."""
        apis, version = self._apis, request.version
        if apis.make_reply is PendingReply:
            header = RequestHeader(PRODUCE, version, request.correlation_id)
        else:
            header, _ = decode_request_header(frame)
        connection.overlapping = row.overlapping
        slot = connection.open_slot(len(frame))
        return apis.make_reply(apis, slot, row.route, header, version, row.times, None)

    def _found(self, request: CommonRequest) -> _Target | None:
        """Return the target of a partition that this broker hosts, and remember it."""
        named = named_partition(request.name, request.version)
        if named is None or named.topic in INTERNAL_TOPICS or self._hosted.get(named) is None:
            return None
        targets = self._targets[request.version]
        if len(targets) >= MAX_TARGETS:
            targets.clear()
        target = targets[request.name] = _Target(named, request.version)
        return target
