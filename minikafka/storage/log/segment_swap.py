"""Putting a cleaned segment in the place of others, and finishing that after a crash.

    *.cleaned    being written: removed at the next start
    *.swap       complete and on disk: takes the place of all segments that start within it
    *.deleted    replaced: removed at the next start

Each step renames one file, so a crash leaves one of the states between. A ``.swap`` at or above a
``.cleaned`` has not got all its files yet and goes too: the segments it stands for are all there.
Kafka: ``LocalLog.replaceSegments``, ``LogLoader.removeTempFilesAndCollectSwapFiles``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Files
from minikafka.storage.log.batch_scan import scan
from minikafka.storage.log.segment import LogSegment, LogSegments
from minikafka.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
    offset_of,
)

SWAP_SUFFIX: Final = ".swap"
_FILES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)


def swap_in(segments: LogSegments, cleaned: LogSegment, replaced: Sequence[LogSegment]) -> None:
    """Let ``cleaned``, whose files are flushed and end in ``.cleaned``, take the place of
    neighbours. Theirs end in ``.deleted`` then, and are still open.

    Raises OSError; with the first step undone if it was that one, else with the new segment in
    place and files left under names from which the next start will find the same.
    """
    try:
        cleaned.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
    except OSError:
        cleaned.remove()
        raise
    segments.replace(replaced, cleaned)
    for segment in replaced:
        segment.change_suffix("", DELETED_SUFFIX)
    cleaned.change_suffix(SWAP_SUFFIX, "")


def finish_swaps(files: Files, directory: str) -> bool:
    """Remove what was not finished, finish what was, remove what was replaced; True if a swap was
    finished. To be called before any file of the log is opened. Raises OSError."""
    names = files.list(directory)
    lowest_cleaned = min(_offsets(names, CLEANED_SUFFIX), default=None)
    swaps: list[str] = []
    for name in names:
        offset = _offset(name, SWAP_SUFFIX)
        if offset is not None and (lowest_cleaned is None or offset < lowest_cleaned):
            swaps.append(name)
        elif name.endswith((DELETED_SUFFIX, SWAP_SUFFIX)):
            files.remove(f"{directory}/{name}")
    for name in names:  # only now: as long as one is there, swaps above it are not believed
        if name.endswith(CLEANED_SUFFIX):
            files.remove(f"{directory}/{name}")
    for offset in sorted(_offsets(swaps, LOG_SUFFIX + SWAP_SUFFIX)):
        _remove_replaced(files, directory, names, offset)
    for name in swaps:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return bool(swaps)


def _remove_replaced(files: Files, directory: str, names: Sequence[str], base_offset: int) -> None:
    """Remove the segments, and producer snapshots, that lie within the swapped one."""
    end = _end_of(files, f"{directory}/{file_name(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}")
    for name in names:
        for suffix in (*INDEX_SUFFIXES, SNAPSHOT_SUFFIX, LOG_SUFFIX):
            offset = offset_of(name, suffix)
            inside = offset is not None and base_offset <= offset < max(end, base_offset + 1)
            if inside and not (suffix == SNAPSHOT_SUFFIX and offset == base_offset):
                files.remove(f"{directory}/{name}")


def _end_of(files: Files, path: str) -> int:
    """The offset after the last batch that can be read."""
    end = 0
    file = files.open(path)
    try:
        for found in scan(file, 0, file.size()):
            end = found.batch.next_offset
    except KafkaError:
        pass  # it was flushed before it got its name; recovery looks at what is left of it
    finally:
        file.close()
    return end


def _offset(name: str, suffix: str) -> int | None:
    for kind in _FILES:
        offset = offset_of(name, kind + suffix)
        if offset is not None:
            return offset
    return None


def _offsets(names: Sequence[str], suffix: str) -> list[int]:
    kinds = [suffix] if suffix.startswith(LOG_SUFFIX) else [kind + suffix for kind in _FILES]
    offsets = (offset_of(name, kind) for name in names for kind in kinds)
    return [offset for offset in offsets if offset is not None]
