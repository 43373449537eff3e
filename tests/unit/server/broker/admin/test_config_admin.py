"""Altering configuration: what is refused and why, what is written, what brokers make of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import ConnectionLost, SetOp
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.zookeeper.store import ZkStore
from tests.support.broker.config_lab import (
    APPEND,
    BROKER,
    DELETE,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    Lab,
    fate,
)
from tests.support.zookeeper.direct import DirectZookeeper


@pytest.fixture
async def lab() -> Lab:
    store = ZkStore(await DirectZookeeper().open("", 0, 0))
    await store.create_persistent_paths()
    return Lab(store)


@pytest.mark.parametrize("version", range(3))
async def test_a_topic_s_configuration_is_replaced_and_announced(lab: Lab, version: int) -> None:
    await lab.alter((TOPIC, "t", {"retention.ms": "5"}), version=version)
    (answer,) = await lab.alter((TOPIC, "t", {"cleanup.policy": "compact"}), version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.resource_type, answer.resource_name) == (TOPIC, "t")
    written = await lab.written("/config/topics/t")
    assert written == b'{"version":1,"config":{"cleanup.policy":"compact"}}'
    names = await lab.store.config_changes()
    assert names == ["config_change_0000000000", "config_change_0000000001"]
    notice = await lab.written(f"/config/changes/{names[1]}")
    assert notice == b'{"version":2,"entity_path":"topics/t"}'


@pytest.mark.parametrize("version", range(2))
async def test_single_settings_are_set_appended_to_taken_from_and_deleted(
    lab: Lab, version: int
) -> None:
    async def after(*changes: Any) -> dict[str, str]:
        (answer,) = await lab.increment((TOPIC, "t", changes), version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        found: dict[str, str] = await lab.store.topic_config("t")
        return found

    assert await after(("retention.ms", SET, "5"), ("segment.bytes", SET, "1000")) == {
        "retention.ms": "5",
        "segment.bytes": "1000",
    }
    assert await after(("cleanup.policy", APPEND, "compact"), ("segment.bytes", DELETE, None)) == {
        "retention.ms": "5",
        "cleanup.policy": "delete,compact",
    }
    assert (await after(("cleanup.policy", APPEND, "compact")))["cleanup.policy"] == (
        "delete,compact"
    )
    assert (await after(("cleanup.policy", SUBTRACT, "delete")))["cleanup.policy"] == "compact"
    assert await after(("retention.ms", DELETE, None), ("cleanup.policy", DELETE, "x")) == {}
    assert await lab.written("/config/topics/t") == b'{"version":1,"config":{}}'


BAD = "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): Invalid value"
FOR = "for configuration"
RATIO = f"{FOR} min.cleanable.dirty.ratio"
NO_LIST = "Config value {} is not allowed for config key"


@pytest.mark.mission("CFG-7")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("segment.bytes", SET, "3"), f"{BAD} 3 {FOR} segment.bytes: Value must be at least 14"),
        (("segment.bytes", SET, "x"), f"{BAD} x {FOR} segment.bytes: Not a number of type INT"),
        (("retention.ms", SET, "x"), f"{BAD} x {FOR} retention.ms: Not a number of type LONG"),
        (("min.cleanable.dirty.ratio", SET, "x"), f"{BAD} x {RATIO}: Not a number of type DOUBLE"),
        (("min.cleanable.dirty.ratio", SET, "2"), f"{BAD} 2 {RATIO}: Value must be no more than 1"),
        (
            ("unclean.leader.election.enable", SET, "yes"),
            (
                f"{BAD} yes {FOR} unclean.leader.election.enable: "
                "Expected value to be either true or false"
            ),
        ),
        (
            ("compression.type", SET, "zip"),
            (
                f"{BAD} zip {FOR} compression.type: "
                "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
            ),
        ),
        (
            ("cleanup.policy", APPEND, "burn"),
            f"{BAD} burn {FOR} cleanup.policy: String must be one of: compact, delete",
        ),
        (("no.such.key", SET, "1"), "Unknown topic config name: no.such.key"),
        (("no.such.list", APPEND, "1"), "Unknown config name: no.such.list"),
        (("retention.ms", APPEND, "1"), f"{NO_LIST.format('append')}: retention.ms"),
        (("retention.ms", SUBTRACT, "1"), f"{NO_LIST.format('subtract')}: retention.ms"),
        (("max.compaction.lag.ms", SET, "3"), None),
    ],
)
async def test_values_are_refused_with_the_reason(lab: Lab, change: Any, reason: Any) -> None:
    changes = [change, ("min.compaction.lag.ms", SET, "2")]
    ((code, message),) = fate(await lab.increment((TOPIC, "t", changes)))
    if reason is None:
        assert code is ErrorCode.NONE
        return
    assert code is ErrorCode.INVALID_CONFIG
    assert message == reason
    assert await lab.store.topic_config("t") == {}
    assert await lab.store.config_changes() == []


async def test_settings_that_contradict_each_other(lab: Lab) -> None:
    lags = {"min.compaction.lag.ms": "3", "max.compaction.lag.ms": "2"}
    ((code, message),) = fate(await lab.alter((TOPIC, "t", lags)))
    assert code is ErrorCode.INVALID_CONFIG
    wanted = "min.compaction.lag.ms (3) > max.compaction.lag.ms (2)"
    assert message == f"conflict topic config setting {wanted}"


async def test_each_resource_has_its_own_fate(lab: Lab) -> None:
    asked: list[Any] = [
        (TOPIC, "t", {"retention.ms": "5"}),
        (TOPIC, "nope", {}),
        (TOPIC, "", {}),
        (BROKER, "2", {}),
        (BROKER, "one", {}),
        (BROKER, "1", {"broker.id": "7"}),
        (BROKER, "1", {}),
        (LOGGER, "1", {"root": "DEBUG"}),
        (0, "x", {}),
    ]
    answers = await lab.alter(*asked)
    assert [(a.resource_type, a.resource_name) for a in answers] == [(k, n) for k, n, _ in asked]
    bad = ErrorCode.INVALID_REQUEST
    assert fate(answers) == [
        (ErrorCode.NONE, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (bad, "Default topic resources are not allowed."),
        (bad, "Unexpected broker id, expected 1, but received 2"),
        (bad, "Node id must be an integer, but it is: one"),
        (bad, "Each resource must appear at most once."),
        (bad, "Each resource must appear at most once."),
        (bad, "Unknown resource type 8"),
        (bad, "Unknown resource type 0"),
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("retention.ms", SET, None)], "Null value not supported for : retention.ms"),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], "duplicate config keys"),
        ([("retention.ms", 9, "1")], "Unknown operations type 9"),
    ],
)
async def test_requests_that_make_no_sense(lab: Lab, changes: Any, reason: str) -> None:
    ((code, message),) = fate(await lab.increment((TOPIC, "t", changes)))
    assert code is ErrorCode.INVALID_REQUEST
    assert reason in str(message)


async def test_levels_of_loggers_are_described_and_altered(lab: Lab) -> None:
    before = structlog.get_config()
    try:
        changes = [("controller", SET, "ERROR")]
        asked: Any = ((LOGGER, "1", changes), (LOGGER, "2", changes), (LOGGER, "", []))
        answers = await lab.increment(*asked)
        assert [code for code, _ in fate(answers)] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        entry = (await lab.describe(LOGGER, "1"))["controller"]
        assert (entry.value, entry.config_source, entry.config_type) == ("ERROR", 6, 0)
        assert (entry.read_only, entry.is_sensitive, entry.documentation) == (False, False, None)
        twice = await lab.increment((LOGGER, "1", [("root", SET, None), ("node", SET, "INFO")]))
        assert fate(twice) == [(ErrorCode.INVALID_REQUEST, "Null value not supported for : root")]
    finally:
        structlog.configure(**before)


async def test_only_validated(lab: Lab) -> None:
    good, bad = {"retention.ms": "5"}, {"retention.ms": "x"}
    assert fate(await lab.alter((TOPIC, "t", good), validate_only=True)) == [(ErrorCode.NONE, None)]
    ((code, _),) = fate(await lab.alter((TOPIC, "t", bad), validate_only=True))
    assert code is ErrorCode.INVALID_CONFIG
    answers = await lab.increment((BROKER, "1", [("broker.id", SET, "2")]), validate_only=True)
    assert fate(answers)[0][0] is ErrorCode.INVALID_REQUEST
    assert await lab.store.topic_config("t") == {}


async def test_only_dynamic_broker_configs_can_be_altered(lab: Lab) -> None:
    own = {"log.retention.ms": "5", "num.io.threads": "3"}
    everywhere = {"leader.replication.throttled.rate": "1000"}
    answers = await lab.alter((BROKER, "1", own), (BROKER, "", everywhere))
    assert fate(answers) == [(ErrorCode.NONE, None)] * 2
    assert await lab.store.entity_config("brokers", "1") == own
    assert await lab.store.entity_config("brokers", "<default>") == everywhere
    notices = await lab.store.config_change_notices(await lab.store.config_changes())
    assert [n.entity_path for n in notices] == ["brokers/1", "brokers/<default>"]
    for fixed in ("broker.id", "log.dirs", "log.roll.hours", "super.users", "node.id"):
        ((code, message),) = fate(await lab.alter((BROKER, "", {fixed: "1"})))
        assert code is ErrorCode.INVALID_REQUEST
        assert message == f"Cannot update these configs dynamically: Set({fixed})"
    ((code, message),) = fate(await lab.alter((BROKER, "1", {"log.segment.bytes": "x"})))
    assert code is ErrorCode.INVALID_REQUEST
    wanted = "Invalid value x for configuration log.segment.bytes: Not a number of type INT"
    assert message == wanted


@pytest.mark.parametrize("name", ["1", ""])
async def test_custom_keys_are_stored_and_described_without_their_values(
    lab: Lab, name: str
) -> None:
    """As in Kafka: deployments set keys of other vendors."""
    given = {"confluent.balancer.enable": "true", "log.retention.ms": "-2"}
    assert fate(await lab.alter((BROKER, name, given))) == [(ErrorCode.NONE, None)]
    changes = [("my.own.key", SET, "secret"), ("log.retention.ms", DELETE, None)]
    assert fate(await lab.increment((BROKER, name, changes))) == [(ErrorCode.NONE, None)]
    after = {"confluent.balancer.enable": "true", "my.own.key": "secret"}
    assert await lab.store.entity_config("brokers", name or "<default>") == after
    before = lab.dynamic.current
    lab.dynamic.update(*((after, {}) if name == "" else ({}, after)))
    assert lab.dynamic.current.given == before.given
    for described in {"1", name}:
        entry = (await lab.describe(BROKER, described))["my.own.key"]
        assert (entry.value, entry.is_sensitive, entry.read_only) == (None, True, True)
        assert entry.config_source == (2 if name else 3)
        assert [(s.value, s.source) for s in entry.synonyms] == [(None, entry.config_source)]


async def test_a_negative_retention_is_unlimited(lab: Lab) -> None:
    given = {"log.retention.ms": "-2", "log.retention.bytes": "-7"}
    assert fate(await lab.alter((BROKER, "", given))) == [(ErrorCode.NONE, None)]
    lab.dynamic.update(given, {})
    found = await lab.describe(TOPIC, "t")
    assert (found["retention.ms"].value, found["retention.bytes"].value) == ("-1", "-7")
    ((code, message),) = fate(await lab.alter((BROKER, "", {"log.retention.ms": "0"})))
    assert code is ErrorCode.INVALID_REQUEST
    assert message == "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"


async def test_a_stored_setting_that_is_invalid_does_not_stop_the_next_change(lab: Lab) -> None:
    stored = {"broker.id": "4", "max.connections": "many", "log.segment.bytes": "1000"}
    await lab.store.change_entity_config("brokers", "<default>", stored, None)
    changes = [("num.io.threads", SET, "3")]
    assert fate(await lab.increment((BROKER, "", changes))) == [(ErrorCode.NONE, None)]
    after = {"log.segment.bytes": "1000", "num.io.threads": "3"}
    assert await lab.store.entity_config("brokers", "<default>") == after


async def test_concurrent_alterations_are_not_lost(lab: Lab) -> None:
    session = lab.store.session
    written = session.multi

    async def slow(ops: Any) -> Any:
        if isinstance(ops[0], SetOp) or "config" in ops[0].path:
            await asyncio.sleep(0)  # everybody has read by now
        return await written(ops)

    session.multi = slow
    keys = ["retention.ms", "segment.bytes", "max.message.bytes", "flush.ms"]
    async with asyncio.TaskGroup() as tasks:
        for key in keys:
            tasks.create_task(lab.increment((TOPIC, "t", [(key, SET, "1000")])))
    assert sorted(await lab.store.topic_config("t")) == sorted(keys)


async def test_zookeeper_away_is_an_error_of_the_server(lab: Lab) -> None:
    async def away(*_: object) -> Any:
        raise ConnectionLost("/config")

    lab.store.change_entity_config = away
    ((code, message),) = fate(await lab.alter((TOPIC, "t", {})))
    assert code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ZooKeeper" in str(message)


# ------------------------------------------------------------------------------------- described


async def test_where_a_broker_s_values_come_from(lab: Lab) -> None:
    lab.dynamic.update(
        {"log.segment.bytes": "2000", "log.roll.ms": "9", "max.connections": "5"},
        {"log.segment.bytes": "1000", "num.io.threads": "3"},
    )
    found = await lab.describe(BROKER, "1")
    segment = found["log.segment.bytes"]
    assert (segment.value, segment.config_source, segment.read_only) == ("1000", 2, False)
    assert [(s.value, s.source) for s in segment.synonyms] == [
        ("1000", 2), ("2000", 3), ("1073741824", 5),
    ]  # fmt: skip
    roll = found["log.roll.ms"]
    assert (roll.value, roll.config_source) == ("9", 3)
    assert [(s.name, s.source) for s in roll.synonyms] == [
        ("log.roll.ms", 3), ("log.roll.hours", 4), ("log.roll.hours", 5),
    ]  # fmt: skip
    assert (found["num.io.threads"].value, found["num.io.threads"].config_source) == ("3", 2)
    everywhere = await lab.describe(BROKER, "")
    assert {name: (e.value, e.config_source) for name, e in everywhere.items()} == {
        "log.segment.bytes": ("2000", 3),
        "log.roll.ms": ("9", 3),
        "max.connections": ("5", 3),
    }
    topic = (await lab.describe(TOPIC, "t"))["segment.bytes"]
    assert (topic.value, topic.config_source) == ("1000", 2)
    age = (await lab.describe(TOPIC, "t"))["segment.ms"]
    assert (age.value, age.config_source) == ("9", 3)


# --------------------------------------------------------------------------- dynamic config


def test_per_broker_config_overrides_the_default_and_listeners_are_notified() -> None:
    dynamic = DynamicBrokerConfig(
        BROKER_CONFIG.parse({"zookeeper.connect": "z:1", "max.connections": "9"})
    )
    told: list[tuple[int, int]] = []
    dynamic.on_change(
        lambda before, after: told.append(
            (before.integer("max.connections"), after.integer("max.connections"))
        )
    )
    dynamic.update({"max.connections": "8"}, {})
    dynamic.update({"max.connections": "8"}, {})
    dynamic.update({"max.connections": "8"}, {"max.connections": "7"})
    dynamic.update({}, {"max.connections": "7"})
    dynamic.update({}, {})
    assert told == [(9, 8), (8, 7), (7, 9)]
    assert dynamic.current.given == dynamic.static.given


def test_invalid_settings_written_by_other_tools_are_ignored() -> None:
    dynamic = DynamicBrokerConfig(BROKER_CONFIG.parse({"zookeeper.connect": "z:1"}))
    dynamic.update(
        {"max.connections": "many", "broker.id": "4", "min.insync.replicas": "2"},
        {"log.dirs": "/elsewhere"},
    )
    assert dynamic.current.integer("min.insync.replicas") == 2
    assert dynamic.current.integer("broker.id") == -1
    assert (dict(dynamic.cluster), dict(dynamic.own)) == ({"min.insync.replicas": "2"}, {})


def test_throttle_rates_come_from_the_broker_or_the_default_config() -> None:
    dynamic = DynamicBrokerConfig(BROKER_CONFIG.parse({"zookeeper.connect": "z:1"}))
    assert dynamic.run_time(LEADER_RATE) is None
    dynamic.update({LEADER_RATE: "9"}, {FOLLOWER_RATE: "-1"})
    assert dynamic.run_time(LEADER_RATE) == 9
    assert dynamic.run_time(FOLLOWER_RATE) is None  # of another tool, and wrong
    dynamic.update({LEADER_RATE: "9"}, {LEADER_RATE: "8"})
    assert dynamic.run_time(LEADER_RATE) == 8
