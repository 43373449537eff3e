"""The topology of a streams group: validation against the topics of the cluster, and task counts.

A topology names three kinds of topics: source topics, which exist, and the internal ones:
repartition topics, which connect subtopologies, and changelogs, which hold the state of tasks. The
partition counts of the internal topics follow from those of the source topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from heapq import heapify, heappop, heappush
from typing import Final

from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.streams_group_heartbeat import Status, StatusCode
from minikafka.protocol.messages.streams_group_log import StreamsGroupTopologyValue
from minikafka.protocol.messages.streams_topology import Subtopology, TopicInfo

MAX_TASKS: Final = 20_000
_NAMES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition topic or a changelog, with the partition count that it has or must have.

    ``replication_factor`` is 0 for the default of the broker."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with as many tasks as the largest of its sources has partitions.

    ``sources`` are source topics and repartition topics that it reads, by name and sorted."""

    tasks: int
    sources: tuple[str, ...]
    repartition_sources: Mapping[str, InternalTopic]
    changelogs: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology validated against existing topics (Kafka's ``ConfiguredTopology``).

    ``subtopologies`` are in the order of their ids; none if ``problem`` prevents that. With
    ``missing``, the internal topics to create, there are subtopologies and a problem."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Misconfigured(Exception):
    """The topics do not suit the topology. Members receive the status."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def required_topics(topology: StreamsGroupTopologyValue) -> frozenset[str]:
    """Return the names of all topics that tasks read, and of their changelogs."""
    return frozenset(
        name
        for subtopology in topology.subtopologies
        for name in (
            *_sources(subtopology),
            *(topic.name for topic in subtopology.state_changelog_topics),
        )
    )


def source_topics(topology: StreamsGroupTopologyValue) -> dict[str, str]:
    """Return the id of the subtopology that reads a topic, by topic."""
    return {
        name: subtopology.subtopology_id
        for subtopology in topology.subtopologies
        for name in _sources(subtopology)
    }


def _sources(subtopology: Subtopology) -> Iterator[str]:
    yield from subtopology.source_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)


def check_topology(topology: StreamsGroupTopologyValue) -> None:
    """Raise KafkaError (STREAMS_INVALID_TOPOLOGY) if no topics would suit a topology."""
    if len({each.subtopology_id for each in topology.subtopologies}) < len(topology.subtopologies):
        raise _invalid("Two subtopologies have the same id.")
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise _invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}."
                )
        for topic in subtopology.repartition_source_topics:
            if topic.partitions < 0:
                raise _invalid(f"Repartition topic {topic.name} has less than 0 partitions.")
        if not any(_sources(subtopology)):
            raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
        _copartition_groups(subtopology)


def _copartition_groups(subtopology: Subtopology) -> list[set[str]]:
    """Return the topics of each copartition group, which has indices. Raises KafkaError:
    STREAMS_INVALID_TOPOLOGY."""
    repartition = [topic.name for topic in subtopology.repartition_source_topics]
    groups = []
    for group in subtopology.copartition_groups:
        names: set[str] = set()
        for indices, topics in (
            (group.source_topics, subtopology.source_topics),
            (group.repartition_source_topics, repartition),
        ):
            if any(not 0 <= index < len(topics) for index in indices):
                raise _invalid(
                    f"A copartition group of subtopology {subtopology.subtopology_id} has a topic "
                    "that the subtopology does not have."
                )
            names.update(topics[index] for index in indices)
        groups.append(names)
    return groups


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)


def configure(topology: StreamsGroupTopologyValue, image: MetadataImage) -> ConfiguredTopology:
    """Decide the partition counts of internal topics, and find those that are missing.

    Raises KafkaError (STREAMS_INVALID_TOPOLOGY) as ``check_topology``, if the counts cannot be
    found, or if the topology has more than ``MAX_TASKS`` tasks, each counted once for every topic
    that it reads. Kafka: ``InternalTopicManager``.
    """
    check_topology(topology)
    try:
        return _configure(topology, image)
    except _Misconfigured as error:
        return ConfiguredTopology(topology.epoch, None, problem=error.status)


def _configure(topology: StreamsGroupTopologyValue, image: MetadataImage) -> ConfiguredTopology:
    subtopologies = sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
    absent = {t for each in subtopologies for t in each.source_topics if t not in image.topics}
    if absent:
        raise _Misconfigured(
            StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_summary(absent)} are missing."
        )
    counts = _Counts(subtopologies, image)
    counts.enforce_copartitioning()
    configured = {each.subtopology_id: counts.configured(each) for each in subtopologies}
    work = sum(each.tasks * len(each.sources) for each in configured.values())
    missing = _missing(configured.values(), image)
    if not missing and work > MAX_TASKS:
        raise _invalid(
            f"The topology has {work} tasks with their topics, and at most {MAX_TASKS} are served."
        )
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summary(missing)}"
        problem = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, configured, missing, problem)


def _missing(
    subtopologies: Iterable[ConfiguredSubtopology], image: MetadataImage
) -> dict[str, InternalTopic]:
    expected = {
        name: topic
        for each in subtopologies
        for topics in (each.repartition_sources, each.changelogs)
        for name, topic in topics.items()
    }
    for name in sorted(expected.keys() & image.topics.keys()):
        found, topic = len(image.topics[name]), expected.pop(name)
        if found != topic.partitions:
            raise _Misconfigured(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected "
                f"{topic.partitions}, found {found}",
            )
    return expected


def _summary(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMES_SHOWN
    shown = ", ".join(ordered[:_NAMES_SHOWN])
    return f"{shown} and {more} additional topics" if more > 0 else shown


class _Counts:
    """The partition counts of existing topics, and the computed ones of the other topics."""

    def __init__(self, subtopologies: Collection[Subtopology], image: MetadataImage) -> None:
        self._subtopologies = subtopologies
        self._image = image
        self._decided: dict[str, int] = {}
        self._decide_repartition_topics()

    def _of(self, topic: str) -> int:
        partitions = self._image.topics.get(topic)
        return self._decided[topic] if partitions is None else len(partitions)

    # -- repartition topics

    def _decide_repartition_topics(self) -> None:
        """A repartition topic has the count in the topology, else that of the largest topic from
        which it is written.

        Kafka goes through the subtopologies again and again until it knows all counts: a
        subtopology that reads no known topic yet is left for the next pass. A heap of passes and
        positions does the same without the passes that change nothing.
        """
        known = self._decided
        readers: defaultdict[str, list[int]] = defaultdict(list)
        heap = []
        ordered = list(self._subtopologies)
        for position, subtopology in enumerate(ordered):
            for topic in subtopology.repartition_source_topics:
                readers[topic.name].append(position)
                if topic.partitions != 0:
                    known[topic.name] = topic.partitions
        for position, subtopology in enumerate(ordered):
            if any(subtopology.source_topics) or any(
                topic.name in known for topic in subtopology.repartition_source_topics
            ):
                heap.append((0, position))
        heapify(heap)
        done: set[int] = set()
        while heap:
            turn, position = heappop(heap)
            if position in done:
                continue
            done.add(position)
            subtopology = ordered[position]
            count = self._largest_source(subtopology)
            for sink in subtopology.repartition_sink_topics:
                if sink not in known:
                    known[sink] = count
                    for reader in readers[sink]:
                        heappush(heap, (turn + (reader <= position), reader))
        self._check_repartition_topics()

    def _largest_source(self, subtopology: Subtopology) -> int:
        """Return the largest count of a topic that the subtopology reads, as far as known."""
        counts = [len(self._image.topics[topic]) for topic in subtopology.source_topics]
        for topic in subtopology.repartition_source_topics:
            if topic.name in self._decided:
                counts.append(self._decided[topic.name])
        return max(counts)

    def _check_repartition_topics(self) -> None:
        for subtopology in self._subtopologies:
            if any(sink not in self._decided for sink in subtopology.repartition_sink_topics):
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics. There may "
                    "be loops in the topology that cannot be resolved."
                )
        for subtopology in self._subtopologies:
            for topic in subtopology.repartition_source_topics:
                if topic.name not in self._decided:
                    raise _invalid(
                        "Failed to compute number of partitions for all repartition topics, "
                        "because a repartition source topic is never used as a sink topic."
                    )

    # -- copartitioned topics

    def enforce_copartitioning(self) -> None:
        """Give the repartition topics of a copartition group the count of its other topics.

        As in Kafka, a count in the topology for any repartition topic counts for a group that has
        only repartition topics."""
        repartition = {
            topic.name: topic.partitions != 0
            for subtopology in self._subtopologies
            for topic in subtopology.repartition_source_topics
        }
        fixed = [name for name, is_fixed in repartition.items() if is_fixed]
        fixed_counts = {self._of(name) for name in fixed}
        for subtopology in self._subtopologies:
            for topics in _copartition_groups(subtopology):
                if topics:
                    self._enforce(topics, repartition, fixed_counts)

    def _enforce(
        self, topics: set[str], repartition: Mapping[str, bool], fixed_counts: set[int]
    ) -> None:
        counts = {topic: self._of(topic) for topic in topics}
        internal = {topic: count for topic, count in counts.items() if topic in repartition}
        external = {topic: count for topic, count in counts.items() if topic not in repartition}
        if external or fixed_counts:
            found = set(external.values()) if external else fixed_counts
            if len(found) > 1:
                shown = ", ".join(f"{t}={n}" for t, n in sorted((external or internal).items()))
                raise _Misconfigured(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Following topics do not have the same number of partitions: [{{{shown}}}]",
                )
            (wanted,) = found
        else:
            wanted = max(internal.values())
        for topic, count in internal.items():
            if repartition[topic] and count != wanted:
                raise _Misconfigured(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{count}] of repartition topic [{topic}] doesn't match "
                    f"number of partitions [{wanted}] of the source topic.",
                )
            self._decided[topic] = wanted

    # -- the result

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        sources = tuple(sorted(set(_sources(subtopology))))
        tasks = max(self._of(topic) for topic in sources)
        return ConfiguredSubtopology(
            tasks,
            sources,
            {
                topic.name: _internal(topic, topic.partitions or self._decided[topic.name])
                for topic in subtopology.repartition_source_topics
            },
            {topic.name: _internal(topic, tasks) for topic in subtopology.state_changelog_topics},
        )


def _internal(topic: TopicInfo, partitions: int) -> InternalTopic:
    configs = {config.key: config.value for config in topic.topic_configs}
    return InternalTopic(topic.name, partitions, topic.replication_factor, configs)
