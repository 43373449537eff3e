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
    """Its records lie from ``first_offset`` up to its marker at ``last_offset``.

    ``last_stable_offset`` is where readers of committed records were held back when the marker had
    been written: nothing from there on belongs to a transaction of an earlier entry.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
