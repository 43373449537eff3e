"""Inputs of a client that cost it little and a careless broker much: one list of rows."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import DecodeError, error_codes
from minikafka.protocol.layout import Array, Struct, WireType, layout_of
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.schema import BYTES, RECORDS, STRING, UUID_TYPE, Fixed
from scripts.lib.bench.requests import (
    batch_of,
    decoded,
    exchange,
    frame,
    receive,
    version_of,
)

TOPIC = "nasty"  # ten partitions, all led by broker 1
PARTITIONS = 10
# Topics whose partitions a request names all, as many as one request may name.
MANY_TOPICS = tuple(f"many-{number}" for number in range(5))
MANY_PARTITIONS = 4_999  # of each
LARGEST_DECODED = 1 << 20  # a larger response is not taken apart to see its errors
REPEATED = 100_000
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Target:
    """Broker 1 of a fresh cluster, where its first controller is in office."""

    port: int
    limit_s: float

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=self.limit_s)


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


# ----------------------------------------------------------------------- requests and outcomes


@dataclass(frozen=True)
class Sent:
    """A frame, and what it takes to read its response."""

    frame: bytes
    key: ApiKey
    version: int

    def outcome(self, answer: bytes | None) -> str:
        """``accepted``, or the errors of the response."""
        if answer is None:
            return "closed"
        if len(answer) > LARGEST_DECODED:
            return f"{len(answer) / 1e6:.0f} MB answered"
        try:
            errors = sorted(set(error_codes(decoded(self.key, answer, self.version))))
        except DecodeError:
            return "closed"
        return "+".join(ErrorCode(code).name for code in errors[:3]) or "accepted"


def sent(key: ApiKey, /, **values: Any) -> Sent:
    return Sent(frame(key, **values), key, version_of(key))


def by_hand(key: ApiKey, version: int, body: bytes, header_tags: bytes = b"\0") -> Sent:
    """A flexible frame whose body was written by hand: millions of elements without an object."""
    header = struct.pack(">hhih", key, version, 1, 5) + b"nasty" + header_tags
    return Sent(struct.pack(">i", len(header) + len(body)) + header + body, key, version)


def attack(*frames: Sent) -> Attack:
    """Send each frame on a connection for itself, one after another."""

    def send(target: Target) -> str:
        answers = ((each, exchange(target.port, each.frame, target.limit_s)) for each in frames)
        return ", ".join(each.outcome(answer) for each, answer in answers)

    return send


def request(key: ApiKey, /, **values: Any) -> Attack:
    return attack(sent(key, **values))


def in_a_row(frames: Sequence[Sent]) -> Attack:
    """Send the frames on one connection, each after the response to the one before."""

    def send(target: Target) -> str:
        answer = None
        with contextlib.suppress(ConnectionError, TimeoutError), target.connect() as connection:
            for each in frames:
                connection.sendall(each.frame)
                answer = receive(connection)
                if answer is None:
                    break
        return frames[-1].outcome(answer)

    return send


def unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact_array(elements: bytes, count: int) -> bytes:
    return unsigned_varint(count + 1) + elements


# ------------------------------------------------------------------------------------- batches

EMPTY_RECORD = bytes((12, 0, 0, 0, 1, 1, 0))  # no key, no value, no headers, both deltas 0
NO_RECORD_HEAD = bytes((0, 0, 0, 1, 1))  # attributes, both deltas, no key, no value
NONE, GZIP, LZ4, ZSTD = Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.ZSTD


def batch(payload: bytes, count: int, codec: Compression = NONE) -> bytes:
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


def produce(batches: Iterable[tuple[int, bytes]], acks: int = 1) -> Sent:
    """Batches by partition of the topic."""
    data = [{"index": index, "records": each} for index, each in batches]
    topics = [{"name": TOPIC, "partition_data": data}]
    return sent(ApiKey.PRODUCE, acks=acks, timeout_ms=30_000, topic_data=topics)


def records(
    payload: bytes, count: int, codec: Compression = NONE, partitions: int = 1, acks: int = 1
) -> Attack:
    made = batch(payload, count, codec)
    return attack(produce([(index, made) for index in range(partitions)], acks))


def many_headers(count: int) -> Attack:
    """One record."""
    body = NO_RECORD_HEAD + unsigned_varint(2 * count) + b"\0\1" * count
    return records(unsigned_varint(2 * len(body)) + body, 1, ZSTD)


def dated_apart(count: int) -> Attack:
    """Records 8 days apart, each in a request: a segment each."""
    start = int(time.time() * 1000) - count * 8 * DAY_MS
    batches = [build_batch([(start + n * 8 * DAY_MS, None, b"x", ())]) for n in range(count)]
    return in_a_row([produce([(0, bytes(each))]) for each in batches])


# -------------------------------------------------------------------------- arrays by the schema


def find_coordinators(count: int) -> Attack:
    body = b"\0" + compact_array(b"\1" * count, count) + b"\0"
    return attack(by_hand(ApiKey.FIND_COORDINATOR, 4, body))


def repeated(key: ApiKey, name: str) -> Attack:
    """A request of the newest version whose array ``name`` has one plain element many times."""
    version = key.max_version
    flexible = version >= REQUESTS[key].SPEC.first_flexible
    values: dict[str, Any] = {}
    for field in layout_of(REQUESTS[key], version, flexible).plain:
        if field.name == name:
            assert isinstance(field.type, Array)
            values[name] = [plain_value(field.type.element, version, flexible)] * REPEATED
        elif not isinstance(field.type, Array):
            values[field.name] = plain_value(field.type, version, flexible)
    return attack(Sent(frame(key, version, **values), key, version))


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

# What LeaderAndIsr, StopReplica and UpdateMetadata of the first controller have in common: they are
# not signed, so that anyone may send them.
FIRST_CONTROLLER: dict[str, Any] = {"controller_id": 1, "controller_epoch": 1}
HERE: dict[str, Any] = {"controller_epoch": 1, "leader": 1, "isr": [1], "replicas": [1]}
ELSEWHERE: dict[str, Any] = {"leader": 2, "isr": [2], "replicas": [2]}


def create_topics(names: Iterable[str], partitions: int, validate_only: bool = False) -> Attack:
    topics = [{"name": n, "num_partitions": partitions, "replication_factor": 1} for n in names]
    return request(
        ApiKey.CREATE_TOPICS, topics=topics, timeout_ms=30_000, validate_only=validate_only
    )


def create_partitions(name: str) -> Attack:
    topics = [{"name": name, "count": 20, "assignments": None}]
    return request(ApiKey.CREATE_PARTITIONS, topics=topics, timeout_ms=10_000)


def update_metadata(topic: str, states: Sequence[Mapping[str, Any]], *hosts: str) -> Sent:
    """``hosts`` are those of brokers 2, 3, ..."""
    brokers = [
        {"id": number, "endpoints": [{"port": 9092, "host": host, "listener": "PLAINTEXT"}]}
        for number, host in enumerate(("127.0.0.1", *hosts), 1)
    ]
    topics = [{"topic_name": topic, "partition_states": states}] if states else []
    values = {**FIRST_CONTROLLER, "topic_states": topics, "live_brokers": brokers}
    return sent(ApiKey.UPDATE_METADATA, **values)


def update_metadata_of_topic(name: str) -> Attack:
    update = update_metadata(name, [{"partition_index": 0, **HERE}])
    return attack(update, sent(ApiKey.DELETE_TOPICS, topics=[{"name": name}], timeout_ms=5_000))


def controller(key: ApiKey, name: str, states: Sequence[Mapping[str, Any]]) -> Attack:
    """LeaderAndIsr or StopReplica of one topic."""
    topics = [{"topic_name": name, "partition_states": states}]
    return request(key, **FIRST_CONTROLLER, topic_states=topics)


def elsewhere(**values: Any) -> list[dict[str, Any]]:
    """Rows of partitions of which broker 1 is no replica, with the given fields."""
    return [{"partition_index": number, **values} for number in range(REPEATED)]


def describe_broker(times: int) -> Sent:
    broker = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    values = {"include_synonyms": True, "include_documentation": True}
    return sent(ApiKey.DESCRIBE_CONFIGS, resources=[broker] * times, **values)


# ------------------------------------------------------------------- many partitions that exist


def everywhere(key: ApiKey, row: Mapping[str, Any], **values: Any) -> Attack:
    """Name all partitions of ``MANY_TOPICS``, each with the fields of ``row``."""
    index, name, partitions = {
        ApiKey.PRODUCE: ("index", "name", "partition_data"),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: ("partition", "topic", "partitions"),
    }.get(key, ("partition_index", "name", "partitions"))
    rows = [{index: number, **row} for number in range(MANY_PARTITIONS)]
    topics = [{name: topic, partitions: rows} for topic in MANY_TOPICS]
    field = "topic_data" if key is ApiKey.PRODUCE else "topics"
    return attack(sent(key, **{field: topics}, **values))


# ------------------------------------------------------------------------- fetches, connections


def fetch(partitions: int, bytes_of_each: int = 1000, **values: Any) -> Sent:
    wanted = [{"partition": n, "partition_max_bytes": bytes_of_each} for n in range(partitions)]
    return sent(ApiKey.FETCH, topics=[{"topic": TOPIC, "partitions": wanted}], **values)


def parked_fetches(count: int, size_mb: int) -> Attack:
    """So many consumers wait for more bytes than there are, then are all answered in full."""
    fill = in_a_row([produce([(0, batch_of(900_000))])] * (size_mb * 10 // 9))
    size = size_mb << 20
    parked = fetch(1, size, max_wait_ms=2_000, min_bytes=2**31 - 1, max_bytes=size)

    def send(target: Target) -> str:
        produced = fill(target)
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(target.connect()).sendall(parked.frame)
            time.sleep(6)  # the fetches time out after two seconds; nobody reads
        return produced

    return send


def connections(count: int, data: bytes = b"", hold_s: float = 3) -> Attack:
    def send(target: Target) -> str:
        refused = 0
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                try:
                    stack.enter_context(target.connect()).sendall(data)
                except OSError:
                    refused += 1
            time.sleep(hold_s)
        return f"{refused} refused" if refused else "accepted"

    return send


def pipelined(count: int) -> Attack:
    request = describe_broker(1).frame

    def send(target: Target) -> str:
        done = 0
        with contextlib.suppress(ConnectionError, TimeoutError), target.connect() as connection:
            connection.sendall(request * count)
            while done < count and receive(connection) is not None:
                done += 1
        return f"{done} answered"

    return send


# ---------------------------------------------------------------------------------------- rows


def plain(name: str, make: Callable[..., Attack], *arguments: Any, **more: Any) -> NastyInput:
    return NastyInput(name, partial(make, *arguments), **more)


def spoiling(name: str, make: Callable[..., Attack], *arguments: Any, **more: Any) -> NastyInput:
    return plain(name, make, *arguments, destructive=True, **more)


def written_out() -> list[NastyInput]:
    """First what once froze or ended a broker, then more of these kinds."""
    claim = struct.pack(">i", 2 << 20) + b"\0\0"
    outside = [{**HERE, "is_new": True}]
    million = EMPTY_RECORD * 1_000_000
    million_names = b"".join(b"\x08%07d" % number for number in range(1_000_000))
    isr, stop = ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA
    return [
        plain("10 zstd batches of 300,000, RF 3", records, EMPTY_RECORD * 300_000, 300_000, ZSTD,
              PARTITIONS, -1, replicas=3),
        plain("10 zstd batches for one partition",
              lambda: attack(produce([(0, batch(EMPTY_RECORD * 300_000, 300_000, ZSTD) * 10)]))),
        plain("gzip, 1 million to renumber", records, million, 1_000_000, GZIP),
        plain("zstd, 20 million headers", many_headers, 20_000_000),
        plain("FindCoordinator, 2 million", find_coordinators, 2_000_000),
        plain("FindCoordinator, 20 million", find_coordinators, 20_000_000),
        plain("DescribeGroups, 1 million", lambda: attack(by_hand(
            ApiKey.DESCRIBE_GROUPS, 5, compact_array(million_names, 1_000_000) + b"\0\0"))),
        spoiling("CreateTopics, 2^31-1", create_topics, ["large"], 2**31 - 1),
        spoiling("CreateTopics, 3 million", create_topics, ["large"], 3_000_000),
        spoiling("CreateTopics, 50,000", create_topics, ["large"], 50_000),
        plain("DescribeConfigs, one 1,800 times", lambda: attack(describe_broker(1_800))),
        plain("CreatePartitions of .", create_partitions, "."),
        plain("CreatePartitions of ..", create_partitions, ".."),
        spoiling("UpdateMetadata, topic ..", update_metadata_of_topic, ".."),
        spoiling("UpdateMetadata, long host", lambda: attack(update_metadata("", [], "h" * 249))),
        spoiling("LeaderAndIsr, topic ../../..", controller, isr, "../../..", outside),
        plain("garbage records", records, b"\x7f" * 100, 3),
        plain("61 bytes, 2^31-1 records", records, b"", 2**31 - 1),
        spoiling("500 connections, 400 files", connections, 500, descriptors=400),
        spoiling("574 segments, 400 files", dated_apart, 574, descriptors=400),
        plain("200 connections claiming 2 MB", connections, 200, claim),
        spoiling("150 parked fetches of 45 MB", parked_fetches, 150, 45),
        plain("Fetch of 100,000 partitions", lambda: attack(fetch(100_000))),
        plain("300 sessions of 2,000 partitions",
              lambda: in_a_row([fetch(2_000, session_epoch=0, max_wait_ms=0)] * 300)),
        plain("zstd, 1 GB of zeros", lambda: records(bytes(10**9), 1, ZSTD)),
        plain("gzip, 90 MB of zeros", lambda: records(bytes(90 * 10**6), 1, GZIP)),
        plain("snappy, 90 MB of zeros",
              lambda: records(bytes(90 * 10**6), 1, Compression.SNAPPY)),
        plain("lz4, 1 million to renumber", records, million, 1_000_000, LZ4),
        plain("uncompressed, 140,000 records", records, EMPTY_RECORD * 140_000, 140_000),
        plain("a partition named 100,000 times",
              lambda: attack(produce([(0, batch_of(1))] * REPEATED))),
        plain("a header of 2 million tags", lambda: attack(by_hand(
            ApiKey.API_VERSIONS, 3, b"\2x\2x\0",
            unsigned_varint(2_000_000) + b"\1\0" * 2_000_000))),
        plain("2,000 DescribeConfigs pipelined", pipelined, 2_000),
        spoiling("Metadata, 2,000 topics to create", lambda: request(
            ApiKey.METADATA, topics=[{"name": f"new-{number}"} for number in range(2_000)],
            allow_auto_topic_creation=True)),
        plain("CreateTopics, 5,000 to validate", create_topics,
              [f"checked-{number}" for number in range(5_000)], 1, True),
        spoiling("LeaderAndIsr of 100,000",
                 lambda: controller(isr, "elsewhere", elsewhere(**ELSEWHERE))),
        spoiling("StopReplica of 100,000",
                 lambda: controller(stop, "elsewhere", elsewhere(leader_epoch=0))),
        spoiling("UpdateMetadata of 100,000",
                 lambda: attack(update_metadata("elsewhere", elsewhere(**ELSEWHERE)))),
        plain("100,000 partitions to reassign", lambda: request(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            topics=[{"name": "unknown", "partitions": elsewhere(replicas=[1])}])),
        plain("1,000 silent connections", connections, 1_000),
    ]  # fmt: skip


def of_existing_partitions() -> list[NastyInput]:
    """Requests that name 25,000 partitions, which exist. The first Produce makes their files."""
    existing = partial(plain, many=True)
    fill = partial(everywhere, ApiKey.PRODUCE, acks=1, timeout_ms=30_000)
    offsets = partial(everywhere, ApiKey.LIST_OFFSETS, replica_id=-1)
    epochs = partial(everywhere, ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=-1)
    delete = partial(everywhere, ApiKey.DELETE_RECORDS, timeout_ms=30_000)
    return [
        existing("first Produce to 25,000 partitions", fill, {"records": batch_of(1)}),
        existing("Produce to 25,000 partitions", fill, {"records": batch_of(1)}),
        existing("ListOffsets of 25,000 partitions", offsets, {"timestamp": -1}),
        existing("ListOffsets of 25,000 by timestamp", offsets, {"timestamp": 1}),
        existing("OffsetForLeaderEpoch of 25,000", epochs, {"leader_epoch": 0}),
        existing("DeleteRecords of 25,000 partitions", delete, {"offset": -1}),
    ]


def rows() -> list[NastyInput]:
    """Every input, those of the APIs' arrays last."""
    return [*written_out(), *of_existing_partitions(), *arrays_of_all_apis()]
