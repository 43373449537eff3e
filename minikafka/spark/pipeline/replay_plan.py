"""The offsets that a replay reads, written down before it writes: a second run reads the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from minikafka.kernel.config import ConfigError
from minikafka.spark.cluster import Cluster
from minikafka.spark.options import ReadOptions, batch_options
from minikafka.spark.pipeline.replay_range import (
    ReplayRange,
    described,
    parse_range,
    without_range,
)
from minikafka.spark.read.offsets import offsets_json
from minikafka.spark.read.resolving import resolve

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class ReplayPlan:
    """Of one sink id. ``latest`` and times mean other offsets tomorrow, and a run that was cut
    short is only continued exactly if it reads what it read."""

    def __init__(self, file: Path, start: str, end: str) -> None:
        self._file = file
        self._about = {"from": start, "to": end}
        self._range: ReplayRange = parse_range(start, end)
        self._sources: dict[str, dict[str, Any]] = {}

    @classmethod
    def of(cls, folder: Path, sink_id: str, start: str, end: str) -> ReplayPlan:
        """Raises ConfigError: for what cannot be read, and for a sink id that is known with
        another range."""
        check_sink_id(sink_id)
        plan = cls(folder / f"{sink_id}.json", start, end)
        if plan._file.exists():
            known = json.loads(plan._file.read_text())
            plan._sources = known.pop("sources")
            if known != plan._about:
                raise ConfigError(
                    f"--sink-id {sink_id} is a replay --from {known['from']} --to {known['to']}: "
                    "another range needs another id"
                )
        return plan

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        """Those of a batch reader, for a source that a stream's options describe. Raises
        ConfigError, OptionError, KafkaError, ValueError, OSError."""
        kept = without_range(given)
        probe = batch_options(kept)
        options = batch_options(kept | self._range.options(probe.subscription))
        key = f"{described(probe.subscription)} at {_servers(probe)}"
        if key not in self._sources:
            self._sources[key] = _resolved(options)
            self._save()
        found = self._sources[key]
        return kept | {
            "startingoffsets": json.dumps(found["start"]),
            "endingoffsets": json.dumps(found["end"]),
        }

    def records(self) -> int:
        """How many offsets all sources have to read."""
        return sum(
            end - found["start"][topic][number]
            for found in self._sources.values()
            for topic, ends in found["end"].items()
            for number, end in ends.items()
        )

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps({**self._about, "sources": self._sources}, indent=2))
        draft.replace(self._file)


def check_sink_id(sink_id: str) -> None:
    """Raises ConfigError."""
    if not _NAME.fullmatch(sink_id):
        raise ConfigError(f"--sink-id {sink_id}: letters, digits, dots, dashes, underscores")


def _servers(options: ReadOptions) -> str:
    return ",".join(f"{host}:{port}" for host, port in options.client.bootstrap_servers)


def _resolved(options: ReadOptions) -> dict[str, Any]:
    """By partition, the first offset to read and that after the last."""
    with Cluster(options.client) as cluster:
        partitions = cluster.partitions(options.subscription)
        start = resolve(cluster, options.starting, partitions, True, options.no_match_is_latest)
        end = resolve(cluster, options.ending, partitions, False)
    end = {each: max(offset, start[each]) for each, offset in end.items()}
    return {"start": offsets_json(start), "end": offsets_json(end)}
