"""Topic configurations: a cache of the znodes, and the effective settings of each topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from minikafka.core.log.config import NO_LIMIT, LogConfig
from minikafka.core.replication.throttled_replicas import NO_REPLICAS, ThrottledReplicas
from minikafka.kernel.config import ConfigError, view_of
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.settings import TOPIC_CONFIG
from minikafka.zookeeper.errors import MalformedZnode


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective settings of one topic: its own, else the broker's."""

    log: LogConfig = field(default_factory=LogConfig)
    min_insync_replicas: int = 1
    leader_throttled: ThrottledReplicas = NO_REPLICAS
    follower_throttled: ThrottledReplicas = NO_REPLICAS


# Reads the keys and texts set for these topics. Raises CoordinationError, and MalformedZnode if a
# znode cannot be decoded.
ReadTopicConfigs: TypeAlias = Callable[[Sequence[str]], Awaitable[Mapping[str, Mapping[str, str]]]]


def topic_config(settings: Mapping[str, Any]) -> TopicConfig:
    """Make a ``TopicConfig`` from parsed values of all topic keys.

    Kafka 3.6 replaced ``message.timestamp.difference.max.ms`` by two keys; its value is used for
    each of them that has its default."""
    difference_ms = settings["message.timestamp.difference.max.ms"]
    before_ms = settings["message.timestamp.before.max.ms"]
    after_ms = settings["message.timestamp.after.max.ms"]
    return TopicConfig(
        log=view_of(
            LogConfig,
            settings,
            index_size_max_bytes=settings["segment.index.bytes"],
            message_timestamp_before_max_ms=difference_ms if before_ms == NO_LIMIT else before_ms,
            message_timestamp_after_max_ms=difference_ms if after_ms == NO_LIMIT else after_ms,
            cleanup_policy=",".join(settings["cleanup.policy"]),
        ),
        min_insync_replicas=settings["min.insync.replicas"],
        leader_throttled=ThrottledReplicas.parse(settings["leader.replication.throttled.replicas"]),
        follower_throttled=ThrottledReplicas.parse(
            settings["follower.replication.throttled.replicas"]
        ),
    )


class TopicConfigCache:
    """A topic never loaded has the broker's ``defaults`` (``kernel.settings.topic_defaults``).

    Bounded by the topics that this broker hosts. Reads of a topic may overlap: the result of the
    one that began last is kept, in whatever order they end."""

    def __init__(
        self, read: ReadTopicConfigs, defaults: Mapping[str, Any], log: EventLog | None = None
    ) -> None:
        self._read = read
        self._defaults = defaults
        self._default = topic_config(defaults)
        self._given: dict[str, Mapping[str, str]] = {}
        self._known: dict[str, TopicConfig] = {}
        self._asked = 0
        self._open: dict[int, frozenset[str]] = {}  # topics being read, by number of the read
        self._answered: dict[str, int] = {}  # the last read that was kept, while any is open
        self._log = log or event_log("topic-config")

    async def load(self, topics: Iterable[str]) -> None:
        """Read those that are not known yet. Raises CoordinationError."""
        unknown = [topic for topic in topics if topic not in self._known]
        if unknown:
            await self.reload(unknown)

    async def reload(self, topics: Sequence[str]) -> None:
        """Read these, known or not. Raises CoordinationError."""
        self._asked += 1
        asked = self._asked
        self._open[asked] = frozenset(topics)
        try:
            found = await self._read_each(topics)
            for topic in topics:
                if self._answered.get(topic, 0) < asked:
                    self._answered[topic] = asked
                    self._given[topic] = found.get(topic, {})
                    self._known[topic] = self._effective(topic, self._given[topic])
        finally:
            del self._open[asked]
            if not self._open:
                self._answered.clear()

    async def refresh(self, topics: Iterable[str]) -> list[str]:
        """Read those of ``topics`` again that are loaded or being loaded, and return them. Raises
        CoordinationError."""
        return await self._reload_if_any(self._in_use().intersection(topics))

    async def refresh_all(self) -> list[str]:
        """As ``refresh`` for all topics."""
        return await self._reload_if_any(self._in_use())

    def _in_use(self) -> set[str]:
        return self._known.keys() | frozenset().union(*self._open.values())

    async def _reload_if_any(self, topics: Iterable[str]) -> list[str]:
        wanted = sorted(topics)
        if wanted:
            await self.reload(wanted)
        return wanted

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Use new broker settings as defaults."""
        self._defaults = defaults
        self._default = topic_config(defaults)
        for topic, given in self._given.items():
            self._known[topic] = self._effective(topic, given)

    def given(self, topic: str) -> Mapping[str, str]:
        """The settings of the topic itself, without defaults, as last read."""
        return self._given.get(topic, {})

    async def _read_each(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """The settings of these topics, read one by one if a znode cannot be decoded."""
        try:
            return await self._read(topics)
        except MalformedZnode as error:
            if len(topics) == 1:
                self._log.warning("topic_settings_garbled", topic=topics[0], error=str(error))
                return {}
        found: dict[str, Mapping[str, str]] = {}
        for topic in topics:
            found.update(await self._read_each([topic]))
        return found

    def get(self, topic: str) -> TopicConfig:
        return self._known.get(topic, self._default)

    def forget(self, topic: str) -> None:
        """The topic is being deleted; a later one of that name is read again."""
        self._known.pop(topic, None)
        self._given.pop(topic, None)
        if self._open:
            self._answered[topic] = self._asked  # reads of the old topic do not count

    def _effective(self, topic: str, given: Mapping[str, str]) -> TopicConfig:
        """The topic's settings over the broker's. A value that cannot be parsed, which another tool
        may have written, is ignored."""
        settings = dict(self._defaults)
        for name, text in given.items():
            row = TOPIC_CONFIG.settings.get(name)
            if row is None:
                continue
            try:
                settings[name] = row.parse(text)
            except ConfigError as error:
                self._log.warning("topic_setting_ignored", topic=topic, error=str(error))
        return topic_config(settings)
