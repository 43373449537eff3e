"""Topologies beside the topics of a cluster: partition counts, missing topics, refusals."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.streams import topology as topologies
from minikafka.core.group.streams.topology import ConfiguredTopology, configure
from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.streams_group_heartbeat import StatusCode
from minikafka.protocol.messages.streams_group_log import StreamsGroupTopologyValue
from minikafka.protocol.messages.streams_topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
)

STATE = PartitionMetadata(1, 0, (1,), (1,), (), 1, 0)


def image(**partitions: int) -> MetadataImage:
    return MetadataImage(
        topics={t: dict.fromkeys(range(n), STATE) for t, n in partitions.items()},
        topic_ids={t: UUID(int=n + 1) for n, t in enumerate(partitions)},
    )


def configured(*subtopologies: Subtopology, **partitions: int) -> ConfiguredTopology:
    return configure(StreamsGroupTopologyValue(0, list(subtopologies)), image(**partitions))


def subtopology(
    name: str,
    *sources: str,
    reads: tuple[TopicInfo, ...] = (),
    writes: tuple[str, ...] = (),
    changelogs: tuple[str, ...] = (),
    together: tuple[CopartitionGroup, ...] = (),
) -> Subtopology:
    infos = [TopicInfo(each) for each in changelogs]
    return Subtopology(name, list(sources), [], infos, list(writes), list(reads), list(together))


def code_of(found: ConfiguredTopology) -> int | None:
    return None if found.problem is None else found.problem.status_code


def refusal_of(*subtopologies: Subtopology, **partitions: int) -> str:
    with pytest.raises(KafkaError) as refusal:
        configured(*subtopologies, **partitions)
    assert refusal.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    return refusal.value.message or ""


def test_there_are_as_many_tasks_as_the_largest_source_has_partitions() -> None:
    found = configured(subtopology("0", "a", "b"), a=3, b=5)
    assert found.is_ready
    assert found.subtopologies is not None
    assert found.subtopologies["0"].tasks == 5


def test_a_repartition_topic_is_as_large_as_what_it_is_written_from() -> None:
    """Also through others, whose subtopologies come later in the order of ids."""
    found = configured(
        subtopology("0", reads=(TopicInfo("r2"),), changelogs=("c",)),
        subtopology("1", reads=(TopicInfo("r1"),), writes=("r2",)),
        subtopology("2", "a", writes=("r1",)),
        a=4,
    )
    assert code_of(found) == StatusCode.MISSING_INTERNAL_TOPICS
    assert {name: topic.partitions for name, topic in found.missing.items()} == {
        "r1": 4,
        "r2": 4,
        "c": 4,
    }


def test_an_internal_topic_of_another_size_is_in_the_way() -> None:
    found = configured(subtopology("0", "a", changelogs=("c",)), a=4, c=3)
    assert code_of(found) == StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert found.subtopologies is None


def test_copartitioned_repartition_topics_follow_the_source_topic() -> None:
    together = (CopartitionGroup([0], [], [0]),)
    reader = subtopology("1", "b", reads=(TopicInfo("r"),), together=together)
    found = configured(subtopology("0", "a", writes=("r",)), reader, a=2, b=6)
    assert found.missing["r"].partitions == 6


def test_copartitioned_repartition_topics_alone_take_the_largest() -> None:
    together = (CopartitionGroup([], [], [0, 1]),)
    reader = subtopology("2", reads=(TopicInfo("r"), TopicInfo("s")), together=together)
    found = configured(
        subtopology("0", "a", writes=("r",)), subtopology("1", "b", writes=("s",)), reader, a=2, b=6
    )
    assert {name: topic.partitions for name, topic in found.missing.items()} == {"r": 6, "s": 6}


def test_a_topology_that_no_topics_suit_is_refused() -> None:
    assert "same id" in refusal_of(subtopology("0", "a"), subtopology("0", "a"), a=1)
    assert "No source topics" in refusal_of(subtopology("0", writes=("r",)))
    out_of_range = (CopartitionGroup([7], [], []),)
    assert "copartition group" in refusal_of(subtopology("0", "a", together=out_of_range), a=1)
    assert "less than 0" in refusal_of(subtopology("0", "a", reads=(TopicInfo("r", -1),)), a=1)


def test_more_tasks_than_are_served_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "MAX_TASKS", 10)
    assert configured(subtopology("0", "a", "b"), a=5, b=5).is_ready
    assert "at most 10" in refusal_of(subtopology("0", "a", "b"), a=5, b=6)


# Each subtopology reads and writes some repartition topics, and perhaps a source topic.
names = st.sampled_from(["r0", "r1", "r2", "r3", "r4"])
chains = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.tuples(names, st.sampled_from([0, 0, 0, 3])), max_size=2),
        st.lists(names, max_size=2),
    ),
    min_size=1,
    max_size=6,
)


@given(chains)
def test_partition_counts_are_those_of_kafkas_passes(
    rows: list[tuple[bool, list[tuple[str, int]], list[str]]],
) -> None:
    subtopologies = [
        subtopology(
            str(number),
            *(["a"] if has_source or not reads else []),
            reads=tuple(TopicInfo(name, count) for name, count in dict(reads).items()),
            writes=tuple(dict.fromkeys(writes)),
        )
        for number, (has_source, reads, writes) in enumerate(rows)
    ]
    expected = _passes(subtopologies, 2)
    read = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    if expected is None or not read <= expected.keys():
        refusal_of(*subtopologies, a=2)
        return
    missing = configured(*subtopologies, a=2).missing
    fixed = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    for name in read:
        assert missing[name].partitions in (expected[name], fixed.get(name)), name


def _passes(subtopologies: list[Subtopology], source: int) -> dict[str, int] | None:
    """Find the counts as Kafka does: go through all subtopologies until nothing is unknown. None
    if a pass finds nothing."""
    known: dict[str, int] = {}
    for each in subtopologies:
        known.update((t.name, t.partitions) for t in each.repartition_source_topics if t.partitions)
    while True:
        is_complete, found = True, False
        for each in subtopologies:
            for sink in each.repartition_sink_topics:
                if sink in known:
                    continue
                counts = [known[t.name] for t in each.repartition_source_topics if t.name in known]
                counts += [source] * len(each.source_topics)
                if counts:
                    known[sink], found = max(counts), True
                else:
                    is_complete = False
        if is_complete:
            return known
        if not found:
            return None
