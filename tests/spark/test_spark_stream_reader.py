"""The streaming reader by itself, as Spark calls it: no JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.spark.kafka_side import create_again, groups_of, offsets_of_group, produce
from tests.support.clients.places import Cluster

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import BinaryType, StructField, StructType

from minikafka.spark.options import stream_options
from minikafka.spark.read.offsets import offsets_of, start_in, topic_ids_in
from minikafka.spark.read.planning import DataLossError
from minikafka.spark.read.stream_reader import StreamReader

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.mission("SPK-2"),
]

SCHEMA = StructType([StructField("value", BinaryType())])
ALL = ReadAllAvailable()

MakeReader = Callable[..., StreamReader]


@pytest.fixture
def reader_of(cluster: Cluster) -> Iterator[MakeReader]:
    made: list[StreamReader] = []

    def make(topic: str, **options: str) -> StreamReader:
        given = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
        }
        made.append(StreamReader(SCHEMA, stream_options(given)))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def fill(cluster: Cluster, topic: str, *counts: int) -> None:
    produce(
        cluster.bootstrap,
        topic,
        [
            {"value": b"%d-%d" % (partition, number), "partition": partition}
            for partition, count in enumerate(counts)
            for number in range(count)
        ],
    )


def values(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [
        value
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for value in batch.column(0).to_pylist()
    ]


def test_the_end_of_the_first_batch_holds_the_start(
    cluster: Cluster, topic: str, reader_of: MakeReader
) -> None:
    fill(cluster, topic, 3)
    reader = reader_of(topic, startingOffsets="latest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert offsets_of(end) == {(topic, 0): 3, (topic, 1): 0, (topic, 2): 0}
    assert start_in(end) == offsets_of(end)
    assert reader.partitions(start, end) == []
    fill(cluster, topic, 2)
    assert reader.partitions(start, end) == []
    following = reader.latestOffset(end, ALL)
    assert following[topic] == {"0": 5, "1": 0, "2": 0}
    assert topic_ids_in(following).keys() == {topic}
    assert values(reader, end, following) == [b"0-0", b"0-1"]
    assert reader.latestOffset(following, ALL) is following
    assert reader.reportLatestOffset() == {topic: following[topic]}


def test_after_a_restart_it_goes_on_where_the_checkpoint_is(
    cluster: Cluster, topic: str, reader_of: MakeReader
) -> None:
    fill(cluster, topic, 4, 1)
    start = {topic: {"0": 2, "1": 1, "2": 0}}
    reader = reader_of(topic)  # initialOffset is not asked for
    end = reader.latestOffset(start, ALL)
    assert values(reader, start, end) == [b"0-2", b"0-3"]


def test_a_limit_is_shared_and_available_now_ends_where_it_began(
    cluster: Cluster, topic: str, reader_of: MakeReader
) -> None:
    fill(cluster, topic, 40, 10, 0)
    reader = reader_of(topic, maxOffsetsPerTrigger="10")
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert limit.max_rows == 10
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert offsets_of(end) == {(topic, 0): 8, (topic, 1): 2, (topic, 2): 0}
    fill(cluster, topic, 5, 5, 5)
    seen = values(reader, start, end)
    while (following := reader.latestOffset(end, limit)) != end:
        seen += values(reader, end, following)
        end = following
    assert end[topic] == {"0": 40, "1": 10, "2": 0}
    assert len(seen) == 50


def test_it_waits_for_enough_records_but_not_for_ever(
    cluster: Cluster, topic: str, reader_of: MakeReader
) -> None:
    reader = reader_of(topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    start = {topic: {"0": 0, "1": 0, "2": 0}}
    fill(cluster, topic, 1)
    first = reader.latestOffset(start, ALL)  # nothing was triggered yet: at once
    assert first != start
    fill(cluster, topic, 4)
    assert reader.latestOffset(first, ALL) is first
    fill(cluster, topic, 1)
    assert reader.latestOffset(first, ALL)[topic] == {"0": 6, "1": 0, "2": 0}
    hasty = reader_of(topic, minOffsetsPerTrigger="50", maxTriggerDelay="0s")
    hasty.latestOffset(start, ALL)
    assert hasty.latestOffset(start, ALL) != start


def test_new_partitions_are_read_from_their_start(
    cluster: Cluster, topic: str, reader_of: MakeReader, make_topic: Any
) -> None:
    from confluent_kafka.admin import NewPartitions

    reader = reader_of(topic, startingOffsets="latest")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    make_topic.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(60)
    until(lambda: is_produced(cluster, topic, {"value": b"new", "partition": 3}), bool)
    end = until(lambda: reader.latestOffset(start, ALL), lambda end: "3" in end[topic])
    assert end[topic]["3"] == 1
    assert values(reader, start, end) == [b"new"]


def until(ask: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """Ask for a minute. The reader itself waits a little when there is no news, but not when there
    is, and it looks at metadata only once a second: a number of calls is no limit."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = ask()
        if wanted(answer):
            return answer
    raise AssertionError(answer)


def is_produced(cluster: Cluster, topic: str, message: dict[str, Any]) -> bool:
    """False while the metadata of the broker lack the partition."""
    from confluent_kafka import KafkaError, Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    failures: list[KafkaError] = []
    producer.produce(
        topic, on_delivery=lambda error, _: failures.extend([error] if error else []), **message
    )
    assert producer.flush(60) == 0
    assert all(each.code() == KafkaError._UNKNOWN_PARTITION for each in failures), failures
    return not failures


def is_made(make_topic: Any, topic: str) -> bool:
    """False while the old one of that name is still being deleted."""
    from confluent_kafka import KafkaException

    try:
        make_topic(3, name=topic)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
        return False
    return True


def test_a_deleted_topic_is_a_loss_and_so_is_one_that_was_made_again(
    cluster: Cluster, topic: str, reader_of: MakeReader, make_topic: Any
) -> None:
    fill(cluster, topic, 3)
    strict, mild = reader_of(topic), reader_of(topic, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    mild.latestOffset(start, ALL)
    make_topic.admin.delete_topics([topic], operation_timeout=60)[topic].result(60)
    gone = until(lambda: mild.latestOffset(end, ALL), lambda answer: answer == {})
    assert mild.partitions(end, gone) == []
    with pytest.raises(DataLossError, match=f"deleted: {topic}-0"):
        strict.partitions(end, gone)
    until(lambda: is_made(make_topic, topic), bool)
    fill(cluster, topic, 9)
    with pytest.raises(DataLossError, match="was deleted and created again"):
        until(lambda: strict.latestOffset(end, ALL), lambda _: False)
    new = until(lambda: mild.latestOffset(gone, ALL), lambda answer: answer != gone)
    assert len(values(mild, gone, new)) == 9


def test_a_topic_created_again_between_planning_and_reading(
    cluster: Cluster, topic: str, reader_of: MakeReader
) -> None:
    """The tasks of the batch notice; the next batch begins at the start of the new topic."""
    fill(cluster, topic, 3)
    strict, mild = reader_of(topic), reader_of(topic, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    assert len(values(strict, start, end)) == 3  # the process keeps the metadata
    create_again(cluster.bootstrap, topic)
    fill(cluster, topic, 9)
    with pytest.raises(DataLossError, match=f"{topic}-0 at offset 0: topic {topic} was deleted"):
        until(lambda: values(strict, start, end), lambda _: False)
    assert values(mild, start, end) == []
    following = until(lambda: mild.latestOffset(end, ALL), lambda answer: answer != end)
    assert len(values(mild, end, following)) == 9
    assert topic_ids_in(following) != topic_ids_in(end)


def test_an_unknown_topic_is_named_at_once(reader_of: MakeReader) -> None:
    reader = reader_of("no-such-topic")
    with pytest.raises(Exception, match="topic no-such-topic: does not exist"):
        reader.latestOffset(reader.initialOffset(), ALL)


@pytest.mark.mission("SPO-1")
def test_a_batch_that_is_done_is_committed_to_the_group(
    cluster: Cluster, topic: str, reader_of: MakeReader
) -> None:
    fill(cluster, topic, 3)
    group = f"lag-of-{topic}"
    reader = reader_of(topic, **{"kafka.group.id": group})
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert group not in groups_of(cluster.bootstrap)  # nothing is processed yet
    reader.commit(end)
    reader.latestOffset(end, ALL)
    assert offsets_of_group(cluster.bootstrap, group) == {0: 3, 1: 0, 2: 0}
    fill(cluster, topic, 0, 2)
    following = reader.latestOffset(end, ALL)
    assert offsets_of_group(cluster.bootstrap, group) == {0: 3, 1: 0, 2: 0}
    reader.latestOffset(following, ALL)
    assert offsets_of_group(cluster.bootstrap, group) == {0: 3, 1: 2, 2: 0}
    assert reader.reportLatestOffset() == {topic: following[topic]}


@pytest.mark.mission("SPO-1")
def test_without_the_option_there_is_no_group(
    cluster: Cluster, topic: str, reader_of: MakeReader
) -> None:
    fill(cluster, topic, 3)
    before = groups_of(cluster.bootstrap)
    reader = reader_of(topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.latestOffset(end, ALL)
    reader.commit(end)
    assert groups_of(cluster.bootstrap) <= before


@pytest.mark.mission("SPO-1")
def test_a_failed_commit_is_in_the_progress_and_loses_nothing(
    cluster: Cluster, topic: str, reader_of: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minikafka.kernel.errors import ErrorCode, KafkaError
    from minikafka.spark import group_commits
    from minikafka.spark.progress import behind_latest, source_remarks

    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, topic)

    monkeypatch.setattr(group_commits, "commit_offsets", refuse)
    fill(cluster, topic, 3)
    reader = reader_of(topic, **{"kafka.group.id": "secret"})
    end = reader.latestOffset(reader.initialOffset(), ALL)
    fill(cluster, topic, 2)
    following = reader.latestOffset(end, ALL)
    assert values(reader, end, following) == [b"0-0", b"0-1"]
    progress = {"sources": [{"endOffset": end, "latestOffset": reader.reportLatestOffset()}]}
    (remark,) = source_remarks(progress)
    assert remark.startswith("offsets not committed to group secret: GROUP_AUTHORIZATION_FAILED, ")
    behind = behind_latest(progress)
    assert behind is not None
    assert sum(behind.values()) == 2
