"""The range of a replay, and the plan that fixes its offsets before the replay writes anything.

A user may give the range as times or as ``latest``, which mean other offsets at another time. A
replay that was interrupted can only be continued exactly if it reads the same records again. So the
plan resolves the range once for each source and keeps the offsets in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from minikafka.kernel.cluster import TopicPartition, parse_topic_id, topic_id_text
from minikafka.kernel.config import ConfigError
from minikafka.spark.cluster import Cluster
from minikafka.spark.options import ReadOptions, TopicSelection, batch_options
from minikafka.spark.read.offsets import Offsets, offsets_json, parse_offsets
from minikafka.spark.read.planning import without_recreated
from minikafka.spark.read.resolving import ending_offsets, starting_offsets

_SINK_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_EDGES: Final = ("earliest", "latest")
# Options for the range of a source, and for how much of it one batch of a stream reads.
_RANGE_OPTIONS: Final = re.compile(
    r"(starting|ending)(offsets.*|timestamp)|(max|min)offsetspertrigger|maxtriggerdelay"
)


@dataclass(frozen=True)
class ReplayRange:
    """The range of records to replay, ``end`` excluded.

    Each edge is ``earliest``, ``latest``, a time in ms, or offsets by partition."""

    start: str | int | Offsets
    end: str | int | Offsets

    def options(self, subscription: TopicSelection) -> dict[str, str]:
        """Return the options of a batch read for the part of the range in this subscription.

        Raises ConfigError if the range is given as offsets and has none for the subscription."""
        return {
            **_edge_options("starting", self.start, subscription),
            **_edge_options("ending", self.end, subscription),
            # If no record is as late as the start, begin at the end of the log: read nothing.
            "startingoffsetsbytimestampstrategy": "latest",
        }


def parse_range(start: str, end: str) -> ReplayRange:
    """Parse the values of ``--from`` and ``--to``. Raises ConfigError if one is invalid."""
    return ReplayRange(_parse_edge("--from", start), _parse_edge("--to", end))


def _parse_edge(option: str, text: str) -> str | int | Offsets:
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
            f"{option} {text}: expected a time (2024-05-01T00:00:00Z, or ms), offsets "
            '({"topic":{"0":23}}), earliest or latest'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _edge_options(
    name: str, value: str | int | Offsets, subscription: TopicSelection
) -> dict[str, str]:
    if isinstance(value, int):
        return {f"{name}timestamp": str(value)}
    if isinstance(value, str):
        return {f"{name}offsets": value}
    mine = {each: offset for each, offset in value.items() if _is_in(each, subscription)}
    if not mine:
        raise ConfigError(
            f"the range has no offsets for {source_text(subscription)}: add them to --from and --to"
        )
    return {f"{name}offsets": json.dumps(offsets_json(mine))}


def _is_in(each: TopicPartition, subscription: TopicSelection) -> bool:
    if subscription.partitions:
        return each in subscription.partitions
    if subscription.pattern:
        return re.fullmatch(subscription.pattern, each.topic) is not None
    return each.topic in subscription.topics


def source_text(subscription: TopicSelection) -> str:
    """Return what a source subscribes to as a short text, which identifies it in the plan."""
    if subscription.partitions:
        return ",".join(f"{each.topic}-{each.partition}" for each in subscription.partitions)
    return subscription.pattern or ",".join(subscription.topics)


def without_range(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that set a range. Their names may have any case."""
    return {k: v for k, v in options.items() if not _RANGE_OPTIONS.fullmatch(k.lower())}


class ReplayPlan:
    """The offsets that the replay with one sink id reads from each source."""

    def __init__(self, file: Path, start: str, end: str) -> None:
        self._file = file
        self._edges = {"from": start, "to": end}
        self._range: ReplayRange = parse_range(start, end)
        self._sources: dict[str, dict[str, Any]] = {}

    @classmethod
    def load(cls, folder: Path, sink_id: str, start: str, end: str) -> ReplayPlan:
        """Load the plan of a sink id from its file, or make an empty plan if there is no file.

        Raises ConfigError if the sink id or the range is invalid, or if the file has another
        range."""
        check_sink_id(sink_id)
        plan = cls(folder / f"{sink_id}.json", start, end)
        if plan._file.exists():
            saved = json.loads(plan._file.read_text())
            plan._sources = saved.pop("sources")
            if saved != plan._edges:
                raise ConfigError(
                    f"--sink-id {sink_id} is a replay --from {saved['from']} --to {saved['to']}: "
                    "another range needs another id"
                )
        return plan

    def options(self, stream_options: Mapping[str, str]) -> dict[str, str]:
        """Return the options of a batch reader for the source that a stream's options describe.

        Resolve the range for this source and save the offsets, unless the plan has them already.
        Raises ConfigError if the range has no offsets for the source, or if the plan has offsets of
        a topic that was created again since; ValueError (or OptionError) if an option is invalid;
        KafkaError if the brokers cannot be reached; OSError if the plan cannot be saved."""
        kept = without_range(stream_options)
        probe = batch_options(kept)
        options = batch_options(kept | self._range.options(probe.subscription))
        key = f"{source_text(probe.subscription)} at {_servers(probe)}"
        if key not in self._sources:
            self._sources[key] = _resolved_offsets(options)
            self._save()
        elif recreated := _recreated(options, self._sources[key].get("topic_ids", {})):
            raise ConfigError(
                f"{recreated[0]}. The replay --sink-id {self._file.stem} has offsets of the "
                "deleted topic: replay the new one with another id"
            )
        found = self._sources[key]
        return kept | {
            "startingoffsets": json.dumps(found["start"]),
            "endingoffsets": json.dumps(found["end"]),
        }

    def records(self) -> int:
        """Return the number of offsets in the ranges of all sources."""
        return sum(
            end - found["start"][topic][number]
            for found in self._sources.values()
            for topic, ends in found["end"].items()
            for number, end in ends.items()
        )

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps({**self._edges, "sources": self._sources}, indent=2))
        draft.replace(self._file)


def check_sink_id(sink_id: str) -> None:
    """Raise ConfigError if a sink id is invalid."""
    if not _SINK_ID.fullmatch(sink_id):
        raise ConfigError(
            f"--sink-id {sink_id}: must be 1 to 100 letters, digits, dots, dashes or underscores"
        )


def _servers(options: ReadOptions) -> str:
    return ",".join(f"{host}:{port}" for host, port in options.client.bootstrap_servers)


def _resolved_offsets(options: ReadOptions) -> dict[str, Any]:
    """Return the start and end offsets of the range by partition, the end excluded, and the ids of
    the topics."""
    with Cluster(options.client) as cluster:
        partitions = cluster.partitions(options.subscription)
        topic_ids = cluster.topic_ids({each.topic for each in partitions})
        start = starting_offsets(cluster, options, partitions)
        end = ending_offsets(cluster, options, partitions)
    end = {each: max(offset, start[each]) for each, offset in end.items()}
    return {
        "start": offsets_json(start),
        "end": offsets_json(end),
        "topic_ids": {topic: topic_id_text(each) for topic, each in topic_ids.items()},
    }


def _recreated(options: ReadOptions, saved: Mapping[str, str]) -> list[str]:
    """Return a message for each topic that has another id than the saved one."""
    known = {topic: parse_topic_id(text) for topic, text in saved.items()}
    if not known:
        return []
    with Cluster(options.client) as cluster:
        cluster.partitions_there(options.subscription, known_ids=known)
        return without_recreated({}, known, cluster.topic_ids(known)).losses
