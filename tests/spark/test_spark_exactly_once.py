"""The exactly-once sink by itself: tasks and drivers that die at every point. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.spark.kafka_side import consume
from tests.support.clients.places import Cluster

pa = pytest.importorskip("pyarrow")

from minikafka.kernel.errors import ErrorCode, KafkaError  # noqa: E402
from minikafka.spark.cluster import Cluster as SparkCluster  # noqa: E402
from minikafka.spark.write.exactly_once import (  # noqa: E402
    PlanChangedError,
    SinkTransactions,
    Task,
    TaskResult,
    abort_batch,
    commit_batch,
    write_task,
)
from minikafka.spark.write.write_options import WriteOptions, write_options  # noqa: E402

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.mission("SPK-4"),
]

COLUMNS = {"value": "binary"}


class Query:
    """Two tasks per batch; each writes its number and that of the batch."""

    def __init__(self, cluster: Cluster, topic: str, tasks: int = 2) -> None:
        self.bootstrap, self.topic, self.tasks = cluster.bootstrap, topic, tasks
        self.options: WriteOptions = write_options(
            {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}, COLUMNS, streaming=True
        )

    def write(self, batch: int, partition: int) -> TaskResult:
        rows = pa.record_batch({"value": pa.array([b"%d.%d" % (batch, partition)] * 3)})
        return write_task(iter([rows]), self.options, Task(self.topic, batch, partition))

    def run(self, batch: int) -> list[TaskResult]:
        results = [self.write(batch, partition) for partition in range(self.tasks)]
        commit_batch(results, self.options)
        return results

    def committed(self) -> list[bytes]:
        return sorted(row[4] for row in consume(self.bootstrap, self.topic, 3, "read_committed"))


def expected(batches: int, tasks: int = 2) -> list[bytes]:
    return sorted(b"%d.%d" % (b, t) for b in range(batches) for t in range(tasks) for _ in "123")


@pytest.fixture
def query(cluster: Cluster, make_topic: Callable[..., str]) -> Query:
    return Query(cluster, make_topic(3))


def test_batch_after_batch(query: Query) -> None:
    for batch in range(3):
        assert [result.rows for result in query.run(batch)] == [3, 3]
    assert query.committed() == expected(3)


def test_nothing_is_seen_before_the_driver_commits(query: Query) -> None:
    results = [query.write(0, 0), query.write(0, 1)]
    assert query.committed() == []
    commit_batch(results, query.options)
    assert query.committed() == expected(1)


def test_a_batch_that_is_run_again_as_a_whole_writes_nothing(query: Query) -> None:
    query.run(0)
    again = query.run(0)
    assert all(result.marker is not None and result.producer is None for result in again)
    assert query.committed() == expected(1)
    query.run(1)
    assert query.committed() == expected(2)


def test_a_driver_dies_before_any_commit(query: Query) -> None:
    query.write(0, 0)
    query.write(0, 1)
    query.run(0)
    assert query.committed() == expected(1)


def test_a_driver_dies_between_two_commits(query: Query) -> None:
    with SparkCluster(query.options.client) as cluster:
        transactions = SinkTransactions(cluster)
        first, _ = query.write(0, 0), query.write(0, 1)
        from minikafka.spark.write.exactly_once import Marker

        marker = Marker(query.topic, 0, 2, first.rows, query.options.plan)
        assert first.producer is not None
        transactions.mark(first.producer, first.task.name, first.topic, marker)
        transactions.end(first.producer, committed=True)
    again = query.run(0)
    assert [result.marker is None for result in again] == [False, True]
    assert query.committed() == expected(1)


def test_an_attempt_that_lives_on_is_fenced(query: Query) -> None:
    """A zombie's driver cannot commit what a later attempt has taken over."""
    zombies = [query.write(0, 0), query.write(0, 1)]
    query.run(0)
    with pytest.raises(KafkaError, match=r"EPOCH|FENCED"):
        commit_batch(zombies, query.options)
    assert query.committed() == expected(1)


def test_an_aborted_batch_is_written_again(query: Query) -> None:
    abort_batch([query.write(0, 0), query.write(0, 1)], query.options)
    query.run(0)
    assert query.committed() == expected(1)


def test_aborting_a_batch_on_a_dead_cluster_takes_one_time_out(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in one for each of its tasks."""
    ended = []

    def end(self: SinkTransactions, producer: object, committed: bool) -> None:
        ended.append(producer)
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION)

    results = [replace(query.write(0, 0), task=Task(query.topic, 0, n)) for n in range(12)]
    monkeypatch.setattr(SinkTransactions, "end", end)
    abort_batch(results, query.options)
    assert len(ended) <= 4  # at a time


def test_tasks_without_rows_leave_nothing_open(query: Query) -> None:
    empty = write_task(iter([]), query.options, Task(query.topic, 0, 0))
    assert empty == TaskResult(Task(query.topic, 0, 0))
    commit_batch([empty, query.write(0, 1)], query.options)
    assert query.committed() == [b"0.1"] * 3


def test_a_plan_with_other_tasks_is_not_written_on_top(query: Query) -> None:
    query.run(0)
    query.tasks = 3
    with pytest.raises(PlanChangedError, match="by a plan of 2 tasks; now there are 3"):
        query.run(0)
    assert query.committed() == expected(1)


def test_nor_one_without_the_tasks_that_are_in(query: Query) -> None:
    empty = [TaskResult(Task(query.topic, 0, number)) for number in range(2)]
    commit_batch([*empty, query.write(0, 2)], query.options)
    with pytest.raises(PlanChangedError, match="by a plan of 3 tasks; now there are 2"):
        query.run(0)
    assert query.committed() == [b"0.2"] * 3


def test_other_columns_or_an_older_checkpoint_are_refused(query: Query) -> None:
    query.run(0)
    query.run(1)
    with pytest.raises(PlanChangedError, match="the checkpoint is older than the topic"):
        query.run(0)
    query.options = replace(query.options, plan="another")
    with pytest.raises(PlanChangedError, match="with other columns"):
        query.run(1)
    assert query.committed() == expected(2)


def test_a_transaction_that_timed_out_cannot_be_committed(query: Query) -> None:
    query.options = replace(query.options, transaction_timeout_ms=1000)
    results = [query.write(0, 0)]

    def aborted() -> bool:
        rows = consume(query.bootstrap, query.topic, 3, "read_uncommitted")
        with SparkCluster(query.options.client) as cluster:
            from minikafka.kernel.cluster import TopicPartition

            read_committed = replace(query.options.client, read_committed=True)
            with SparkCluster(read_committed) as stable:
                partitions = [TopicPartition(query.topic, number) for number in range(3)]
                ends = dict.fromkeys(partitions, -1)
                return len(rows) == 3 and stable.list_offsets(ends) == cluster.list_offsets(ends)

    while not aborted():
        pass
    with pytest.raises(KafkaError):
        commit_batch(results, query.options)
    query.tasks = 1
    query.run(0)
    assert query.committed() == expected(1, tasks=1)
