"""The checkpoints of a pipeline's flows: where they lie, and what they say. Plain files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minikafka.spark.read.offsets import Offsets, offsets_of

ROOT: Final = "_checkpoints"
_NOTHING_READ: Final = "-"  # of a source, in Spark's offset log


@dataclass(frozen=True)
class Checkpoint:
    """What is known of a flow. ``batch`` is the last one that is done, -1 before any; ``planned``
    the last one that was begun. ``offsets``: of each of its Kafka sources the next offset to read,
    by partition, when ``batch`` was done."""

    target: str
    flow: str
    query_id: str
    batch: int = -1
    planned: int = -1
    at_ms: int | None = None
    watermark_ms: int | None = None
    sources: tuple[Offsets, ...] = ()


def checkpoint_folder(storage: str, target: Iterable[str], flow: str) -> str:
    """Where spark-pipelines keeps the checkpoints of a flow, one numbered folder for each full
    refresh. The same place here: a run of either kind goes on where the last one was.

    ``target``: catalog, database and name of a table; the name of a sink."""
    return "/".join([storage, ROOT, *target, flow])


def find_checkpoints(storage: Path) -> Iterator[Checkpoint]:
    """The newest of each flow. Raises OSError."""
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
    """Raises OSError, ValueError for a file that Spark did not write so."""
    query_id = json.loads((folder / "metadata").read_text())["id"]
    planned, batch = (_last(folder / log) for log in ("offsets", "commits"))
    if batch < 0:
        return Checkpoint(target, flow, query_id, planned=planned)
    _version, header, *sources = (folder / "offsets" / str(batch)).read_text().splitlines()
    about = json.loads(header)
    return Checkpoint(
        target=target,
        flow=flow,
        query_id=query_id,
        batch=batch,
        planned=planned,
        at_ms=about.get("batchTimestampMs"),
        watermark_ms=about.get("batchWatermarkMs") or None,
        sources=tuple(offsets for line in sources if (offsets := _kafka(line))),
    )


def _last(log: Path) -> int:
    if not log.is_dir():
        return -1
    return max((int(each.name) for each in log.iterdir() if each.name.isdecimal()), default=-1)


def _kafka(line: str) -> Offsets:
    """Nothing for sources of other kinds."""
    if line == _NOTHING_READ:
        return {}
    try:
        return offsets_of(json.loads(line))
    except (ValueError, AttributeError):
        return {}
