"""What one hostile connection sends, out of one seed: messages, mutants, bombs, garbage."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import EncodeError
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.layout import Array, Field, Struct, WireType, layout_of
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.records.batch import HEADER
from minikafka.protocol.records.builder import assemble_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.schema import BYTES, RECORDS, STRING, UUID_TYPE, Fixed, Message
from tests.support.storage.log_fuzz import any_batch, mutated

TOPICS = tuple(f"attacked-{number}" for number in range(6))
NAMES = (
    *TOPICS,
    *("attacking-group", "attacking-transaction", "attacking-member", "User:attacker", "range"),
    *("", ".", "..", "../../..", "a/b", "\0", "\n[error] forged", "é" * 20, "x" * 249, "x" * 250),
    *("consumer", "cleanup.policy", "compact", "retention.ms", "-1", "999999999999999999999"),
)
ENTITY_TYPES = ("user", "client-id", "ip", "nonsense")
INTEGER_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
FENCED_EPOCH = 0  # the first controller of a cluster has 1

# Who sends them is a controller or a broker: see the package's docstring.
INTER_BROKER = frozenset(
    (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
)
# Fields by name in which an arbitrary value would be a legitimate request to do harm.
FENCED_FIELDS = {"controller_epoch": FENCED_EPOCH, "controller_id": 1_000, "broker_id": 1_000}
# Resource types of configurations: those of brokers are left alone.
HARMLESS_RESOURCE_TYPES = (0, 1, 2, 3, 8, 16, 32, 127, -128)
SHORT_WAITS = ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms")


@dataclass(frozen=True)
class Case:
    """``sent`` in turn on one connection. ``slowly``: in pieces, and the last one never."""

    kind: str
    sent: tuple[bytes, ...]
    connections: int = 1
    slowly: bool = False


Maker: TypeAlias = Callable[[random.Random], Case]


def case_of(seed: int) -> Case:
    """The case of a seed, the same in every run."""
    dice = random.Random(seed)
    (maker,) = dice.choices(tuple(MAKERS), tuple(MAKERS.values()))
    return maker(dice)


# ------------------------------------------------------------------------ messages by schema


def any_message(dice: random.Random, cls: type[Message], version: int) -> Any:
    """A message whose values are plausible or at the bounds of their types."""
    return _struct(dice, cls, version, version >= cls.SPEC.first_flexible)


def _struct(dice: random.Random, cls: type[Any], version: int, flexible: bool) -> Any:
    layout = layout_of(cls, version, flexible)
    fields = layout.plain + layout.tagged
    made = cls(**{f.name: _field(dice, f, version, flexible) for f in fields})
    if hasattr(made, "resource_type"):
        made.resource_type = dice.choice(HARMLESS_RESOURCE_TYPES)
    return made


def _field(dice: random.Random, field: Field, version: int, flexible: bool) -> Any:
    if field.name in FENCED_FIELDS:
        return FENCED_FIELDS[field.name]
    if field.name in SHORT_WAITS and dice.random() < 0.9:
        return dice.choice((0, 1, 100, 6_000))
    if field.name == "entity_type":
        return dice.choice(ENTITY_TYPES)
    if field.name == "entity_name":
        return dice.choice(NAMES)  # None is the default entity, which every client is
    if field.may_be_null(version) and dice.random() < 0.15:
        return None
    if field.tag is not None and isinstance(field.type, Struct) and dice.random() < 0.5:
        return None
    return _value(dice, field.type, version, flexible)


def _value(dice: random.Random, wire: WireType, version: int, flexible: bool) -> Any:
    if isinstance(wire, Array):
        count = dice.choices((0, 1, 2, 40), (2, 8, 4, 1))[0]
        made = [_value(dice, wire.element, version, flexible) for _ in range(min(count, 3))]
        return [dice.choice(made) for _ in range(count)] if count > 3 else made
    if isinstance(wire, Struct):
        return _struct(dice, wire.cls, version, flexible)
    if wire == STRING:
        return dice.choice(TOPICS if dice.random() < 0.5 else NAMES)
    if wire == RECORDS:
        return poisoned_batch(dice)
    if wire == BYTES:
        return dice.choice((b"", dice.randbytes(dice.randint(1, 40)), bytes(10_000)))
    assert isinstance(wire, Fixed)
    return _fixed(dice, wire)


def _fixed(dice: random.Random, wire: Fixed) -> Any:
    if wire == UUID_TYPE:
        return dice.choice((ZERO_UUID, UUID(bytes=dice.randbytes(16)), UUID(int=1)))
    if wire.code == "?":
        return dice.random() < 0.5
    if wire.code == "d":
        return dice.choice((0.0, -1.0, 1e308, float("inf"), float("nan"), 1000.0))
    if wire.code in "HI":
        return dice.choice((0, 1, (1 << (16 if wire.code == "H" else 32)) - 1))
    largest = (1 << INTEGER_BITS[wire.code] - 1) - 1
    if dice.random() < 0.7:
        return dice.choice((-1, 0, 0, 1, 1, 2, 3, 5))
    return dice.choice((largest, -largest - 1, largest - 1, -2, dice.randint(0, largest)))


def by_schema(dice: random.Random) -> Case:
    """A few requests of one or several APIs, each well-formed."""
    count = dice.choice((1, 1, 2, 8))
    keys = [dice.choice(list(REQUESTS)) for _ in range(count)]
    return Case("schema " + "+".join(key.name for key in keys), _requests(dice, keys))


def _requests(dice: random.Random, keys: list[ApiKey]) -> tuple[bytes, ...]:
    return tuple(_request(dice, key) for key in keys)


def _request(dice: random.Random, key: ApiKey) -> bytes:
    """A frame of ``key``; with defaults where a value that was drawn cannot be sent."""
    cls = REQUESTS[key]
    version = dice.randint(key.first_version, key.max_version)
    client_id = dice.choice((None, "", "attacker", "x" * 5_000, "\n[error] forged=1"))
    header = RequestHeader(key, version, dice.choice((1, -1, 2**31 - 1)), client_id)
    for _ in range(3):
        try:
            return encode_request(header, any_message(dice, cls, version))
        except EncodeError:
            continue
    return encode_request(header, cls())


def mutants(dice: random.Random) -> Case:
    """Requests with bytes changed behind the header; the frame's size is put right mostly."""
    key = dice.choice([key for key in REQUESTS if key not in INTER_BROKER])
    frame = _request(dice, key)
    body = mutated(dice, frame[8:]) if dice.random() < 0.8 else frame[8 : dice.randint(8, 60)]
    size = 4 + len(body) if dice.random() < 0.95 else dice.choice((0, -1, 3, len(body) * 2))
    return Case(f"mutant {key.name}", (struct.pack(">i", size) + frame[4:8] + body,))


# --------------------------------------------------------------------------- poisoned batches


def poisoned_batch(dice: random.Random) -> bytes:
    kind = dice.randrange(4)
    if kind == 0:
        return any_batch(dice)
    if kind == 1:
        return mutated(dice, any_batch(dice))
    if kind == 2:
        return mutated(dice, any_batch(dice)) + mutated(dice, any_batch(dice))
    return _with_payload(dice, dice.randbytes(dice.randint(0, 100)), dice.choice(COUNTS))


COUNTS = (-(2**31), -1, 0, 1, 2, 1_000_000, 2**31 - 1)


def _with_payload(
    dice: random.Random, payload: bytes, count: int, codec: Compression = Compression.NONE
) -> bytes:
    """A batch with a right CRC around any records."""
    return assemble_batch(
        compress(codec, payload),
        base_offset=0,
        leader_epoch=-1,
        attributes=int(codec) | dice.choice((0, 0, 0, 8, 16, 32, 48, 64)),
        last_offset_delta=max(-1, min(count - 1, 2**31 - 1)),
        base_timestamp=dice.choice((0, -1, 2**63 - 1, 1_700_000_000_000)),
        max_timestamp=dice.choice((0, -1, 2**63 - 1, 1_700_000_000_000)),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def produce(topic: str, records: bytes, acks: int = 1) -> bytes:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])]
    request = ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=data)
    return encode_request(RequestHeader(ApiKey.PRODUCE, 9, 1, "attacker"), request)


def poison(dice: random.Random) -> Case:
    batches = [poisoned_batch(dice) for _ in range(dice.choice((1, 4, 16)))]
    acks = dice.choice((0, 1, -1, 7))
    return Case("poison", tuple(produce(dice.choice(TOPICS), each, acks) for each in batches))


EMPTY_RECORD = bytes((12, 0, 0, 0, 1, 1, 0))  # no key, no value, no headers, both deltas 0


def _many_records(dice: random.Random) -> bytes:
    count = dice.choice((1_000, 100_000, 300_000))
    codec = dice.choice((Compression.ZSTD, Compression.GZIP, Compression.LZ4))
    return _with_payload(dice, EMPTY_RECORD * count, count, codec)


def _many_headers(dice: random.Random) -> bytes:
    count = dice.choice((1_000, 1_000_000))
    body = bytes((0, 0, 0, 1, 1)) + _varint(count) + b"\0\1" * count
    return _with_payload(dice, _varint(len(body)) + body, 1, Compression.ZSTD)


def _zeros(dice: random.Random) -> bytes:
    return _with_payload(dice, bytes(dice.choice((10**6, 10**8))), 1, Compression.ZSTD)


def _varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def bomb(dice: random.Random) -> Case:
    """Little on the wire, much to do."""
    made = dice.choice((_many_records, _many_headers, _zeros))(dice)
    return Case("bomb", (produce(dice.choice(TOPICS), made),))


# ---------------------------------------------------------------------- frames and connections


def garbage(dice: random.Random) -> Case:
    noise = dice.randbytes(dice.randint(1, 2_000))
    size = dice.choice((len(noise), -1, 0, 1, 2**31 - 1, 99 << 20, -(2**31)))
    with_header = struct.pack(">hhih", dice.randint(-1, 80), dice.randint(-1, 20), 1, -1)
    framed = struct.pack(">i", size) + with_header + noise
    return Case("garbage", (dice.choice((noise, framed, HEADER.pack(*([0] * 13)))),))


def half_open(dice: random.Random) -> Case:
    frame = _request(dice, dice.choice(list(REQUESTS)))
    return Case("half-open", (frame[: dice.randint(1, len(frame))],), dice.choice((1, 20)), True)


def flood(dice: random.Random) -> Case:
    """Many connections that claim much or say nothing."""
    claim = struct.pack(">i", dice.choice((1 << 20, 50 << 20)))
    return Case(
        "flood", (dice.choice((b"", claim, claim + b"\0\0")),), dice.choice((50, 200)), True
    )


def pipeline(dice: random.Random) -> Case:
    """Many requests before the first response is read."""
    key = dice.choice((ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FETCH, ApiKey.LIST_OFFSETS))
    return Case(f"pipeline {key.name}", _requests(dice, [key]) * dice.choice((100, 2_000)))


MAKERS: dict[Maker, int] = {  # how often, in parts
    by_schema: 50,
    mutants: 25,
    poison: 15,
    garbage: 5,
    bomb: 2,
    half_open: 3,
    flood: 1,
    pipeline: 2,
}
