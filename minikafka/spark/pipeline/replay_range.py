"""Which records a replay reads: what the user wrote, as options of the data source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.spark.options import Subscription
from minikafka.spark.read.offsets import Offsets, offsets_json, parse_offsets

_EDGES: Final = ("earliest", "latest")
# Options that say where a stream starts, or how much of it a batch takes.
_OF_STREAMS: Final = re.compile(
    r"(starting|ending)(offsets.*|timestamp)|(max|min)offsetspertrigger|maxtriggerdelay"
)


@dataclass(frozen=True)
class ReplayRange:
    """From the first record of ``start`` to the last before ``end``: each is ``earliest``,
    ``latest``, a time in ms, or offsets by partition."""

    start: str | int | Offsets
    end: str | int | Offsets

    def options(self, subscription: Subscription) -> dict[str, str]:
        """For one source, the options of a batch that reads its part. Raises ConfigError where
        offsets were given, and none for it."""
        return {
            **_edge("starting", self.start, subscription),
            **_edge("ending", self.end, subscription),
            "startingoffsetsbytimestampstrategy": "latest",  # nothing that young: nothing to read
        }


def parse_range(start: str, end: str) -> ReplayRange:
    """Raises ConfigError."""
    return ReplayRange(_parse("--from", start), _parse("--to", end))


def _parse(option: str, text: str) -> str | int | Offsets:
    text = text.strip()
    if text in _EDGES:
        return text
    if text.isdecimal():
        return int(text)
    try:
        if text.startswith("{"):
            return parse_offsets(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{option} {text}: a time (2024-05-01T00:00:00Z, or ms), offsets "
            '({"topic":{"0":23}}), earliest or latest is wanted'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _edge(name: str, value: str | int | Offsets, subscription: Subscription) -> dict[str, str]:
    if isinstance(value, int):
        return {f"{name}timestamp": str(value)}
    if isinstance(value, str):
        return {f"{name}offsets": value}
    mine = {each: offset for each, offset in value.items() if _is_in(each, subscription)}
    if not mine:
        raise ConfigError(f"the offsets given say nothing of {described(subscription)}")
    return {f"{name}offsets": json.dumps(offsets_json(mine))}


def _is_in(each: TopicPartition, subscription: Subscription) -> bool:
    if subscription.partitions:
        return each in subscription.partitions
    if subscription.pattern:
        return re.fullmatch(subscription.pattern, each.topic) is not None
    return each.topic in subscription.topics


def described(subscription: Subscription) -> str:
    """In one word: what a source reads."""
    if subscription.partitions:
        return ",".join(f"{each.topic}-{each.partition}" for each in subscription.partitions)
    return subscription.pattern or ",".join(subscription.topics)


def without_range(options: Mapping[str, str]) -> dict[str, str]:
    """The options (keys of any case) less those that a replay sets, or that are of streams."""
    return {k: v for k, v in options.items() if not _OF_STREAMS.fullmatch(k.lower())}
