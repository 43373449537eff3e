"""No data of a znode makes a decoder raise anything but MalformedZnode."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.znodes import (
    BrokerZnode,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PartitionStateZnode,
    PreferredElectionZnode,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

Decode = Callable[[bytes], Any]

ENTRY = {"topic": "t", "partition": 0, "replicas": [1, 2]}
# The decoder and a valid object of every znode.
DECODERS: dict[str, tuple[Decode, Any]] = {
    "controller": (ControllerZnode.decode, {"version": 2, "brokerid": 1, "timestamp": "5"}),
    "controller epoch": (ControllerEpochZnode.decode, 7),
    "cluster id": (ClusterIdZnode.decode, {"version": "1", "id": "abc"}),
    "broker": (
        partial(BrokerZnode.decode, 1),
        {
            "version": 5,
            "endpoints": ["PLAINTEXT://h:9092"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "timestamp": "5",
            "rack": "r",
            "jmx_port": 9999,
            "features": {"f": {"min_version": 1, "max_version": 2}},
        },
    ),
    "old broker": (partial(BrokerZnode.decode, 1), {"version": 1, "host": "h", "port": 9092}),
    "producer ids": (
        ProducerIdBlockZnode.decode,
        {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    ),
    "feature": (
        FeatureZnode.decode,
        {"version": 2, "status": 1, "features": {"f": {"max_version_level": 1}}},
    ),
    "topic": (
        partial(TopicZnode.decode, "t"),
        {
            "version": 3,
            "topic_id": "ABEiM0RVZneImaq7zN3u_w",
            "partitions": {"0": [1, 2], "1": [2, 1]},
            "adding_replicas": {"0": [2]},
            "removing_replicas": {"0": [1]},
        },
    ),
    "partition state": (
        lambda data: PartitionStateZnode.decode(TopicPartition("t", 0), data, 0),
        {"leader": 1, "leader_epoch": 0, "isr": [1], "controller_epoch": 1, "version": 1},
    ),
    "config": (
        partial(ConfigZnode.decode, "topics", "t"),
        {"version": 1, "config": {"retention.ms": "1"}},
    ),
    "config change": (ConfigChangeZnode.decode, {"version": 2, "entity_path": "topics/t"}),
    "old config change": (
        ConfigChangeZnode.decode,
        {"version": 1, "entity_type": "topics", "entity_name": "t"},
    ),
    "isr change": (IsrChangeZnode.decode, {"version": 1, "partitions": [ENTRY]}),
    "log dir event": (LogDirEventZnode.decode, {"version": 1, "broker": 1, "event": 1}),
    "preferred election": (PreferredElectionZnode.decode, {"version": 1, "partitions": [ENTRY]}),
    "reassignment": (ReassignPartitionsZnode.decode, {"version": 1, "partitions": [ENTRY]}),
}

HUGE = 10**400
DIGITS = "9" * 5000  # more than Python converts
WHOLE = {
    "3,000 brackets": b"[" * 3000,
    "closed brackets": b"[" * 100_000 + b"]" * 100_000,
    "3,000 braces": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "a huge number": DIGITS.encode(),
    "a negative huge number": b"-" + DIGITS.encode(),
    "beyond an int": b"99999999999",
    "not UTF-8": b"\xff\xfe\xfd",
    "zeros": bytes(100),
    "empty": b"",
    "NaN": b'{"version":NaN}',
    "a lone surrogate": b'{"version":2,"entity_path":"\\ud800"}',
}
BAD: list[Any] = [
    None, True, False, 0, -1, 2**31, -(2**31) - 1, 2**63, HUGE, -HUGE, 0.5, 1e300, float("inf"),
    "", "..", "../..", "a/b", "\ud800", "\0", "x" * 300, DIGITS, "-1", "9" * 30, "\u0663", "\u00b2",
    [], [[]], ["\ud800"], [None], [2**40], [HUGE], {}, {"": None},
    {"0": [2**40]}, {"x": {"y": HUGE}},
    {DIGITS: [1]}, {"99999999999": [1]}, {"-1": [1]}, {"\ud800": "v"}, ["PLAINTEXT://h:" + DIGITS],
    ["PLAINTEXT://h:99999999999"], [{"topic": "..", "partition": 0, "replicas": [1]}],
    [{"topic": "t", "partition": -1, "replicas": [1]}],
    [{"topic": "t", "partition": 2**31, "replicas": [1]}], [ENTRY, 1],
]  # fmt: skip


def must_be_malformed_or_taken(decode: Decode, data: bytes) -> None:
    """Whatever is taken can be encoded again, and has no number that a request cannot carry."""
    try:
        taken = decode(data)
    except MalformedZnode:
        return
    repr(taken).encode()
    if hasattr(taken, "encode"):
        taken.encode()
    for number in numbers(json.loads(taken.encode() or b"{}")):
        assert -(2**63) <= number < 2**63


def numbers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [n for key, item in value.items() for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [value] if isinstance(value, int) else []


@pytest.mark.mission("DOOR-4")
@pytest.mark.parametrize("znode", DECODERS)
def test_a_valid_object_is_read(znode: str) -> None:
    decode, valid = DECODERS[znode]
    decode(json.dumps(valid).encode())


@pytest.mark.mission("DOOR-4")
@pytest.mark.parametrize("what", WHOLE)
@pytest.mark.parametrize("znode", DECODERS)
def test_unreadable_data_are_malformed(znode: str, what: str) -> None:
    must_be_malformed_or_taken(DECODERS[znode][0], WHOLE[what])


@pytest.mark.mission("DOOR-4")
@pytest.mark.parametrize("znode", DECODERS)
def test_a_bad_value_in_any_place_is_malformed_or_harmless(znode: str) -> None:
    decode, valid = DECODERS[znode]
    for changed in mutations(valid):
        must_be_malformed_or_taken(decode, as_json(changed))


@pytest.mark.mission("DOOR-4")
@pytest.mark.parametrize("znode", DECODERS)
def test_random_objects_are_malformed_or_harmless(znode: str) -> None:
    decode, valid = DECODERS[znode]
    dice = random.Random(znode)
    keys = list(valid) if isinstance(valid, dict) else ["version"]
    for _ in range(400):
        value = {key: random_value(dice, 3) for key in keys if dice.random() < 0.8}
        must_be_malformed_or_taken(decode, as_json(value))
        data = bytearray(as_json(valid))
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        must_be_malformed_or_taken(decode, bytes(data))


def as_json(value: Any) -> bytes:
    """Encode ``value``; numbers too long for Python's own conversion are given as strings above."""
    return json.dumps(value).encode()


def mutations(value: Any) -> list[Any]:
    """Return copies of ``value`` with each part replaced by each bad value, or removed."""
    changed = list(BAD)
    if isinstance(value, dict):
        for key, item in value.items():
            changed += [{**value, key: other} for other in mutations(item)]
            changed.append({k: v for k, v in value.items() if k != key})
    elif isinstance(value, list):
        for index, item in enumerate(value):
            changed += [[*value[:index], other, *value[index + 1 :]] for other in mutations(item)]
    return changed


def random_value(dice: random.Random, depth: int) -> Any:
    if depth and dice.random() < 0.4:
        items = [random_value(dice, depth - 1) for _ in range(dice.randrange(4))]
        if dice.random() < 0.5:
            return items
        return {dice.choice(["0", "1", "topic", "partition", "\u0663", ""]): i for i in items}
    return dice.choice(BAD)
