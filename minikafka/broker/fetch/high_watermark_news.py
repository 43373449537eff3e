"""High watermarks on their way to followers that have nothing else to hear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Clock, TimerHandle

TELL_AFTER_MS = 50
# After many were told, the next wait longer by one millisecond for so many: each telling is one
# more fetch of all that the follower follows, and thousands mostly join one another.
TOLD_PER_MS = 10


class HighWatermarkNews:
    """A high watermark that moved is answered to the followers' parked fetches a moment later.

    Under load the next records bring it anyway, within that moment; at rest consumers that read
    from followers, and a follower that becomes leader, would lag by up to
    ``replica.fetch.wait.max.ms`` else. ``wake`` looks at the parked fetches of these partitions:
    at each once, as thousands of partitions that join a fetch are news all at the same time."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        wake: Callable[[Sequence[TopicPartition]], object],
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._wake = wake
        self._due: dict[TopicPartition, None] = {}  # as a set that keeps its order
        self._timer: TimerHandle | None = None
        self._not_before_ms = 0

    def add(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._due[topic_partition] = None
        if self._due and self._timer is None:
            wait_ms = self._not_before_ms - self._clock.monotonic_ms()
            self._timer = self._clock.call_later(max(TELL_AFTER_MS, wait_ms), self._tell)

    def close(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        due, self._due = self._due, {}
        self._timer = None
        self._not_before_ms = self._clock.monotonic_ms() + len(due) // TOLD_PER_MS
        led = [p for p in map(self._hosted.get, due) if p is not None and p.is_leader]
        for partition in led:
            partition.answers.begin_telling()
        self._wake([partition.topic_partition for partition in led])
        for partition in led:
            partition.answers.end_telling()
