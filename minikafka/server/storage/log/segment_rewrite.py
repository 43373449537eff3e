"""Rewrites sealed segments of a log: the cleaner does it, and the repair of damaged batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from minikafka.core.log.names import CLEANED_SUFFIX
from minikafka.kernel.ports import Files
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog


async def rewrite_segments(
    files: Files,
    log: UnifiedLog,
    group: Sequence[LogSegment],
    write: Callable[[LogSegment], Awaitable[None]],
    check: Callable[[], None],
) -> None:
    """Replace the adjacent segments ``group`` by one that ``write`` fills.

    ``check`` raises an exception if the log no longer has these segments. Only one rewrite of a log
    may run at a time, since the file of the new segment has the name of the first one. After a
    crash the log has either the old segments or the new one. Raises OSError and what ``write`` and
    ``check`` raise; the log is then unchanged, unless the error came after the swap."""
    check()
    written = LogSegment(
        files,
        log.directory,
        group[0].base_offset,
        log.config,
        log.open_segments,
        CLEANED_SUFFIX,
    )
    written.create()
    in_place = False
    try:
        await write(written)
        written.persist()
        await written.flush()
        written.deactivate()
        check()
        in_place = True
        log.replace_segments(written, group)
    finally:
        if not in_place and not log.closed:
            written.remove()
        elif not in_place:
            written.close()  # the log was closed, and its directory may have been renamed
    for segment in group[1:]:
        log.producers.remove_snapshot(segment.base_offset)
    await files.flush_directory(log.directory)
    for segment in group:
        log.remove_later(segment)
