"""The score of a playground: for how long a cluster keeps every acknowledged record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import LogEvent

MAX_VIOLATIONS: Final = 100  # that are kept
MAX_ACKNOWLEDGED: Final = 100_000  # records that are followed, the first ones


class Violation(NamedTuple):
    """Something that a cluster must not do, ``t_us`` after the start."""

    t_us: int
    facts: Mapping[str, Any]


class Score:
    """Follows acknowledged records. Each election shows whether the new leader has them: a record
    at or above the end of its log is lost, whatever other replicas have, since they truncate. And
    of two records that were acknowledged with one offset, one is lost: two leaders have had them.

    ``topic_id`` returns the id of a topic: what was in a deleted topic is not lost, but deleted.
    ``on_violation`` is called with each violation.
    """

    def __init__(
        self,
        topic_id: Callable[[str], UUID | None],
        on_violation: Callable[[Violation], None],
    ) -> None:
        self.violations: list[Violation] = []
        self.acknowledged = 0
        self.lost = 0
        self._topic_id = topic_id
        self._on_violation = on_violation
        self._offsets: dict[str, tuple[UUID | None, set[int]]] = {}  # by partition
        self._leaders: dict[tuple[str, UUID | None, int], int] = {}
        self._num_followed = 0
        self._first_us: int | None = None
        self._lost_us: int | None = None

    def kept_us(self, now_us: int) -> int:
        """Return how long every record was kept since the first one was acknowledged."""
        if self._first_us is None:
            return 0
        return (now_us if self._lost_us is None else self._lost_us) - self._first_us

    def facts(self, now_us: int) -> dict[str, Any]:
        return {
            "kept_us": self.kept_us(now_us),
            "acknowledged": self.acknowledged,
            "lost": self.lost,
            "violations": [{"t_us": t_us, **facts} for t_us, facts in self.violations],
        }

    def add(self, partition: TopicPartition, offset: int, t_us: int) -> None:
        """Follow a record that a broker has acknowledged."""
        self.acknowledged += 1
        if self._first_us is None:
            self._first_us = t_us
        if offset < 0 or self._num_followed == MAX_ACKNOWLEDGED:
            return
        self._num_followed += 1
        offsets = self._followed(str(partition), partition.topic)[1]
        if offset in offsets:
            self._lose(t_us, str(partition), [offset])
        offsets.add(offset)

    def on_event(self, event: LogEvent) -> None:
        if event.name == "replica_became_leader":
            self._check(event)

    def _followed(self, partition: str, topic: str) -> tuple[UUID | None, set[int]]:
        topic_id = self._topic_id(topic)
        known = self._offsets.get(partition)
        if known is None or known[0] != topic_id:
            known = self._offsets[partition] = (topic_id, set())
        return known

    def _check(self, event: LogEvent) -> None:
        facts = event.facts
        partition, broker, epoch = facts["partition"], facts["broker"], facts["leader_epoch"]
        topic_id, offsets = self._followed(partition, partition.rpartition("-")[0])
        first = self._leaders.setdefault((partition, topic_id, epoch), broker)
        t_us = round(event.seconds * 1_000_000)
        if first != broker:
            leaders = {"leader": broker, "other_leader": first, "leader_epoch": epoch}
            self._violated(t_us, {"kind": "two_leaders", "partition": partition, **leaders})
        lost = sorted(offset for offset in offsets if offset >= facts["start_offset"])
        if lost:
            offsets.difference_update(lost)
            self._lose(t_us, partition, lost, leader=broker, leader_epoch=epoch)

    def _lose(self, t_us: int, partition: str, offsets: Sequence[int], **found: int) -> None:
        self.lost += len(offsets)
        self._lost_us = t_us if self._lost_us is None else self._lost_us
        places = {"first_offset": offsets[0], "last_offset": offsets[-1]}
        facts = {"kind": "records_lost", "partition": partition, "records": len(offsets)}
        self._violated(t_us, facts | found | places)

    def _violated(self, t_us: int, facts: Mapping[str, Any]) -> None:
        violation = Violation(t_us, facts)
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(violation)
        self._on_violation(violation)
