"""What several fetches of one turn of the loop want alike: read from the file once."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from minikafka.storage.log.reader import LogRead
from minikafka.storage.log.unified_log import UnifiedLog

# Where from, how much, up to where, whether the first batch is always whole, whether aborted
# transactions are wanted; and what would have to be the same for the answer to be.
_Key: TypeAlias = tuple[int, int, int, bool, bool, int, int]


class SharedReads:
    """Followers at the same offset wait for the same records, and so do consumers. The last read is
    kept until the turn is over, in which it was made."""

    def __init__(self) -> None:
        self._log: UnifiedLog | None = None
        self._key: _Key | None = None
        self._read: LogRead | None = None

    def read(
        self,
        log: UnifiedLog,
        offset: int,
        max_bytes: int,
        upper_bound: int,
        first_always: bool,
        committed: bool,
        may_wait: bool,
    ) -> LogRead:
        """As ``UnifiedLog.read``."""
        start, cuts = log.log_start_offset, log.cuts
        key = (offset, max_bytes, upper_bound, first_always, committed, start, cuts)
        known = self._read
        if known is not None and self._log is log and self._key == key:
            return known
        read = log.read(offset, max_bytes, upper_bound, first_always, committed, may_wait)
        if read.records:
            if known is None:
                asyncio.get_running_loop().call_soon(self._forget)
            self._log, self._key, self._read = log, key, read
        return read

    def _forget(self) -> None:
        self._log = self._key = self._read = None
