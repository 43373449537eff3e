"""One fetch session (KIP-227): what its owner reads, in turns, and what it was told of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

R = TypeVar("R")

# Topic name, or topic id from Fetch v13 on, and partition.
PartitionKey: TypeAlias = tuple[str | UUID, int]

NO_SESSION: Final = 0  # a session id
INITIAL_EPOCH: Final = 0  # a full request that wants a session
FINAL_EPOCH: Final = -1  # a full request that wants none, and ends the one it names
MAX_EPOCH: Final = 2**31 - 1
UNTOLD: Final = -1  # an offset that no answer has


def next_epoch(epoch: int) -> int:
    """The epoch after ``epoch``; after the greatest comes 1, as 0 and -1 have meanings."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


def is_full(epoch: int) -> bool:
    """Whether a request of this session epoch names all that it wants."""
    return epoch in (INITIAL_EPOCH, FINAL_EPOCH)


class Told(Protocol):
    """What was read of one partition, as far as sessions look at it. ``is_urgent``: told every
    time: an error, a divergence, a preferred replica."""

    @property
    def size(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def is_error(self) -> bool: ...

    @property
    def is_urgent(self) -> bool: ...


class CachedPartition(Generic[R]):
    """What the owner asks for (``wanted``), and the offsets it has been told last."""

    __slots__ = ("high_watermark", "log_start_offset", "told", "wanted")

    def __init__(self, wanted: R) -> None:
        self.wanted = wanted
        self.high_watermark = UNTOLD
        self.log_start_offset = UNTOLD
        self.told: Told | None = None  # noted last; the very object has no news

    def note(self, told: Told) -> bool:
        """Take note of what is read now. True when there is anything to tell."""
        size, is_error = told.size, told.is_error
        news = (
            size > 0
            or told.is_urgent
            or told.high_watermark != self.high_watermark
            or told.log_start_offset != self.log_start_offset
        )
        # After an error the partition is told again, though nothing else has changed.
        self.high_watermark = UNTOLD if is_error else told.high_watermark
        self.log_start_offset = told.log_start_offset
        self.told = None if size or told.is_urgent else told
        return news


class FetchSession(Generic[R]):
    """Kafka's FetchSession. ``epoch`` is that of the next request. ``privileged``: a follower's.

    ``partitions`` are in the order of their turns: who got records goes to the end, so that one
    full answer after the other serves all (Kafka's ImplicitLinkedHashCollection)."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "last_used_ms", "partitions", "privileged")

    def __init__(self, session_id: int, privileged: bool, by_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.privileged = privileged
        self.by_id = by_id
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[PartitionKey, CachedPartition[R]] = {}

    def __len__(self) -> int:
        return len(self.partitions)

    def update(self, wanted: Mapping[PartitionKey, R], forgotten: Iterable[PartitionKey]) -> None:
        """What a request changes. New partitions stand last. One that is named in both is out."""
        partitions = self.partitions
        for key, want in wanted.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = CachedPartition(want)
            else:
                known.wanted = want
        for key in forgotten:
            partitions.pop(key, None)

    def fill(self, wanted: Sequence[tuple[PartitionKey, R]], told: Sequence[Told]) -> None:
        """The first answer, which has all partitions."""
        for (key, want), answer in zip(wanted, told, strict=True):
            cached = self.partitions[key] = CachedPartition(want)
            cached.note(answer)

    def news(
        self, asked: Sequence[tuple[PartitionKey, CachedPartition[R]]], told: Iterable[Told]
    ) -> list[int]:
        """The places in ``told`` (what was read for the partitions ``asked``) of what is to be
        answered. Those with records go to the end of the order."""
        partitions = self.partitions
        places = []
        for place, ((key, cached), answer) in enumerate(zip(asked, told, strict=True)):
            if answer is cached.told or not cached.note(answer):
                continue  # mostly the former
            places.append(place)
            if answer.size:
                del partitions[key]
                partitions[key] = cached
        return places
