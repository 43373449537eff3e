"""Inputs of a client that cost it little and a careless broker much: one list of rows."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, TypeAlias

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.layout import Array, Struct, WireType, layout_of
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.schema import Message
from minikafka.protocol.types import BYTES, RECORDS, STRING, UUID_TYPE, Fixed

TOPIC = "nasty"  # ten partitions, all led by broker 1
PARTITIONS = 10
# Topics whose partitions a request names all, as many as one request may name.
MANY_TOPICS = tuple(f"many-{number}" for number in range(5))
MANY_PARTITIONS = 4_999  # of each
LARGEST_DECODED = 1 << 20  # a larger response is not taken apart to see its errors
DAY_MS = 86_400_000
CHUNK = 1 << 20


@dataclass(frozen=True)
class Target:
    """Broker 1 of a fresh cluster, where its first controller is in office."""

    port: int
    pid: int
    limit_s: float

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=self.limit_s)

    def exchange(self, frame: bytes) -> bytes | None:
        """The response to a frame; None if the connection is closed instead, or no answer came."""
        try:
            with self.connect() as connection:
                connection.sendall(frame)
                return receive(connection)
        except (ConnectionError, TimeoutError):
            return None


Attack: TypeAlias = Callable[[Target], str]


@dataclass(frozen=True)
class NastyInput:
    """``make`` prepares an attack, which returns what became of it. ``destructive``: the cluster is
    of no use to the next row. ``descriptors``: the broker's limit of open files. ``many``: the
    cluster has ``MANY_TOPICS``."""

    name: str
    make: Callable[[], Attack]
    replicas: int = 1
    destructive: bool = False
    descriptors: int = 0
    many: bool = False


def receive(connection: socket.socket) -> bytes | None:
    """One response without its size."""
    head = _receive_exactly(connection, 4)
    return _receive_exactly(connection, struct.unpack(">i", head)[0]) if head else None


def _receive_exactly(connection: socket.socket, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(min(CHUNK, count - len(received)))
        if not chunk:
            return None
        received += chunk
    return bytes(received)


# ----------------------------------------------------------------------- requests and outcomes


def frame_of(message: Message, version: int) -> bytes:
    key = message.SPEC.api_key
    assert key is not None
    return encode_request(RequestHeader(key, version, 1, "nasty"), message)


def flexible_frame(key: ApiKey, version: int, body: bytes, header_tags: bytes = b"\0") -> bytes:
    """A frame whose body was written by hand: millions of elements without an object each."""
    header = struct.pack(">hhih", key, version, 1, 5) + b"nasty" + header_tags
    return struct.pack(">i", len(header) + len(body)) + header + body


def compact_count(count: int) -> bytes:
    """The length of a compact array."""
    return unsigned_varint(count + 1)


def unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def requests(*messages: tuple[Message, int]) -> Attack:
    """Send the messages one after another."""
    frames = []
    for message, version in messages:
        key = message.SPEC.api_key
        assert key is not None
        frames.append((frame_of(message, version), key, version))
    return partial(_send_all, frames)


def _send_all(frames: Sequence[tuple[bytes, ApiKey, int]], target: Target) -> str:
    return ", ".join(
        outcome(target.exchange(frame), key, version) for frame, key, version in frames
    )


def outcome(answer: bytes | None, key: ApiKey, version: int) -> str:
    """``accepted``, or the errors of the response."""
    if answer is None:
        return "closed"
    if len(answer) > LARGEST_DECODED:
        return f"{len(answer) / 1e6:.0f} MB answered"
    try:
        _, response = decode_response(RESPONSES[key], version, answer)
    except DecodeError:
        return "closed"
    errors = sorted({code for code in error_codes(response) if code})
    return "+".join(ErrorCode(code).name for code in errors[:3]) or "accepted"


def error_codes(value: Any) -> Iterator[int]:
    """Every ``error_code`` within a response."""
    if isinstance(value, list):
        for element in value:
            yield from error_codes(element)
    elif is_dataclass(value):
        for field in fields(value):
            found = getattr(value, field.name)
            if field.name == "error_code":
                yield found
            else:
                yield from error_codes(found)


# ------------------------------------------------------------------------------------- batches

EMPTY_RECORD = bytes((12, 0, 0, 0, 1, 1, 0))  # no key, no value, no headers, both deltas 0
NO_RECORD_HEAD = bytes((0, 0, 0, 1, 1))  # attributes, both deltas, no key, no value


def batch(payload: bytes, count: int, codec: Compression = Compression.NONE) -> bytes:
    """A batch with a right CRC around any records."""
    now = int(time.time() * 1000)
    return assemble_batch(
        compress(codec, payload),
        base_offset=0,
        leader_epoch=-1,
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp=now,
        max_timestamp=now,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def produce(records: Iterable[tuple[int, bytes]], acks: int = 1) -> tuple[Message, int]:
    """Batches by partition of the topic."""
    data = [PartitionProduceData(index, each) for index, each in records]
    return ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(TOPIC, data)]
    ), 9


def many_records(codec: Compression, count: int, partitions: int = 1, acks: int = 1) -> Attack:
    made = batch(EMPTY_RECORD * count, count, codec)
    return requests(produce([(index, made) for index in range(partitions)], acks))


def batches_in_a_row() -> Attack:
    made = batch(EMPTY_RECORD * 300_000, 300_000, Compression.ZSTD)
    return requests(produce([(0, made * 10)]))


def many_headers(count: int) -> Attack:
    body = NO_RECORD_HEAD + zigzag(count) + b"\0\1" * count
    return requests(produce([(0, batch(zigzag(len(body)) + body, 1, Compression.ZSTD))]))


def zigzag(number: int) -> bytes:
    return unsigned_varint(number << 1)


def zeros(codec: Compression, size: int) -> Attack:
    return requests(produce([(0, batch(bytes(size), 1, codec))]))


def raw_records(payload: bytes, count: int) -> Attack:
    return requests(produce([(0, batch(payload, count))]))


def named_twice() -> Attack:
    made = build_batch([(int(time.time() * 1000), None, b"x", ())])
    return requests(produce([(0, made)] * 100_000))


def dated_apart(count: int) -> Attack:
    """Records 8 days apart, each in a request: a segment each."""
    start = int(time.time() * 1000) - count * 8 * DAY_MS
    frames = [
        frame_of(*produce([(0, build_batch([(start + n * 8 * DAY_MS, None, b"x", ())]))]))
        for n in range(count)
    ]
    return partial(_one_after_another, frames, ApiKey.PRODUCE, 9)


def _one_after_another(frames: Sequence[bytes], key: ApiKey, version: int, target: Target) -> str:
    answer = None
    with contextlib.suppress(ConnectionError, TimeoutError), target.connect() as connection:
        for frame in frames:
            connection.sendall(frame)
            answer = receive(connection)
            if answer is None:
                break
    return outcome(answer, key, version)


# -------------------------------------------------------------------------- arrays by the schema


def written_by_hand(key: ApiKey, version: int, before: bytes, element: bytes, count: int) -> Attack:
    """``count`` times ``element`` in the last array of a flexible request, without objects."""
    body = before + compact_count(count) + element * count + b"\0"
    return partial(_send_all, [(flexible_frame(key, version, body), key, version)])


def describe_groups(count: int) -> Attack:
    names = b"".join(b"\x08%07d" % number for number in range(count))
    body = compact_count(count) + names + b"\0\0"
    frame = flexible_frame(ApiKey.DESCRIBE_GROUPS, 5, body)
    return partial(_send_all, [(frame, ApiKey.DESCRIBE_GROUPS, 5)])


def header_tags(count: int) -> Attack:
    tags = unsigned_varint(count) + b"\1\0" * count
    body = b"\2x\2x\0"
    return partial(
        _send_all, [(flexible_frame(ApiKey.API_VERSIONS, 3, body, tags), ApiKey.API_VERSIONS, 3)]
    )


REPEATED = 100_000


def repeated(key: ApiKey, name: str) -> Attack:
    """A request of the newest version whose array ``name`` has one plain element many times."""
    cls, version = REQUESTS[key], key.max_version
    flexible = version >= cls.SPEC.first_flexible
    message = cls()
    for field in layout_of(cls, version, flexible).plain:
        if field.name == name:
            assert isinstance(field.type, Array)
            element = plain_value(field.type.element, version, flexible)
            setattr(message, name, [element] * REPEATED)
        elif not isinstance(field.type, Array):
            setattr(message, field.name, plain_value(field.type, version, flexible))
    return requests((message, version))


def plain_value(wire: WireType, version: int, flexible: bool) -> Any:
    if isinstance(wire, Array):
        return [plain_value(wire.element, version, flexible)]
    if isinstance(wire, Struct):
        layout = layout_of(wire.cls, version, flexible)
        return wire.cls(**{f.name: plain_value(f.type, version, flexible) for f in layout.plain})
    if wire == STRING:
        return TOPIC
    if wire in (BYTES, RECORDS):
        return b""
    assert isinstance(wire, Fixed)
    if wire == UUID_TYPE:
        return ZERO_UUID
    return {"?": False, "d": 0.0}.get(wire.code, 0)


# What they do may last: the next row gets a fresh cluster.
SPOILING = frozenset((ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.LEADER_AND_ISR))


def arrays_of_all_apis() -> list[NastyInput]:
    rows = []
    for key, cls in REQUESTS.items():
        flexible = key.max_version >= cls.SPEC.first_flexible
        for field in layout_of(cls, key.max_version, flexible).plain:
            if isinstance(field.type, Array):
                name = f"{key.api_name}.{field.name} x {REPEATED:,}"
                make = partial(repeated, key, field.name)
                rows.append(NastyInput(name, make, destructive=key in SPOILING))
    return rows


# --------------------------------------------------------------------------- names and counts


def create_topic(partitions: int, name: str = "large", limit_ms: int = 30_000) -> Attack:
    topic = CreatableTopic(name, partitions, 1)
    return requests((CreateTopicsRequest([topic], limit_ms), 7))


def validate_topics(count: int) -> Attack:
    """Topics to be checked, not created."""
    topics = [CreatableTopic(f"checked-{number}", 1, 1) for number in range(count)]
    return requests((CreateTopicsRequest(topics, 30_000, validate_only=True), 7))


def create_partitions(name: str) -> Attack:
    topic = CreatePartitionsTopic(name, 20, None)
    return requests((CreatePartitionsRequest([topic], 10_000), 3))


def update_metadata_of_topic(name: str) -> Attack:
    """The controller's own request is not signed: anyone may send it (epoch 1 is in office)."""
    partition = UpdateMetadataPartitionState(
        controller_epoch=1, leader=1, isr=[1], replicas=[1], partition_index=0
    )
    update = UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        topic_states=[UpdateMetadataTopicState(name, partition_states=[partition])],
        live_brokers=[UpdateMetadataBroker(1, endpoints=[_endpoint("127.0.0.1")])],
    )
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=5_000)
    return requests((update, 7), (deletion, 6))


def update_metadata_of_host(host: str) -> Attack:
    brokers = [
        UpdateMetadataBroker(1, endpoints=[_endpoint("127.0.0.1")]),
        UpdateMetadataBroker(2, endpoints=[_endpoint(host)]),
    ]
    update = UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=brokers)
    return requests((update, 7))


def _endpoint(host: str) -> UpdateMetadataEndpoint:
    return UpdateMetadataEndpoint(9092, host, "PLAINTEXT", 0)


def leader_and_isr(name: str) -> Attack:
    state = LeaderAndIsrPartitionState(
        controller_epoch=1, leader=1, isr=[1], replicas=[1], is_new=True
    )
    order = LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=1,
        topic_states=[LeaderAndIsrTopicState(name, partition_states=[state])],
    )
    return requests((order, 4))


# What LeaderAndIsr, StopReplica and UpdateMetadata of the first controller have in common.
FIRST_CONTROLLER: dict[str, Any] = {"controller_id": 1, "controller_epoch": 1}
ELSEWHERE: dict[str, Any] = {"leader": 2, "isr": [2], "replicas": [2]}


def leader_and_isr_elsewhere(count: int) -> Attack:
    """Of partitions of which this broker is no replica, as the next ones."""
    states = [LeaderAndIsrPartitionState(partition_index=n, **ELSEWHERE) for n in range(count)]
    topic = LeaderAndIsrTopicState("elsewhere", partition_states=states)
    return requests((LeaderAndIsrRequest(**FIRST_CONTROLLER, topic_states=[topic]), 4))


def stop_replica_elsewhere(count: int) -> Attack:
    states = [StopReplicaPartitionState(number, 0, False) for number in range(count)]
    topic = StopReplicaTopicState("elsewhere", states)
    return requests((StopReplicaRequest(**FIRST_CONTROLLER, topic_states=[topic]), 3))


def update_metadata_elsewhere(count: int) -> Attack:
    states = [UpdateMetadataPartitionState(partition_index=n, **ELSEWHERE) for n in range(count)]
    update = UpdateMetadataRequest(
        **FIRST_CONTROLLER,
        topic_states=[UpdateMetadataTopicState("elsewhere", partition_states=states)],
        live_brokers=[UpdateMetadataBroker(1, endpoints=[_endpoint("127.0.0.1")])],
    )
    return requests((update, 7))


def reassignments(count: int) -> Attack:
    """Partitions that do not exist."""
    rows = [ReassignablePartition(number, [1]) for number in range(count)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("unknown", rows)])
    return requests((request, 0))


def describe_broker_many_times(count: int) -> Attack:
    resources = [DescribeConfigsResource(4, "1", None)] * count
    request = DescribeConfigsRequest(resources, True, True)
    return requests((request, 4))


def unknown_topics(count: int) -> Attack:
    topics = [MetadataRequestTopic(name=f"new-{number}") for number in range(count)]
    return requests((MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9))


# ------------------------------------------------------------------- many partitions that exist


def of_every_partition(topic: type[Any], partition: Callable[[int], Any]) -> list[Any]:
    return [topic(name, [partition(n) for n in range(MANY_PARTITIONS)]) for name in MANY_TOPICS]


def produce_everywhere() -> Attack:
    made = build_batch([(int(time.time() * 1000), None, b"x", ())])
    topics = of_every_partition(TopicProduceData, lambda n: PartitionProduceData(n, made))
    return requests((ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9))


def list_offsets_everywhere(timestamp: int) -> Attack:
    topics = of_every_partition(
        ListOffsetsTopic, lambda n: ListOffsetsPartition(n, timestamp=timestamp)
    )
    return requests((ListOffsetsRequest(replica_id=-1, topics=topics), 7))


def leader_epochs_everywhere() -> Attack:
    topics = of_every_partition(OffsetForLeaderTopic, lambda n: OffsetForLeaderPartition(n, -1, 0))
    return requests((OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4))


def delete_records_everywhere() -> Attack:
    """Up to the high watermark."""
    topics = of_every_partition(DeleteRecordsTopic, lambda n: DeleteRecordsPartition(n, -1))
    return requests((DeleteRecordsRequest(topics, 30_000), 2))


# ------------------------------------------------------------------------- fetches, connections


def fetch_partitions(count: int) -> Attack:
    wanted = [FetchPartition(partition=n, partition_max_bytes=1000) for n in range(count)]
    request = FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=wanted)])
    return requests((request, 12))


def fetch_sessions(sessions: int, partitions: int) -> Attack:
    wanted = [FetchPartition(partition=n, partition_max_bytes=1000) for n in range(partitions)]
    request = FetchRequest(
        session_epoch=0, topics=[FetchTopic(topic=TOPIC, partitions=wanted)], max_wait_ms=0
    )
    frame = frame_of(request, 12)
    return partial(_one_after_another, [frame] * sessions, ApiKey.FETCH, 12)


def parked_fetches(count: int, size_mb: int) -> Attack:
    """So many consumers wait for more bytes than there are, then are all answered in full."""
    value = bytes(900_000)
    record = frame_of(*produce([(0, build_batch([(int(time.time() * 1000), None, value, ())]))]))
    wanted = [FetchPartition(partition=0, partition_max_bytes=size_mb << 20)]
    request = FetchRequest(
        max_wait_ms=2_000,
        min_bytes=2**31 - 1,
        max_bytes=size_mb << 20,
        topics=[FetchTopic(topic=TOPIC, partitions=wanted)],
    )
    return partial(_park, [record] * (size_mb * 10 // 9), frame_of(request, 12), count)


def _park(records: Sequence[bytes], fetch: bytes, count: int, target: Target) -> str:
    produced = _one_after_another(records, ApiKey.PRODUCE, 9, target)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(target.connect())
            connection.sendall(fetch)
        time.sleep(6)  # the fetches time out after two seconds; nobody reads
    return produced


def connections(count: int, sent: bytes = b"", hold_s: float = 3) -> Attack:
    return partial(_connect_many, count, sent, hold_s)


def _connect_many(count: int, sent: bytes, hold_s: float, target: Target) -> str:
    refused = 0
    with contextlib.ExitStack() as stack:
        _raise_own_limit()
        for _ in range(count):
            try:
                connection = stack.enter_context(target.connect())
                connection.sendall(sent)
            except OSError:
                refused += 1
        time.sleep(hold_s)
    return f"{refused} refused" if refused else "accepted"


def _raise_own_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pipelined(count: int) -> Attack:
    request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)], True, True)
    return partial(_pipeline, frame_of(request, 4) * count, count)


def _pipeline(frames: bytes, count: int, target: Target) -> str:
    done = 0
    with contextlib.suppress(ConnectionError, TimeoutError), target.connect() as connection:
        connection.sendall(frames)
        while done < count and receive(connection) is not None:
            done += 1
    return f"{done} answered"


def of_the_table() -> list[NastyInput]:
    """What once froze or ended a broker."""
    zstd, gzip = Compression.ZSTD, Compression.GZIP
    find = partial(written_by_hand, ApiKey.FIND_COORDINATOR, 4, b"\0", b"\1")
    claim = struct.pack(">i", 2 << 20) + b"\0\0"
    return [
        NastyInput(
            "10 zstd batches of 300,000, RF 3",
            partial(many_records, zstd, 300_000, PARTITIONS, -1),
            replicas=3,
        ),
        NastyInput("10 zstd batches for one partition", batches_in_a_row),
        NastyInput("gzip, 1 million to renumber", partial(many_records, gzip, 1_000_000)),
        NastyInput("zstd, 20 million headers", partial(many_headers, 20_000_000)),
        NastyInput("FindCoordinator, 2 million", partial(find, 2_000_000)),
        NastyInput("FindCoordinator, 20 million", partial(find, 20_000_000)),
        NastyInput("DescribeGroups, 1 million", partial(describe_groups, 1_000_000)),
        spoiling("CreateTopics, 2^31-1", partial(create_topic, 2**31 - 1)),
        spoiling("CreateTopics, 3 million", partial(create_topic, 3_000_000)),
        spoiling("CreateTopics, 50,000", partial(create_topic, 50_000)),
        NastyInput("DescribeConfigs, one 1,800 times", partial(describe_broker_many_times, 1_800)),
        NastyInput("CreatePartitions of .", partial(create_partitions, ".")),
        NastyInput("CreatePartitions of ..", partial(create_partitions, "..")),
        spoiling("UpdateMetadata, topic ..", partial(update_metadata_of_topic, "..")),
        spoiling("UpdateMetadata, long host", partial(update_metadata_of_host, "h" * 249)),
        spoiling("LeaderAndIsr, topic ../../..", partial(leader_and_isr, "../../..")),
        NastyInput("garbage records", partial(raw_records, b"\x7f" * 100, 3)),
        NastyInput("61 bytes, 2^31-1 records", partial(raw_records, b"", 2**31 - 1)),
        spoiling("500 connections, 400 files", partial(connections, 500), descriptors=400),
        spoiling("574 segments, 400 files", partial(dated_apart, 574), descriptors=400),
        NastyInput("200 connections claiming 2 MB", partial(connections, 200, claim)),
        spoiling("150 parked fetches of 45 MB", partial(parked_fetches, 150, 45)),
        NastyInput("Fetch of 100,000 partitions", partial(fetch_partitions, 100_000)),
        NastyInput("300 sessions of 2,000 partitions", partial(fetch_sessions, 300, 2_000)),
    ]


def beyond_the_table() -> list[NastyInput]:
    """More of their kinds."""
    gzip, lz4, none = Compression.GZIP, Compression.LZ4, Compression.NONE
    return [
        NastyInput("zstd, 1 GB of zeros", partial(zeros, Compression.ZSTD, 10**9)),
        NastyInput("gzip, 90 MB of zeros", partial(zeros, gzip, 90 * 10**6)),
        NastyInput("snappy, 90 MB of zeros", partial(zeros, Compression.SNAPPY, 90 * 10**6)),
        NastyInput("lz4, 1 million to renumber", partial(many_records, lz4, 1_000_000)),
        NastyInput("uncompressed, 140,000 records", partial(many_records, none, 140_000)),
        NastyInput("a partition named 100,000 times", named_twice),
        NastyInput("a header of 2 million tags", partial(header_tags, 2_000_000)),
        NastyInput("2,000 DescribeConfigs pipelined", partial(pipelined, 2_000)),
        spoiling("Metadata, 2,000 topics to create", partial(unknown_topics, 2_000)),
        NastyInput("CreateTopics, 5,000 to validate", partial(validate_topics, 5_000)),
        spoiling("LeaderAndIsr of 100,000", partial(leader_and_isr_elsewhere, 100_000)),
        spoiling("StopReplica of 100,000", partial(stop_replica_elsewhere, 100_000)),
        spoiling("UpdateMetadata of 100,000", partial(update_metadata_elsewhere, 100_000)),
        NastyInput("100,000 partitions to reassign", partial(reassignments, 100_000)),
        NastyInput("1,000 silent connections", partial(connections, 1_000)),
    ]


def of_existing_partitions() -> list[NastyInput]:
    """Requests that name 25,000 partitions, which exist. The first Produce makes their files."""
    makes: list[tuple[str, Callable[[], Attack]]] = [
        ("first Produce to 25,000 partitions", produce_everywhere),
        ("Produce to 25,000 partitions", produce_everywhere),
        ("ListOffsets of 25,000 partitions", partial(list_offsets_everywhere, -1)),
        ("ListOffsets of 25,000 by timestamp", partial(list_offsets_everywhere, 1)),
        ("OffsetForLeaderEpoch of 25,000", leader_epochs_everywhere),
        ("DeleteRecords of 25,000 partitions", delete_records_everywhere),
    ]
    return [NastyInput(name, make, many=True) for name, make in makes]


def spoiling(name: str, make: Callable[[], Attack], descriptors: int = 0) -> NastyInput:
    return NastyInput(name, make, destructive=True, descriptors=descriptors)


def rows() -> list[NastyInput]:
    """Every input, those of the APIs' arrays last."""
    return [
        *of_the_table(),
        *beyond_the_table(),
        *of_existing_partitions(),
        *arrays_of_all_apis(),
    ]
