"""Reads of sealed segments at a limited rate."""

from __future__ import annotations

from typing import Final

from minikafka.core.log.scrubbing import ScrubPace
from minikafka.kernel.ports import Clock
from minikafka.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, parse_batch
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog

_CHUNK_BYTES: Final = 256 * 1024


def is_sealed(log: UnifiedLog, segment: LogSegment) -> bool:
    """Whether ``segment`` is still a sealed segment of the log."""
    return not log.closed and log.segments.holds([segment]) and log.segments.active is not segment


class PacedReads:
    """Reads chunks of sealed segments, and waits after each as long as the rate requires."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self._pace = ScrubPace(max(bytes_per_second, 1))
        self.bytes_read = 0

    async def read(self, log: UnifiedLog, segment: LogSegment, position: int) -> bytes | None:
        """Return a chunk, or the first batch in it if that is larger; None if the segment is no
        longer a sealed one of the log. Raises OSError."""
        size = segment.size_bytes
        try:
            data = await segment.read_cold(min(_CHUNK_BYTES, size - position), position)
            if len(data) >= BATCH_OVERHEAD:
                whole = parse_batch(data, 0).length + LOG_OVERHEAD
                if len(data) < whole <= size - position and is_sealed(log, segment):
                    data = await segment.read_cold(whole, position)
        except OSError:
            if not is_sealed(log, segment):
                return None
            raise
        self.bytes_read += len(data)
        await self._clock.sleep(self._pace.wait_ms(len(data), self._clock.monotonic_ms()))
        return data if is_sealed(log, segment) else None
