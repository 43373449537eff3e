"""Replaces segments by a cleaned segment, and finishes this after a crash.

    *.cleaned    is being written; the next start removes it
    *.swap       is complete and flushed; it replaces all segments that start within its offsets
    *.deleted    was replaced; the next start removes it

Each step renames one file, so after a crash the files are in a state between two steps. If there is
a ``.cleaned`` file, the renaming to ``.swap`` was not complete for the segment of that base offset.
Then ``.swap`` files with this or a higher base offset are removed, too; the segments that they
would have replaced still exist. Kafka: ``LocalLog.replaceSegments``,
``LogLoader.removeTempFilesAndCollectSwapFiles``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.core.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
    offset_of,
)
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Files
from minikafka.server.storage.log.batch_scan import scan
from minikafka.server.storage.log.segment import LogSegment, LogSegments

SWAP_SUFFIX: Final = ".swap"
_FILES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)


def swap_in(segments: LogSegments, cleaned: LogSegment, replaced: Sequence[LogSegment]) -> None:
    """Replace the adjacent segments ``replaced`` by ``cleaned``, whose files are flushed.

    The files of ``cleaned`` lose the suffix ``.cleaned``. Those of ``replaced`` get the suffix
    ``.deleted`` and stay open. Raises OSError: if the first step fails, ``cleaned`` is removed and
    nothing is replaced; if a later one fails, ``cleaned`` is in use, and the next start of the
    broker finishes the renaming.
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
    """Finish the swaps of complete cleaned segments, and remove incomplete and replaced segments.

    Call this before a file of the log is opened. Return True if a swap was finished. Raises
    OSError."""
    names = files.list(directory)
    lowest_cleaned = min(_offsets(names, CLEANED_SUFFIX), default=None)
    swaps: list[str] = []
    for name in names:
        offset = _offset(name, SWAP_SUFFIX)
        if offset is not None and (lowest_cleaned is None or offset < lowest_cleaned):
            swaps.append(name)
        elif name.endswith((DELETED_SUFFIX, SWAP_SUFFIX)):
            files.remove(f"{directory}/{name}")
    for name in names:  # last: after a crash here, .swap files above are still removed
        if name.endswith(CLEANED_SUFFIX):
            files.remove(f"{directory}/{name}")
    for offset in sorted(_offsets(swaps, LOG_SUFFIX + SWAP_SUFFIX)):
        _remove_replaced(files, directory, names, offset)
    for name in swaps:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return bool(swaps)


def _remove_replaced(files: Files, directory: str, names: Sequence[str], base_offset: int) -> None:
    """Remove the segments and producer snapshots that start within the cleaned segment."""
    end = _end_of(files, f"{directory}/{file_name(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}")
    for name in names:
        for suffix in (*INDEX_SUFFIXES, SNAPSHOT_SUFFIX, LOG_SUFFIX):
            offset = offset_of(name, suffix)
            inside = offset is not None and base_offset <= offset < max(end, base_offset + 1)
            if inside and not (suffix == SNAPSHOT_SUFFIX and offset == base_offset):
                files.remove(f"{directory}/{name}")


def _end_of(files: Files, path: str) -> int:
    """Return the offset after the last batch that can be read."""
    end = 0
    file = files.open(path)
    try:
        for found in scan(file, 0, file.size()):
            end = found.batch.next_offset
    except KafkaError:
        pass  # it was flushed before it was renamed, so the disk is damaged; recovery checks it
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
