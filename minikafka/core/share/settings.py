"""The settings of a share group that the leaders of its partitions need."""

from __future__ import annotations

import re
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass

# Timestamps of ListOffsets that stand for the ends of the log.
LATEST: Final = -1
EARLIEST: Final = -2
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_SECONDS: Final = (86_400, 3_600, 60, 1)
READ_COMMITTED: Final = "read_committed"


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The settings of one group; times in milliseconds.

    ``auto_offset_reset`` is ``latest``, ``earliest`` or ``by_duration:`` and a duration of ISO
    8601; ``isolation_level`` is ``read_uncommitted`` or ``read_committed``."""

    lock_duration_ms: int = 30_000
    isolation_level: str = "read_uncommitted"
    auto_offset_reset: str = "latest"
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000


def reset_timestamp(auto_offset_reset: str, now_ms: int) -> int:
    """Return the timestamp in ms from which a group reads, or ``LATEST`` or ``EARLIEST``. Raises
    ValueError for an invalid setting."""
    if auto_offset_reset == "latest":
        return LATEST
    if auto_offset_reset == "earliest":
        return EARLIEST
    text = auto_offset_reset.removeprefix(_BY_DURATION)
    matched = _DURATION.fullmatch(text) if text != auto_offset_reset else None
    if matched is None or not any(matched.groups()):
        raise ValueError(f"{auto_offset_reset!r} is no place where a group can begin")
    parts = zip(matched.groups(default="0"), _SECONDS, strict=True)
    return now_ms - int(1000 * sum(float(count) * seconds for count, seconds in parts))
