"""The history of a run: each record sent with its outcome, each record that a reader received."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import field
from typing import Final, NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass

# Instead of an offset: what became of a record that is not known to lie at one.
IN_DOUBT: Final = -3  # nobody answered for good: it may be there or not
UNSETTLED: Final = -2  # still under way
SOMEWHERE: Final = -1  # acknowledged, without its offset (DUPLICATE_SEQUENCE_NUMBER)

_NUMBER_BITS: Final = 40


class RecordId(NamedTuple):
    """The identity of a record in a run; ``number`` counts the records of one producer from 0."""

    producer: int
    number: int


class Sent(NamedTuple):
    """A record that a producer sent, with its outcome. Times are milliseconds into the run."""

    id: RecordId
    partition: int
    key: int
    sent_ms: int
    settled_ms: int
    offset: int

    @property
    def is_acknowledged(self) -> bool:
        return self.offset >= SOMEWHERE


class Written:
    """The records of one producer in send order, in columns so that millions fit in memory."""

    def __init__(self, producer: int) -> None:
        self.producer = producer
        self.acknowledged = 0
        self.in_doubt = 0
        self.longest_wait_ms = 0  # for an acknowledgement
        self._partitions = array("i")
        self._keys = array("i")
        self._sent_ms = array("q")
        self._settled_ms = array("q")
        self._offsets = array("q")

    def begin(self, partition: int, key: int, now_ms: int) -> RecordId:
        """Add a record that is about to be sent; return its id."""
        self._partitions.append(partition)
        self._keys.append(key)
        self._sent_ms.append(now_ms)
        self._settled_ms.append(-1)
        self._offsets.append(UNSETTLED)
        return RecordId(self.producer, len(self._offsets) - 1)

    def settle(self, number: int, offset: int, now_ms: int) -> None:
        """Set the outcome of a record: acknowledged at ``offset``, or SOMEWHERE, or IN_DOUBT."""
        assert self._offsets[number] == UNSETTLED, "a record is settled once"
        self._offsets[number] = offset
        self._settled_ms[number] = now_ms
        if offset == IN_DOUBT:
            self.in_doubt += 1
        else:
            self.acknowledged += 1
            self.longest_wait_ms = max(self.longest_wait_ms, now_ms - self._sent_ms[number])

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, number: int) -> Sent:
        return Sent(
            RecordId(self.producer, number),
            self._partitions[number],
            self._keys[number],
            self._sent_ms[number],
            self._settled_ms[number],
            self._offsets[number],
        )

    def __iter__(self) -> Iterator[Sent]:
        return (self[number] for number in range(len(self)))


class Seen(NamedTuple):
    """A record that a reader received; ``id`` is None if it is not of this run."""

    offset: int
    id: RecordId | None
    at_ms: int


class Reading:
    """The records that one reader received, by partition, in the order received."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: dict[int, int] = {}  # the highest high watermark received
        self.complaints: list[str] = []  # errors that no reader may get
        self.short_of: dict[int, int] = {}  # end offsets not reached in time
        self.count = 0
        self.last_ms = 0  # the time of the last record
        self._seen: dict[int, tuple[array[int], array[int], array[int]]] = {}

    def see(self, partition: int, offset: int, record: RecordId | None, now_ms: int) -> None:
        columns = self._seen.get(partition)
        if columns is None:
            columns = self._seen[partition] = (array("q"), array("q"), array("q"))
        offsets, ids, times = columns
        offsets.append(offset)
        ids.append(-1 if record is None else record.producer << _NUMBER_BITS | record.number)
        times.append(now_ms)
        self.count += 1
        self.last_ms = now_ms

    def note_mark(self, partition: int, high_watermark: int) -> None:
        if high_watermark > self.marks.get(partition, -1):
            self.marks[partition] = high_watermark

    @property
    def partitions(self) -> list[int]:
        return sorted(self._seen)

    def seen(self, partition: int) -> Iterator[Seen]:
        offsets, ids, times = self._seen.get(partition, ((), (), ()))
        for offset, number, at_ms in zip(offsets, ids, times, strict=True):
            known = None if number < 0 else RecordId(number >> _NUMBER_BITS, number & _LOW)
            yield Seen(offset, known, at_ms)


_LOW: Final = (1 << _NUMBER_BITS) - 1


@dataclass(slots=True)
class History:
    """The history of a whole run.

    ``final`` is a complete reading after all records were settled, up to the offsets ``ends`` by
    partition. ``idempotent``: no record may be in the log twice. Records below ``starts`` may have
    been deleted.
    """

    written: list[Written]
    readings: list[Reading]
    final: Reading
    ends: dict[int, int] = field(default_factory=dict)
    idempotent: bool = True
    starts: dict[int, int] = field(default_factory=dict)

    def sent(self, record: RecordId) -> Sent | None:
        """Return the record with its outcome; None if no producer sent it."""
        for written in self.written:
            if written.producer == record.producer and record.number < len(written):
                return written[record.number]
        return None
