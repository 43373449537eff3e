"""The checkpoints of a pipeline's flows: their folders, and their contents read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.read.offsets import Offsets, TopicIds, offsets_of, topic_ids_in
from minikafka.spark.read.planning import without_recreated

ROOT: Final = "_checkpoints"
_RATE_WINDOW_MS: Final = 60_000
_NO_OFFSETS: Final = "-"  # in Spark's offset log: the source has not read anything yet


@dataclass(frozen=True)
class Checkpoint:
    """The progress of a flow.

    ``batch`` is the number of the last completed batch, ``planned`` that of the last started one;
    both are -1 before the first. ``sources`` has the next offsets to read after ``batch``, for each
    source that reads topics, ``topic_ids`` the ids of these topics as far as they are known;
    ``offsets_per_s`` how many were read in a second, on average over the batches of the last minute
    before ``batch``."""

    target: str
    flow: str
    query_id: str
    batch: int = -1
    planned: int = -1
    at_ms: int | None = None
    watermark_ms: int | None = None
    sources: tuple[Offsets, ...] = ()
    topic_ids: TopicIds = field(default_factory=dict)
    offsets_per_s: Mapping[TopicPartition, float] = field(default_factory=dict)


def checkpoint_folder(storage: str, target: Iterable[str], flow: str) -> str:
    """Return the folder of a flow's checkpoints, which has a numbered folder per full refresh.

    ``target`` is the name of a sink, or the catalog, database and name of a table. The folder is
    the one that spark-pipelines uses, so that a triggered and a continuous run continue each
    other."""
    return "/".join([storage, ROOT, *target, flow])


def find_checkpoints(storage: Path) -> Iterator[Checkpoint]:
    """Yield the newest checkpoint of each flow.

    Raises OSError if a file cannot be read, ValueError if Spark did not write it."""
    root = storage / ROOT
    newest: dict[Path, int] = {}
    for metadata in sorted(root.glob("**/metadata")):
        folder = metadata.parent
        if folder.name.isdecimal() and metadata.is_file():
            number = int(folder.name)
            newest[folder.parent] = max(number, newest.get(folder.parent, number))
    for flow, number in newest.items():
        target = flow.parent.relative_to(root)
        yield read_checkpoint(flow / str(number), ".".join(target.parts), flow.name)


def read_checkpoint(folder: Path, target: str, flow: str) -> Checkpoint:
    """Read the checkpoint in a numbered folder.

    Raises OSError if a file cannot be read, ValueError if Spark did not write it."""
    query_id = json.loads((folder / "metadata").read_text())["id"]
    planned, batch = (_last_batch(folder / log) for log in ("offsets", "commits"))
    if batch < 0:
        return Checkpoint(target, flow, query_id, planned=planned)
    header, sources, topic_ids = _planned_offsets(folder, batch)
    return Checkpoint(
        target=target,
        flow=flow,
        query_id=query_id,
        batch=batch,
        planned=planned,
        at_ms=header.get("batchTimestampMs"),
        watermark_ms=header.get("batchWatermarkMs") or None,
        sources=sources,
        topic_ids=topic_ids,
        offsets_per_s=_rates(folder, batch),
    )


def remove_unfinished_first_offsets(storage: Path) -> None:
    """Remove the temporary files that a run left which was killed while Spark wrote the offsets of
    a flow's first batch. The caller holds the lock of the storage.

    Spark writes the offsets of a batch to a temporary file, renames it, and only then runs the
    batch. If there are no offsets of any batch, Spark 4.1 and newer refuse a checkpoint that has
    files in ``offsets``, ``state`` or ``commits``, so that a query does not continue the state of
    another one. They count the temporary file, too. Raises OSError if it cannot be removed."""
    for offsets in (storage / ROOT).glob("**/offsets"):
        if _last_batch(offsets) < 0:
            for unfinished in [*offsets.glob(".0.*.tmp"), *offsets.glob("..0.*.tmp.crc")]:
                unfinished.unlink()


class _PlannedOffsets(NamedTuple):
    """The header of a batch, and the end offsets and topic ids of its sources that read topics."""

    header: dict[str, Any]
    sources: tuple[Offsets, ...]
    topic_ids: TopicIds


def _planned_offsets(folder: Path, batch: int) -> _PlannedOffsets:
    _version, header, *lines = (folder / "offsets" / str(batch)).read_text().splitlines()
    sources = [read for line in lines if (read := _topic_source(line))]
    topic_ids = {topic: each for source in sources for topic, each in topic_ids_in(source).items()}
    return _PlannedOffsets(json.loads(header), tuple(map(offsets_of, sources)), topic_ids)


def _rates(folder: Path, last: int) -> dict[TopicPartition, float]:
    """Return how many offsets of each partition were read in a second, from the first batch of the
    last minute to the batch ``last``. Partitions of a topic that was created again meanwhile are
    left out, and all are if these are one batch."""
    header, sources, topic_ids = _planned_offsets(folder, last)
    at_ms = first_ms = header.get("batchTimestampMs", 0)
    earliest: tuple[Offsets, ...] = sources
    known = topic_ids
    for batch in range(last - 1, -1, -1):
        if not (folder / "offsets" / str(batch)).exists():
            break
        planned = _planned_offsets(folder, batch)
        if at_ms - planned.header.get("batchTimestampMs", 0) > _RATE_WINDOW_MS:
            break
        first_ms = planned.header.get("batchTimestampMs", 0)
        earliest, known = planned.sources, planned.topic_ids
    if first_ms == at_ms:
        return {}
    begun = {each: offset for source in earliest for each, offset in source.items()}
    begun = without_recreated(begun, known, topic_ids).start
    return {
        each: 1000 * (offset - begun[each]) / (at_ms - first_ms)
        for source in sources
        for each, offset in source.items()
        if each in begun
    }


def _last_batch(log: Path) -> int:
    """Return the number of the newest file of a log, -1 if there is none."""
    if not log.is_dir():
        return -1
    return max((int(each.name) for each in log.iterdir() if each.name.isdecimal()), default=-1)


def _topic_source(line: str) -> Mapping[str, Any]:
    """Return the offset JSON of a source that reads topics, an empty mapping for other sources."""
    if line == _NO_OFFSETS:
        return {}
    try:
        found: Mapping[str, Any] = json.loads(line)
        return found if offsets_of(found) else {}
    except (ValueError, AttributeError):
        return {}
