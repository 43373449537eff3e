"""The cache of topic configurations in ZooKeeper, and the effective settings of each topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from minikafka.core.log.config import NO_LIMIT, LogConfig
from minikafka.core.replication.quota import NO_REPLICAS, ThrottledReplicas
from minikafka.kernel.config import ConfigError, view_of
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.settings import TOPIC_CONFIG
from minikafka.kernel.slices import in_slices
from minikafka.server.zookeeper.requests import MalformedZnode


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective settings of one topic: its own settings over the broker's defaults."""

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
    """The configurations of the topics hosted by this broker.

    A topic that was never loaded has the broker's ``defaults``
    (``kernel.settings.topic_defaults``). Reads of one topic may overlap and may end in any order:
    the result of the read that began last is kept."""

    def __init__(
        self, read: ReadTopicConfigs, defaults: Mapping[str, Any], log: EventLog | None = None
    ) -> None:
        self._read = read
        self._defaults = defaults
        self._default = topic_config(defaults)
        self._given: dict[str, Mapping[str, str]] = {}
        self._known: dict[str, TopicConfig] = {}
        self._reads = 0
        self._open: dict[int, frozenset[str]] = {}  # topics being read, by number of the read
        self._kept: dict[str, int] = {}  # the last read that was kept, while any is open
        self._log = log or event_log("topic-config")

    async def load(self, topics: Iterable[str]) -> None:
        """Read the configurations that are not cached yet. Raises CoordinationError."""
        unknown = [topic for topic in topics if topic not in self._known]
        if unknown:
            await self.reload(unknown)

    async def reload(self, topics: Sequence[str]) -> None:
        """Read the configurations of ``topics``, cached or not. Raises CoordinationError."""
        self._reads += 1
        read = self._reads
        self._open[read] = frozenset(topics)
        try:
            found = await self._read_each(topics)
            async for topic in in_slices(topics):
                if self._kept.get(topic, 0) < read:
                    self._kept[topic] = read
                    self._given[topic] = found.get(topic, {})
                    self._known[topic] = self._effective(topic, self._given[topic])
        finally:
            del self._open[read]
            if not self._open:
                self._kept.clear()

    async def refresh(self, topics: Iterable[str]) -> list[str]:
        """Re-read those of ``topics`` that are cached or being read. Returns their names, sorted.
        Raises CoordinationError."""
        return await self._reload_if_any(self._in_use().intersection(topics))

    async def refresh_all(self) -> list[str]:
        """Re-read all topics that are cached or being read. Returns their names, sorted. Raises
        CoordinationError."""
        return await self._reload_if_any(self._in_use())

    def _in_use(self) -> set[str]:
        return self._known.keys() | frozenset().union(*self._open.values())

    async def _reload_if_any(self, topics: Iterable[str]) -> list[str]:
        names = sorted(topics)
        if names:
            await self.reload(names)
        return names

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Replace the broker's defaults, also under the topics cached already."""
        self._defaults = defaults
        self._default = topic_config(defaults)
        for topic, given in self._given.items():
            self._known[topic] = self._effective(topic, given)

    def given(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings as last read, without defaults."""
        return self._given.get(topic, {})

    async def _read_each(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Read the topics' own settings together; if a znode cannot be decoded, read each half. A
        topic whose znode is malformed is logged and has no settings."""
        try:
            return await self._read(topics)
        except MalformedZnode as error:
            if len(topics) == 1:
                self._log.warning("topic_settings_malformed", topic=topics[0], error=str(error))
                return {}
        half = len(topics) // 2
        return {**await self._read_each(topics[:half]), **await self._read_each(topics[half:])}

    def get(self, topic: str) -> TopicConfig:
        return self._known.get(topic, self._default)

    def forget(self, topic: str) -> None:
        """Remove a topic that is being deleted. Reads that have begun before are ignored, since a
        later topic may have the same name."""
        self._known.pop(topic, None)
        self._given.pop(topic, None)
        if self._open:
            self._kept[topic] = self._reads  # reads of the old topic do not count

    def _effective(self, topic: str, given: Mapping[str, str]) -> TopicConfig:
        """Merge the topic's own settings over the defaults. A value that cannot be parsed, which
        another tool may have written, is logged and ignored."""
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
