"""Drivers killed, and topics created again, at every step of the first batches of a query.

Nothing is lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType

from minikafka.kernel.cluster import ZERO_UUID, TopicPartition, topic_id_text
from minikafka.spark.options import TopicSelection, stream_options
from minikafka.spark.progress import source_remarks
from minikafka.spark.read import stream_reader
from minikafka.spark.read.offsets import EARLIEST, LATEST, Offsets, TopicIds
from minikafka.spark.read.planning import DataLossError
from minikafka.spark.read.stream_reader import StartUnknownError, StreamReader

pytestmark = pytest.mark.mission("SPK-2")

SCHEMA = StructType([StructField("value", BinaryType())])
TRIGGERS = ("processingTime", "availableNow", "once")
STARTS = ("latest", "earliest", "offsets", "timestamp")
BEFORE = 7  # records that are in the topic before a query starts
PARTITIONS = [TopicPartition("t", number) for number in range(2)]
OLD, NEW = UUID(int=1), UUID(int=2)
OF_NEW = 1000  # added to the numbers of records in a topic that was created again


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "pause", lambda _: None)


class KilledError(Exception):
    """The driver died at this step."""


class Checkpoint:
    """The files of a checkpoint that outlive a driver, and a sink that a repeated batch replaces.

    ``attempts``: what each attempt at a batch has read."""

    def __init__(self) -> None:
        self.offsets: list[str] = []
        self.commits = 0
        self.attempts: dict[int, list[list[int]]] = {}

    def numbers(self) -> list[int]:
        assert all(each == batch[0] for batch in self.attempts.values() for each in batch)
        return sorted(n for batch in self.attempts.values() for n in batch[-1])


class Driver:
    """Calls a reader in the order of Spark's ``MicroBatchExecution``, with offsets as JSON text."""

    def __init__(
        self,
        reader: StreamReader,
        checkpoint: Checkpoint,
        kill_at: int | None,
        event: Callable[[], None] | None = None,
    ) -> None:
        """At the step ``kill_at`` call ``event``; without one the driver dies there."""
        self.reader, self.checkpoint = reader, checkpoint
        self.steps_left = kill_at
        self.event = event

    def step(self) -> None:
        if self.steps_left == 0:
            if self.event is None:
                raise KilledError
            self.event()
        if self.steps_left is not None:
            self.steps_left -= 1

    def run(self, trigger: str) -> None:
        """Until the trigger ends the query. Of ``processingTime`` until nothing is new."""
        self.step()
        if trigger == "availableNow":
            self.reader.prepareForTriggerAvailableNow()
        while self.one_batch(trigger) and trigger != "once":
            pass

    def one_batch(self, trigger: str) -> bool:
        point = self.checkpoint
        batch = point.commits
        if len(point.offsets) == batch and not self.plan(trigger):
            return False
        start = json.dumps(self.reader.initialOffset()) if batch == 0 else point.offsets[batch - 1]
        end = point.offsets[batch]
        self.step()
        numbers: list[Any] = []
        if batch == 0 or start != end:
            for partition in self.reader.partitions(json.loads(start), json.loads(end)):
                numbers += list(self.reader.read(partition))
                self.step()
        point.attempts.setdefault(batch, []).append(sorted(numbers))
        self.step()
        point.commits += 1
        self.step()
        return True

    def plan(self, trigger: str) -> bool:
        point = self.checkpoint
        is_first = not point.offsets
        start = self.reader.initialOffset() if is_first else json.loads(point.offsets[-1])
        self.step()
        limit = ReadAllAvailable() if trigger == "once" else self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(start, limit))
        self.step()
        if not is_first and end == point.offsets[-1]:
            return False
        point.offsets.append(end)
        self.step()
        return True


class Topic:
    """A topic of two partitions in memory, as ``minikafka.spark.cluster.Cluster`` shows it.

    Record ``n`` goes to partition ``n % 2`` and is of the time ``1000 * (n + 1)``."""

    def __init__(self, count: int = BEFORE, topic_id: UUID = ZERO_UUID) -> None:
        self.count = count
        self.topic_id = topic_id
        self.topics: dict[str, Any] = {}
        self.fail_on_data_loss = True
        self.passed_ms = 0

    def create_again(self, count: int) -> None:
        self.topic_id, self.count = NEW, count

    def topic_ids(self, topics: Iterable[str]) -> TopicIds:
        return {} if self.topic_id == ZERO_UUID else dict.fromkeys(topics, self.topic_id)

    def read(self, task: InputPartition) -> Iterator[int]:
        """Yield the numbers of the records, as RangeReader does (test_spark_fetching.py)."""
        for wanted in task.value:
            if wanted.topic_id in (ZERO_UUID, self.topic_id):
                numbers = [2 * at + wanted.partition for at in range(wanted.start, wanted.end)]
                assert all(number < self.count for number in numbers)
                yield from (n + OF_NEW if self.topic_id == NEW else n for n in numbers)
            elif self.fail_on_data_loss:
                raise DataLossError("topic t was deleted and created again")

    def partitions(self, subscription: TopicSelection) -> list[TopicPartition]:
        return PARTITIONS

    def partitions_there(
        self,
        subscription: TopicSelection,
        expected: Iterable[TopicPartition] = (),
        known_ids: Mapping[str, UUID] | None = None,
    ) -> list[TopicPartition]:
        return PARTITIONS

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], missing_is_final: bool = False
    ) -> Offsets:
        return {each: self._find(each.partition, time) for each, time in timestamps.items()}

    def _find(self, partition: int, time: int) -> int:
        numbers = range(partition, self.count, 2)
        if time == LATEST:
            return len(numbers)
        if time == EARLIEST:
            return 0
        return next((at for at, n in enumerate(numbers) if 1000 * (n + 1) >= time), -1)

    def reader(self, starting: str, **options: str) -> StreamReader:
        given = {
            "kafka.bootstrap.servers": "127.0.0.1:9092",
            "subscribe": "t",
            "maxOffsetsPerTrigger": "4",
            **{
                "latest": {"startingOffsets": "latest"},
                "earliest": {"startingOffsets": "earliest"},
                "offsets": {"startingOffsets": '{"t": {"0": 2, "1": -2}}'},
                "timestamp": {"startingTimestamp": "3000"},
            }[starting],
            **options,
        }
        parsed = stream_options(given)
        self.fail_on_data_loss = parsed.fail_on_data_loss
        reader = StreamReader(SCHEMA, parsed)
        reader._cluster = self  # type: ignore[assignment]
        reader._clock = self  # type: ignore[assignment]
        reader.read = self.read  # type: ignore[assignment, method-assign]
        return reader

    def monotonic_ms(self) -> int:
        """Advance by more than the maximum age of metadata with each call."""
        self.passed_ms += 1000
        return self.passed_ms

    def expected(self, starting: str, latest: int) -> list[int]:
        """``latest``: how many were there when the end of the first batch was stored."""
        numbers = range(self.count)
        return {
            "latest": list(range(latest, self.count)),
            "earliest": list(numbers),
            "offsets": [n for n in numbers if n % 2 or n >= 4],
            "timestamp": list(range(2, self.count)),
        }[starting]


@pytest.mark.parametrize("starting", STARTS)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_driver_killed_at_each_step(trigger: str, starting: str) -> None:
    """Each time records come in before the restart, so that "latest" has moved."""
    for kill_at in range(100):
        topic, checkpoint = Topic(), Checkpoint()
        latest = topic.count
        killed = False
        driver = Driver(topic.reader(starting), checkpoint, kill_at)
        try:
            driver.run(trigger)
            topic.count += 9  # two batches of "once"
            driver = Driver(topic.reader(starting), checkpoint, driver.steps_left)
            driver.run(trigger)
        except KilledError:
            killed = True
        topic.count += 3
        if not checkpoint.offsets:
            latest = topic.count  # the start was not decided before the restart
        Driver(topic.reader(starting), checkpoint, None).run(trigger)
        if trigger != "once":  # which only repeats the batch that was not done
            assert checkpoint.numbers() == topic.expected(starting, latest), kill_at
        topic.count += 3
        Driver(topic.reader(starting), checkpoint, None).run(trigger)
        assert checkpoint.numbers() == topic.expected(starting, latest), (kill_at, checkpoint)
        if not killed:
            assert checkpoint.commits >= 3
            return
    raise AssertionError("100 steps were not enough for one run")


def test_a_first_batch_of_another_connector() -> None:
    """Its end offset does not hold the start: resolved again, or refused for "latest"."""
    end = {"t": {"0": 2, "1": 1}}
    reader = Topic().reader("earliest")
    (task,) = reader.partitions(reader.initialOffset(), end)
    assert [(each.start, each.end) for each in task.value] == [(0, 2), (0, 1)]
    reader = Topic().reader("latest")
    with pytest.raises(StartUnknownError, match="planned by another connector"):
        reader.partitions(reader.initialOffset(), end)


def test_a_start_beyond_the_end_is_refused_before_anything_is_stored() -> None:
    reader = Topic().reader("earliest", startingOffsets='{"t": {"0": 99, "1": 0}}')
    with pytest.raises(ValueError, match="t-0: start offset 99 is greater than end offset 4"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


@pytest.mark.mission("SPS-3")
@pytest.mark.parametrize(("options", "tasks"), [({}, 1), ({"minPartitions": "2"}, 2)])
def test_a_batch_of_few_records_is_one_task_unless_more_are_wanted(
    options: dict[str, str], tasks: int
) -> None:
    reader = Topic().reader("earliest", **options)
    found = reader.partitions(reader.initialOffset(), {"t": {"0": 2, "1": 1}})
    assert [len(each.value) for each in found] == [2 // tasks] * tasks


@pytest.mark.parametrize("count", [0, 3, BEFORE, 30], ids=lambda n: f"new_topic_of_{n}")
@pytest.mark.parametrize("trigger", ["processingTime", "availableNow"])
def test_a_topic_created_again_at_each_step(trigger: str, count: int) -> None:
    """Its records are all read, once. Without ``failOnDataLoss=false`` the query fails first."""
    for step in range(100):
        topic, checkpoint = Topic(topic_id=OLD), Checkpoint()
        mild = {"failOnDataLoss": "false"}
        create_again = lambda topic=topic: topic.create_again(count)  # noqa: E731
        driver = Driver(topic.reader("earliest", **mild), checkpoint, step, create_again)
        driver.run(trigger)
        is_over = topic.topic_id == OLD
        if is_over:
            topic.create_again(count)
        if checkpoint.offsets and topic_id_text(NEW) not in checkpoint.offsets[-1]:
            with pytest.raises(DataLossError, match="was deleted and created again"):
                Driver(topic.reader("earliest"), checkpoint, None).run(trigger)
        Driver(topic.reader("earliest", **mild), checkpoint, None).run(trigger)
        new = [n for n in checkpoint.numbers() if n >= OF_NEW]
        assert new == list(range(OF_NEW, OF_NEW + count)), (step, checkpoint)
        if is_over:
            return
    raise AssertionError("100 steps were not enough for one run")


def test_a_topic_that_was_created_again_is_named_with_both_ids_and_a_way_out() -> None:
    """The new topic has more records than were read: the offset alone shows nothing."""
    topic = Topic(topic_id=OLD)
    reader = topic.reader("earliest")
    end = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), ReadAllAvailable())))
    topic.create_again(30)
    loss = (
        "topic t was deleted and created again: its id was AAAAAAAAAAAAAAAAAAAAAQ and is "
        "AAAAAAAAAAAAAAAAAAAAAg now"
    )
    with pytest.raises(DataLossError, match=f'{loss}. Set the option "failOnDataLoss" to "false"'):
        topic.reader("earliest").latestOffset(end, ReadAllAvailable())
    mild = topic.reader("earliest", failOnDataLoss="false")
    following = mild.latestOffset(end, ReadAllAvailable())
    progress = {"sources": [{"endOffset": end, "latestOffset": mild.reportLatestOffset()}]}
    assert source_remarks(progress) == [loss]
    (task,) = mild.partitions(end, following)
    assert [each.start for each in task.value] == [0, 0]
    with pytest.raises(DataLossError, match=loss):  # a batch that another run has planned
        topic.reader("earliest").partitions(end, following)


def test_a_loss_that_a_query_goes_on_with_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    reader = Topic().reader("earliest", failOnDataLoss="false")
    assert reader.partitions({"t": {"0": 3, "1": 1}}, {"t": {"1": 1}}) == []
    assert capsys.readouterr().err == "minikafka: data loss: partitions were deleted: t-0\n"


def test_offsets_without_topic_ids_get_them_with_a_batch_that_may_be_empty() -> None:
    """Such offsets are those of an older version and of the official connector."""
    topic = Topic(topic_id=OLD)
    start = {"t": {"0": 4, "1": 3}}
    reader = topic.reader("earliest")
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {**start, 'topic ids {"t": "AAAAAAAAAAAAAAAAAAAAAQ"}': {}}
    assert reader.partitions(start, end) == []
    assert reader.latestOffset(end, ReadAllAvailable()) is end


def test_brokers_that_give_no_topic_ids_change_nothing() -> None:
    reader = Topic().reader("earliest")
    start = {"t": {"0": 4, "1": 3}}
    assert reader.latestOffset(start, ReadAllAvailable()) is start
    with_ids = {**start, 'topic ids {"t": "AAAAAAAAAAAAAAAAAAAAAQ"}': {}}
    assert reader.latestOffset(with_ids, ReadAllAvailable()) is with_ids


@pytest.mark.mission("SPO-1")
def test_offsets_of_a_deleted_topic_are_not_committed_for_the_new_one() -> None:
    committed: list[Offsets] = []
    topic = Topic(topic_id=OLD)
    reader = topic.reader("earliest", failOnDataLoss="false")
    group: Any = SimpleNamespace(failure=None, commit=committed.append)
    reader._group = group
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    topic.create_again(30)
    following = reader.latestOffset(end, ReadAllAvailable())
    reader.latestOffset(following, ReadAllAvailable())
    assert committed == [{}, dict.fromkeys(PARTITIONS, 15)]
