"""A broker's configuration while it runs: what it was started with, and what was altered since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from minikafka.kernel.config import Config, ConfigDef, ConfigError
from minikafka.kernel.dynamic_settings import DYNAMIC_CONFIG, is_dynamic
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.settings import BROKER_CONFIG

# Hears of a change: the configuration before and after it.
Reconfigure: TypeAlias = Callable[[Config, Config], None]


class DynamicBrokerConfig:
    """Kafka's ``DynamicBrokerConfig``. What counts, first found: the broker's own dynamic setting
    (/config/brokers/<id>), the cluster's (/config/brokers/<default>), the file's, the default.

    ``current`` is the sum of it. What other tools wrote and this broker cannot take is left out,
    with a line in the log.
    """

    def __init__(
        self, static: Config, broker_def: ConfigDef = BROKER_CONFIG, log: EventLog | None = None
    ) -> None:
        self.static = static
        self.current = static
        self.cluster: Mapping[str, str] = MappingProxyType({})
        self.own: Mapping[str, str] = MappingProxyType({})
        self._broker_def = broker_def
        self._listeners: list[Reconfigure] = []
        self._log = log or event_log("dynamic-config")

    def on_change(self, listener: Reconfigure) -> None:
        """Called in order, after ``current`` is the new one."""
        self._listeners.append(listener)

    def check(self, given: Mapping[str, str], per_broker: bool) -> None:
        """Whether a broker (or with ``per_broker`` false, all of them) may be configured so.

        Raises KafkaError INVALID_REQUEST, which is what Kafka says of brokers, though it says
        INVALID_CONFIG of topics (KAFKA-13609).
        """
        fixed = sorted(name for name in given if not is_dynamic(name))
        if fixed:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs dynamically: Set({', '.join(fixed)})",
            )
        try:
            for name, text in given.items():
                _check(name, text)
            cluster, own = (self.cluster, given) if per_broker else (given, self.own)
            self._merge(cluster, own)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error

    def update(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """ZooKeeper has these two now."""
        before = self.current
        self.cluster = MappingProxyType(self._readable(cluster, "cluster"))
        self.own = MappingProxyType(self._readable(own, "broker"))
        self.current = self._merge(self.cluster, self.own)
        if self.current.given == before.given:
            return
        changed = {
            name
            for name in before.given.keys() | self.current.given.keys()
            if before.given.get(name) != self.current.given.get(name)
        }
        self._log.info("reconfigured", keys=sorted(changed))
        for listener in self._listeners:
            listener(before, self.current)

    def run_time(self, name: str) -> int | None:
        """One of ``RUN_TIME_SETTINGS``; None while it is not set."""
        text = self.own.get(name, self.cluster.get(name))
        return None if text is None else int(DYNAMIC_CONFIG.settings[name].parse(text))

    def _merge(self, *layers: Mapping[str, str]) -> Config:
        """Raises ConfigError."""
        given = dict(self.static.given)
        for layer in layers:
            given |= {name: text for name, text in layer.items() if self._has(name)}
        return self._broker_def.parse(given)

    def _has(self, name: str) -> bool:
        """Not so for what exists at run time only: the file's rows know nothing of it."""
        return name in self._broker_def.settings or name in self._broker_def.ignored

    def _readable(self, given: Mapping[str, str], source: str) -> dict[str, str]:
        taken = {}
        for name, text in given.items():
            try:
                if not is_dynamic(name):
                    raise ConfigError(f"{name} cannot be changed while a broker runs")
                _check(name, text)
            except ConfigError as error:
                self._log.error("dynamic_setting_ignored", source=source, reason=str(error))
            else:
                taken[name] = text
        return taken


def _check(name: str, text: str) -> None:
    """Raises ConfigError."""
    row = DYNAMIC_CONFIG.settings.get(name)
    if row is not None:
        row.parse(text)


def changed(before: Config, after: Config, names: Iterable[str]) -> bool:
    """Whether one of these settings has another value now."""
    return any(before.values.get(name) != after.values.get(name) for name in names)
