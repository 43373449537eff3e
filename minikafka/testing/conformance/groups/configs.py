"""Settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import Subject, Topic, pause

DESCRIBE, ALTER = ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
RETENTION, POLICY = "retention.ms", "cleanup.policy"


async def _describe(
    s: Subject, name: str, keys: Sequence[str] | None = None, versions: int = 1, **fields: Any
) -> Any:
    row = {"resource_type": ResourceType.TOPIC, "resource_name": name, "configuration_keys": keys}
    return (await s.ask(DESCRIBE, versions, resources=[row], **fields)).results[0]


async def _value(s: Subject, topic: Topic, key: str) -> str | None:
    (row,) = accepted(await _describe(s, topic.name, [key])).configs
    value: str | None = row.value
    return value


async def _until(s: Subject, topic: Topic, key: str, value: str) -> None:
    """Wait until a setting has a value, which other brokers learn later."""
    while await _value(s, topic, key) != value:
        await pause()


async def _alter(s: Subject, name: str, *rows: tuple[str, int, str | None], **fields: Any) -> int:
    configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in rows]
    resource = {"resource_type": ResourceType.TOPIC, "resource_name": name, "configs": configs}
    response = await s.ask(ALTER, 0, await s.controller(), resources=[resource], **fields)
    return int(response.responses[0].error_code)


@check("KIP-133")
async def a_setting_of_a_topic_is_described(s: Subject) -> None:
    """A tool would show other settings than the topic has."""
    s.version(DESCRIBE, 1)
    topic = await s.topic(retention_ms=12345)
    (row,) = accepted(await _describe(s, topic.name, [RETENTION])).configs
    expect("name and value", (row.name, row.value), (RETENTION, "12345"))
    expect("the source", row.config_source, ConfigSource.DYNAMIC_TOPIC_CONFIG)


@check("KIP-133")
async def null_asks_for_all_settings(s: Subject) -> None:
    """A tool would show a topic without settings."""
    topic = await s.topic()
    found = {row.name for row in accepted(await _describe(s, topic.name)).configs}
    expected = {RETENTION, POLICY, "compression.type", "max.message.bytes", "min.insync.replicas"}
    expect("the list of missing settings", sorted(expected - found), [])


@check("KIP-133")
async def only_the_settings_that_were_named_are_described(s: Subject) -> None:
    """A tool would have to search."""
    topic = await s.topic()
    found = {
        row.name for row in accepted(await _describe(s, topic.name, [POLICY, RETENTION])).configs
    }
    expect("the settings", found, {POLICY, RETENTION})


@check("KIP-226")
async def a_setting_has_synonyms_on_request(s: Subject) -> None:
    """An operator could not see where a value comes from."""
    topic = await s.topic(retention_ms=12345)
    (row,) = accepted(await _describe(s, topic.name, [RETENTION])).configs
    expect("the synonyms that were not asked for", row.synonyms, [])
    described = await _describe(s, topic.name, [RETENTION], include_synonyms=True)
    (row,) = accepted(described).configs
    expect_true(bool(row.synonyms), "there are no synonyms")
    expect("the first synonym's value", row.synonyms[0].value, "12345")


@check("KIP-569")
async def a_setting_has_a_type_and_a_documentation(s: Subject) -> None:
    """A tool could not check a value before it sends it."""
    s.version(DESCRIBE, 3)
    topic = await s.topic()
    described = await _describe(s, topic.name, [RETENTION], 3, include_documentation=True)
    (row,) = accepted(described).configs
    expect("the type", row.config_type, 5)  # LONG
    expect_true(bool(row.documentation), "there is no documentation")


@check("KIP-133")
async def settings_of_an_unknown_topic_are_an_error(s: Subject) -> None:
    """A tool would show default settings of a misspelled topic."""
    found = (await _describe(s, s.name())).error_code
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("KIP-133")
async def settings_of_a_broker_are_described(s: Subject) -> None:
    """A tool could not compare brokers."""
    broker_id = next(iter(s.cluster.brokers))
    row = {
        "resource_type": ResourceType.BROKER,
        "resource_name": str(broker_id),
        "configuration_keys": ["log.retention.ms", "num.partitions"],
    }
    response = await s.ask(DESCRIBE, 1, await s.broker(broker_id), resources=[row])
    found = {each.name for each in accepted(response).results[0].configs}
    expect_true("num.partitions" in found, "num.partitions is missing")


@check("KIP-339")
async def a_setting_is_set_and_deleted(s: Subject) -> None:
    """A tool would change nothing, or could not go back to the default."""
    s.version(ALTER)
    topic = await s.topic()
    default = await _value(s, topic, RETENTION)
    set_it = (RETENTION, AlterOperation.SET, "4711")
    expect_error(await _alter(s, topic.name, set_it), ErrorCode.NONE)
    await _until(s, topic, RETENTION, "4711")
    expect_error(
        await _alter(s, topic.name, (RETENTION, AlterOperation.DELETE, None)), ErrorCode.NONE
    )
    await _until(s, topic, RETENTION, str(default))


@check("KIP-339")
async def other_settings_stay_as_they_are(s: Subject) -> None:
    """Two operators would undo each other's changes."""
    s.version(ALTER)
    topic = await s.topic(retention_ms=12345)
    change = ("max.message.bytes", AlterOperation.SET, "5000")
    expect_error(await _alter(s, topic.name, change), ErrorCode.NONE)
    await _until(s, topic, "max.message.bytes", "5000")
    expect("retention.ms", await _value(s, topic, RETENTION), "12345")


@check("KIP-339")
async def a_value_is_appended_to_and_removed_from_a_list(s: Subject) -> None:
    """A tool that adds a value would drop the others."""
    s.version(ALTER)
    topic = await s.topic(cleanup_policy="delete")
    append, subtract = (AlterOperation.APPEND, AlterOperation.SUBTRACT)
    expect_error(await _alter(s, topic.name, (POLICY, append, "compact")), ErrorCode.NONE)
    await _until(s, topic, POLICY, "delete,compact")
    expect_error(await _alter(s, topic.name, (POLICY, subtract, "delete")), ErrorCode.NONE)
    await _until(s, topic, POLICY, "compact")


@check("KIP-339")
async def nothing_is_appended_to_what_is_no_list(s: Subject) -> None:
    """A number would get a second number behind it."""
    s.version(ALTER)
    topic = await s.topic()
    change = (RETENTION, AlterOperation.APPEND, "1")
    expect_error(await _alter(s, topic.name, change), ErrorCode.INVALID_CONFIG)


@check("KIP-339")
async def an_invalid_value_is_refused(s: Subject) -> None:
    """A topic would have a setting that no broker can load."""
    s.version(ALTER)
    topic = await s.topic()
    for row in ((RETENTION, AlterOperation.SET, "soon"), ("no.such.key", AlterOperation.SET, "1")):
        expect_error(await _alter(s, topic.name, row), ErrorCode.INVALID_CONFIG)


@check("IncrementalAlterConfigs")
async def a_setting_that_is_named_twice_is_refused(s: Subject) -> None:
    """One of two contradicting wishes would be dropped."""
    s.version(ALTER)
    topic = await s.topic()
    rows = [(RETENTION, AlterOperation.SET, value) for value in ("1", "2")]
    expect_error(await _alter(s, topic.name, *rows), ErrorCode.INVALID_REQUEST)


@check("IncrementalAlterConfigs.validateOnly")
async def a_trial_changes_no_setting(s: Subject) -> None:
    """A dry run of a tool would change the cluster."""
    s.version(ALTER)
    topic = await s.topic(retention_ms=12345)
    change = (RETENTION, AlterOperation.SET, "1")
    expect_error(await _alter(s, topic.name, change, validate_only=True), ErrorCode.NONE)
    expect("retention.ms", await _value(s, topic, RETENTION), "12345")


@check("IncrementalAlterConfigs")
async def settings_of_an_unknown_topic_cannot_be_altered(s: Subject) -> None:
    """An operator would not notice a misspelled topic."""
    change = (RETENTION, AlterOperation.SET, "1")
    found = await _alter(s, s.name(), change)
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("KIP-133, AlterConfigs")
async def all_settings_are_replaced_by_AlterConfigs(s: Subject) -> None:
    """An old tool could not delete a setting."""
    s.version(ApiKey.ALTER_CONFIGS)
    topic = await s.topic(retention_ms=12345)
    rows = [{"name": "max.message.bytes", "value": "5000"}]
    names = {"resource_type": ResourceType.TOPIC, "resource_name": topic.name}
    resources = [{**names, "configs": rows}]
    accepted(await s.ask(ApiKey.ALTER_CONFIGS, 0, await s.controller(), resources=resources))
    await _until(s, topic, "max.message.bytes", "5000")
    expect_true(await _value(s, topic, RETENTION) != "12345", "retention.ms is still 12345")
