"""How far reassignments are, and when they will be complete, from the sizes of replicas."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.core.client.admin.replicas import LogDirDescription
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass

WINDOW_MS: Final = 60_000  # rates are means over so long at most
MIN_WINDOW_MS: Final = 1_000
MOST_SAMPLES: Final = 120

# Bytes of each replica, by partition and broker.
ReplicaSizes = Mapping[tuple[TopicPartition, int], int]


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """One partition on the move. ``copied`` and ``total`` are bytes, together for all replicas that
    are added; ``bytes_per_s`` is None until there are two samples."""

    partition: TopicPartition
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied: int
    total: int
    bytes_per_s: float | None = None

    @property
    def percent(self) -> float:
        return 100.0 if self.total == 0 else 100.0 * self.copied / self.total

    @property
    def seconds_left(self) -> float | None:
        """None while it is not known, or nothing is copied."""
        left = self.total - self.copied
        if left == 0:
            return 0.0
        return left / self.bytes_per_s if self.bytes_per_s else None


def brokers_of(moves: Mapping[TopicPartition, ReplicaAssignment]) -> set[int]:
    """Return the brokers whose log directories show the progress."""
    return {broker for move in moves.values() for broker in (*move.replicas, *move.adding)}


def replica_sizes(
    moves: Iterable[TopicPartition], described: Mapping[int, Mapping[str, LogDirDescription]]
) -> dict[tuple[TopicPartition, int], int]:
    """Return the sizes of the replicas of ``moves``; those moving between log directories of one
    broker count as they are now."""
    wanted = set(moves)
    return {
        (partition, broker): replica.size_bytes
        for broker, directories in described.items()
        for directory in directories.values()
        for partition, replica in directory.replicas.items()
        if partition in wanted and not replica.is_future
    }


class _Sample(NamedTuple):
    at_ms: int
    copied: Mapping[TopicPartition, int]


class MoveMeter:
    """Measures reassignments by samples of their sizes."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=MOST_SAMPLES)

    def measure(
        self,
        now_ms: int,
        moves: Mapping[TopicPartition, ReplicaAssignment],
        sizes: ReplicaSizes,
    ) -> list[MoveProgress]:
        """Take a sample at ``now_ms`` (monotonic) and return the progress by partition.

        The largest replica that stays is the whole: a leader that is being written grows, and so
        does what is left."""
        found: list[MoveProgress] = []
        for partition, move in sorted(moves.items()):
            held = [b for b in move.replicas if b not in move.adding]
            whole = max((sizes.get((partition, b), 0) for b in held), default=0)
            copied = sum(min(whole, sizes.get((partition, b), 0)) for b in move.adding)
            total = whole * len(move.adding)
            rate = self._rate(now_ms, partition, copied)
            found.append(
                MoveProgress(
                    partition, tuple(move.adding), tuple(move.removing), copied, total, rate
                )
            )
        self._samples.append(_Sample(now_ms, {each.partition: each.copied for each in found}))
        return found

    def _rate(self, now_ms: int, partition: TopicPartition, copied: int) -> float | None:
        """Return bytes a second since the oldest sample of the window that has the partition."""
        while self._samples and now_ms - self._samples[0].at_ms > WINDOW_MS:
            self._samples.popleft()
        for sample in self._samples:
            if partition in sample.copied and now_ms - sample.at_ms >= MIN_WINDOW_MS:
                grown = copied - sample.copied[partition]
                return max(0.0, grown * 1000 / (now_ms - sample.at_ms))
        return None
