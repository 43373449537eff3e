"""The ``.txnindex`` file of a segment: the aborted transactions whose markers lie in it.

There is a file only where there is an entry. Kafka: ``TransactionIndex``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from struct import Struct

from minikafka.core.log.aborted_txn import ENTRY, ENTRY_BYTES, VERSION, AbortedTxn
from minikafka.kernel.ports import Files
from minikafka.storage.sparse_index import SparseIndex

_NO_LIMIT = 2**62
_CHUNK_ENTRIES = 256
_LAST_OFFSET = 3  # the field by which entries rise
_FIELDS = Struct(">2xqqqq")  # an entry without its version
_last_stable_offset = attrgetter("last_stable_offset")


class TxnIndex(SparseIndex):
    """Entries in the order of their markers. Raises OSError wherever it reads or writes."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path, ENTRY, _NO_LIMIT)
        self._base_offset = base_offset

    def create(self) -> None:
        """Start empty, without a file."""
        super().create()
        self._in_place = True  # as far as there is anything to write

    def load(self) -> None:
        if self.count == 0:
            self._entries = bytearray()
        super().load()

    def attach(self) -> None:
        """Take the file as it is; none means that nothing was aborted."""
        try:
            super().attach()
        except FileNotFoundError:
            self.create()

    def is_sane(self) -> bool:
        """Whether the file is one of this segment, whole and of a version known here."""
        if self.count == 0:
            return self._entries is not None or self._files.size(self.path) == 0
        if self._files.size(self.path) != self.count * ENTRY_BYTES:
            return False
        last = self._base_offset - 1
        for lump in self._lumps(0):
            for version, _, first_offset, last_offset, _ in ENTRY.iter_unpack(lump):
                if version != VERSION or not 0 <= first_offset <= last_offset > last:
                    return False
                last = last_offset
        return True

    def append(self, txn: AbortedTxn) -> None:
        """Markers come in the order of their offsets. The index must be loaded. With OSError the
        entry is kept in memory, to be written by a ``persist``."""
        self.add(VERSION, *txn)

    def collect(self, from_offset: int, bound: int, found: list[AbortedTxn]) -> bool:
        """Add the transactions that touch ``[from_offset, bound)`` to ``found``. True when no later
        segment can tell of another one."""
        if self.count == 0:
            return False
        start = self.floor(from_offset - 1, _LAST_OFFSET).number + 1
        for lump in self._lumps(start):
            # One statement for all: there may be hundreds in a read of small transactions.
            transactions = list(map(AbortedTxn._make, _FIELDS.iter_unpack(lump)))
            last = bisect_left(transactions, bound, key=_last_stable_offset)
            found += [txn for txn in transactions[: last + 1] if txn.first_offset < bound]
            if last < len(transactions):
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Forget transactions whose markers lie at or above ``offset``."""
        self.keep(self.floor(offset - 1, _LAST_OFFSET).number + 1)

    async def flush(self) -> None:
        self.persist()
        if self.count or self._files.exists(self.path):
            await super().flush()

    def _lumps(self, start: int) -> Iterator[bytes]:
        """From the entry at ``start`` on, some entries at a time."""
        for index in range(start, self.count, _CHUNK_ENTRIES):
            yield self.raw(index, min(_CHUNK_ENTRIES, self.count - index))
