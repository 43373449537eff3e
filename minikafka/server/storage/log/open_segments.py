"""A bound on the open files of cold segments, over all logs of a broker.

A log that is kept for long may have more segments than a process may have open files. The active
segment of a log keeps its file open, since appends must not fail for lack of descriptors. All other
segments are cold: the least recently used ones close their files, and open them again when they are
read.

A cold segment may be closed before it was flushed. That loses no error: Linux reports an error of
writing back to the next descriptor that is flushed, also if it was opened later.

The bound is an eighth of the process's descriptors. A thread that reads has a copy of its
descriptor, so a segment may be closed meanwhile.
"""

from __future__ import annotations

import errno
from typing import Final, Protocol

from minikafka.kernel.ports import File, Files
from minikafka.server.storage.log.index_writes import IndexWrites

UNLIMITED: Final = 2**62
_OUT_OF_DESCRIPTORS: Final = {errno.EMFILE, errno.ENFILE}


class ColdSegment(Protocol):
    """A segment that can close its file and open it again (``LogSegment``)."""

    def let_go(self) -> None:
        """Close the file. Its next use opens it again."""
        ...


class OpenSegments:
    """The cold segments whose files are open: at most ``max_open``, one at least.

    ``index_writes`` is for all open segments, the active ones too."""

    def __init__(self, max_open: int = UNLIMITED) -> None:
        self._max_open = max(1, max_open)
        self._segments: dict[ColdSegment, None] = {}  # the least recently used one first
        self.reopened = 0
        self.index_writes = IndexWrites()

    def __len__(self) -> int:
        return len(self._segments)

    def use(self, segment: ColdSegment) -> None:
        """Make an open segment the most recently used one, and close the file of another if there
        are too many."""
        self._segments.pop(segment, None)
        self._segments[segment] = None
        if len(self._segments) > self._max_open:
            self._close_one()

    def forget(self, segment: ColdSegment) -> None:
        """No longer count a segment that has become active or was closed for good."""
        self._segments.pop(segment, None)

    def open(self, files: Files, path: str, create: bool = False) -> File:
        """Open a file. If there is no descriptor for it, close those of cold segments. Raises
        OSError."""
        while True:
            try:
                return files.open(path, create)
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS or not self._segments:
                    raise
                self._close_one()

    def reopen(self, files: Files, path: str) -> File:
        """Open the file of a segment again, which ``let_go`` has closed. Raises OSError."""
        file = self.open(files, path)
        self.reopened += 1
        return file

    def _close_one(self) -> None:
        oldest = next(iter(self._segments))
        del self._segments[oldest]
        oldest.let_go()
