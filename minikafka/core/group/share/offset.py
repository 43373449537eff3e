"""Where a share-partition starts, as DescribeShareGroupOffsets tells it."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.kernel.errors import ErrorCode

UNKNOWN: Final = -1  # a start offset, or a lag


class SharePartitionOffset(NamedTuple):
    """Where a share-partition starts. ``lag`` is the number of records from there to the end that
    still need delivery. ``UNKNOWN`` for what is not known; ``error`` excludes the rest."""

    start_offset: int = UNKNOWN
    leader_epoch: int = 0
    lag: int = UNKNOWN
    error: ErrorCode = ErrorCode.NONE
