"""The DescribeShareGroupOffsets row of a share-partition."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.kernel.errors import ErrorCode

UNKNOWN: Final = -1  # a start offset, or a lag


class SharePartitionOffset(NamedTuple):
    """The start offset of a share-partition. ``lag`` is the number of records from there to the end
    that still need delivery. ``UNKNOWN`` stands for an unknown offset or lag; with an ``error`` the
    other fields have no meaning."""

    start_offset: int = UNKNOWN
    leader_epoch: int = 0
    lag: int = UNKNOWN
    error: ErrorCode = ErrorCode.NONE
