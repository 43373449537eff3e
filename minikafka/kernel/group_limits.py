"""The limits of a broker for times of groups, in its own configuration and in a group's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from minikafka.kernel.config import Config, InvalidConfiguration
from minikafka.kernel.group_settings import BROKER_KEYS, GROUP_CONFIG


class GroupRange(NamedTuple):
    """A key of a group, and the broker's keys for its least and its largest value."""

    key: str
    least: str
    largest: str

    @property
    def broker_key(self) -> str:
        """The broker's key that applies to groups for which this key is not set."""
        return BROKER_KEYS[self.key]


GROUP_RANGES: Final = (
    GroupRange(
        "consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    GroupRange(
        "consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    GroupRange(
        "share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    GroupRange(
        "share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    GroupRange(
        "streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    GroupRange(
        "streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    GroupRange(
        "share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
)
_KINDS: Final = ("consumer", "share", "streams")


def group_times_problem(values: Mapping[str, Any]) -> str | None:
    """Return why the times of groups do not go together in a broker's values; None if they do."""
    for each in GROUP_RANGES:
        key, least, largest = each.broker_key, each.least, each.largest
        if values[largest] < values[least]:
            return f"{largest} must be greater than or equal to {least}"
        if values[key] < values[least]:
            return f"{key} must be greater than or equal to {least}"
        if values[key] > values[largest]:
            return f"{key} must be less than or equal to {largest}"
    for kind in _KINDS:
        beat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if values[beat] >= values[session]:
            return f"{beat} must be less than {session}"
    return None


def group_values(given: Mapping[str, str], broker: Config) -> dict[str, Any]:
    """Return the values of a group with the settings ``given``; those of the broker for others.
    Raises ConfigError."""
    values = dict(GROUP_CONFIG.parse(given).values)
    values.update((k, broker.values[b]) for k, b in BROKER_KEYS.items() if k not in given)
    return values


def check_group(given: Mapping[str, str], broker: Config) -> None:
    """Check the settings of a group against the limits of the broker (Kafka's ``GroupConfig``).
    Raises ConfigError."""
    for name in given:
        if name not in GROUP_CONFIG.settings:
            raise InvalidConfiguration(f"Unknown group config name: {name}")
    values = group_values(given, broker)
    for key, least, largest in GROUP_RANGES:
        if values[key] < broker.values[least]:
            raise InvalidConfiguration(f"{key} must be greater than or equal to {least}")
        if values[key] > broker.values[largest]:
            raise InvalidConfiguration(f"{key} must be less than or equal to {largest}")
    standbys, most = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if values[standbys] > broker.values[most]:
        raise InvalidConfiguration(f"{standbys} must be less than or equal to {most}")
    for kind in _KINDS:
        session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[beat]:
            raise InvalidConfiguration(f"{session} must be greater than {beat}")
