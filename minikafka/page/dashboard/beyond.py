"""What a page must know of topics that are not described to it, so that its sums are right.

Only some topics of a large cluster are described (``cluster_facts.shown_topics``). Of the others
the page gets numbers: what each broker holds, and how many partitions are sick in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from minikafka.core.client.cluster_view import ClusterView, PartitionView, TopicView
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.cluster_facts import is_offline, is_under_replicated
from minikafka.page.dashboard.messages import Facts

MAX_SICK: Final = 50  # kinds of sickness
MAX_NAMES: Final = 20  # partitions named of each

Sickness: TypeAlias = Literal["leaderless", "under_replicated"]


@dataclass(slots=True)
class _Sick:
    """Partitions whose sickness has the same reason."""

    count: int = 0
    alone: int = 0  # with only one replica in sync
    partitions: tuple[str, ...] = ()


class Beyond:
    """Counts again only after a change: a large cluster is read as a whole every few seconds."""

    def __init__(self) -> None:
        self._view: ClusterView | None = None
        self._counted: tuple[frozenset[str], frozenset[TopicPartition]] | None = None
        self._facts: Facts | None = None

    def facts(
        self, view: ClusterView, described: frozenset[str], moving: frozenset[TopicPartition]
    ) -> Facts | None:
        """Return ``beyond_facts`` of all topics."""
        counted = (described, moving)
        if view is not self._view or counted != self._counted:
            self._facts = beyond_facts(view.topics, described, moving)
            self._view, self._counted = view, counted
        return self._facts


def beyond_facts(
    topics: Mapping[str, TopicView],
    described: Collection[str],
    moving: Collection[TopicPartition],
) -> Facts | None:
    """Return numbers of the topics that are not described; None if all of them are.

    Replicas that a reassignment (``moving``) adds are expected to be out of the ISR: they are not
    sick. ``sick`` has the most frequent kinds: no leader, by the replicas, or under-replicated, by
    those that are not in sync. ``more_leaderless`` and ``more_under_replicated`` count the others.
    """
    if len(described) >= len(topics):
        return None
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    sick: dict[tuple[Sickness, tuple[int, ...]], _Sick] = {}
    count = 0
    for name, number, partition in _partitions(topics, described):
        count += 1
        leads[partition.leader] += 1
        replicas.update(partition.replicas)
        if not (is_offline(partition) or is_under_replicated(partition)):
            continue
        missing = tuple(id for id in partition.replicas if id not in partition.isr)
        behind.update(missing)
        tp = TopicPartition(name, number)
        if is_offline(partition):
            _add(sick.setdefault(("leaderless", tuple(partition.replicas)), _Sick()), tp, partition)
        elif tp not in moving:
            _add(sick.setdefault(("under_replicated", missing), _Sick()), tp, partition)
    kinds = sorted(sick.items(), key=lambda item: (-item[1].count, item[0]))
    more = kinds[MAX_SICK:]
    return {
        "partitions": count,
        "brokers": {
            str(id): {"leads": leads[id], "replicas": replicas[id], "behind": behind[id]}
            for id in sorted(replicas.keys() | (leads.keys() - {-1}))
        },
        "sick": [
            {
                "what": what,
                "brokers": list(brokers),
                "count": found.count,
                "alone": found.alone,
                "partitions": list(found.partitions),
            }
            for (what, brokers), found in kinds[:MAX_SICK]
        ],
        "more_leaderless": _sum(more, "leaderless"),
        "more_under_replicated": _sum(more, "under_replicated"),
    }


def _partitions(
    topics: Mapping[str, TopicView], described: Collection[str]
) -> Iterator[tuple[str, int, PartitionView]]:
    for name, topic in topics.items():
        if name not in described:
            for number, partition in topic.partitions.items():
                yield name, number, partition


def _add(sick: _Sick, tp: TopicPartition, partition: PartitionView) -> None:
    sick.count += 1
    sick.alone += len(partition.isr) == 1
    if len(sick.partitions) < MAX_NAMES:
        sick.partitions = (*sick.partitions, str(tp))


def _sum(kinds: Iterable[tuple[tuple[Sickness, tuple[int, ...]], _Sick]], what: Sickness) -> int:
    return sum(found.count for (kind, _), found in kinds if kind == what)
