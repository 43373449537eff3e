"""The settings of topics as ZooKeeper holds them, kept after the first look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from minikafka.broker.topic_config import TopicConfig
from minikafka.core.log.config import LogConfig
from minikafka.kernel.config import ConfigError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.settings import TOPIC_CONFIG
from minikafka.zookeeper.errors import MalformedZnode

# Reads what is set for these topics: Kafka's keys and texts. Raises CoordinationError, and
# MalformedZnode when nobody can read that.
ReadTopicConfigs: TypeAlias = Callable[[Sequence[str]], Awaitable[Mapping[str, Mapping[str, str]]]]


def topic_config(settings: Mapping[str, Any]) -> TopicConfig:
    """From parsed values by Kafka's topic keys, of which all are given."""
    return TopicConfig(
        log=LogConfig(
            segment_bytes=settings["segment.bytes"],
            segment_ms=settings["segment.ms"],
            index_interval_bytes=settings["index.interval.bytes"],
            index_size_max_bytes=settings["segment.index.bytes"],
            max_message_bytes=settings["max.message.bytes"],
            message_timestamp_type=settings["message.timestamp.type"],
            message_timestamp_before_max_ms=settings["message.timestamp.before.max.ms"],
            message_timestamp_after_max_ms=settings["message.timestamp.after.max.ms"],
            compression_type=settings["compression.type"],
            cleanup_policy=",".join(settings["cleanup.policy"]),
            delete_retention_ms=settings["delete.retention.ms"],
            min_cleanable_dirty_ratio=settings["min.cleanable.dirty.ratio"],
            min_compaction_lag_ms=settings["min.compaction.lag.ms"],
            max_compaction_lag_ms=settings["max.compaction.lag.ms"],
            segment_jitter_ms=settings["segment.jitter.ms"],
            retention_ms=settings["retention.ms"],
            retention_bytes=settings["retention.bytes"],
            file_delete_delay_ms=settings["file.delete.delay.ms"],
            flush_messages=settings["flush.messages"],
            flush_ms=settings["flush.ms"],
        ),
        min_insync_replicas=settings["min.insync.replicas"],
    )


class TopicConfigCache:
    """A topic never loaded has the broker's ``defaults`` (``kernel.settings.topic_defaults``).

    Bounded by the topics that this broker hosts."""

    def __init__(
        self, read: ReadTopicConfigs, defaults: Mapping[str, Any], log: EventLog | None = None
    ) -> None:
        self._read = read
        self._defaults = defaults
        self._default = topic_config(defaults)
        self._known: dict[str, TopicConfig] = {}
        self._log = log or event_log("topic-config")

    async def load(self, topics: Iterable[str]) -> None:
        """Read those that are not known yet. Raises CoordinationError."""
        unknown = [topic for topic in topics if topic not in self._known]
        if unknown:
            await self.reload(unknown)

    async def reload(self, topics: Sequence[str]) -> None:
        """Read these, known or not. Raises CoordinationError."""
        found = await self._given(topics)
        for topic in topics:
            self._known[topic] = self._effective(topic, found.get(topic, {}))

    async def _given(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """What is set for these topics; one by one only where the whole cannot be read."""
        try:
            return await self._read(topics)
        except MalformedZnode as error:
            if len(topics) == 1:
                self._log.warning("topic_settings_garbled", topic=topics[0], error=str(error))
                return {}
        found: dict[str, Mapping[str, str]] = {}
        for topic in topics:
            found.update(await self._given([topic]))
        return found

    def get(self, topic: str) -> TopicConfig:
        return self._known.get(topic, self._default)

    def forget(self, topic: str) -> None:
        """A topic of that name that is made later has settings of its own."""
        self._known.pop(topic, None)

    def _effective(self, topic: str, given: Mapping[str, str]) -> TopicConfig:
        """The broker's settings under the topic's own. What another tool wrote and nobody can read
        is left at the broker's."""
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
