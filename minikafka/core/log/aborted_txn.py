"""An entry of a segment's transaction index: an aborted transaction. Kafka: ``AbortedTxn``.

version i16 | producerId i64 | firstOffset i64 | lastOffset i64 | lastStableOffset i64
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

VERSION: Final = 0
ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = 34
assert ENTRY.size == ENTRY_BYTES


class AbortedTxn(NamedTuple):
    """An aborted transaction: its records from ``first_offset`` to its marker at ``last_offset``.

    ``last_stable_offset`` is the log's last stable offset after the marker was appended. No earlier
    entry of the index covers an offset from there on, which ends a search.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
