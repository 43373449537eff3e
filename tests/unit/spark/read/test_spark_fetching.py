"""A planned range of a partition that stalls, ends early, or is read by a slow Spark: no broker."""

from __future__ import annotations

from collections import deque
from typing import Any
from uuid import UUID

import pytest

pa = pytest.importorskip("pyarrow")

from minikafka.core.client.cluster_view import PartitionView, TopicView  # noqa: E402
from minikafka.kernel.cluster import ZERO_UUID  # noqa: E402
from minikafka.kernel.errors import ErrorCode, KafkaError  # noqa: E402
from minikafka.protocol.messages.fetch import (  # noqa: E402
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from minikafka.protocol.records.builder import build_batch  # noqa: E402
from minikafka.spark.client_options import ClientOptions  # noqa: E402
from minikafka.spark.read import fetching as module  # noqa: E402
from minikafka.spark.read.fetching import RangeReader  # noqa: E402
from minikafka.spark.read.planning import DataLossError, OffsetRange  # noqa: E402

pytestmark = pytest.mark.mission("SPK-2")

SCHEMA = pa.schema([("offset", pa.int64())])
TIMEOUT_MS = 120_000
OLD, NEW = UUID(int=1), UUID(int=2)


class FakeBroker:
    """One partition whose log has a record at every offset below ``end``; a fetch brings two, or
    nothing 30 s later. ``lost``: answers that are a connection's end instead."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.at_end: int | None = None  # what it says its end is, if not the truth
        self.lost: deque[bool] = deque()
        self.errors: deque[ErrorCode] = deque()  # of the partition, in the next responses
        self.epochs: list[int] = []  # of the leader, as requests name them
        self.passed_ms = 0.0
        self.topics: dict[str, Any] = {"t": TopicView("t", OLD)}
        self.recreated = False
        self.named: list[tuple[UUID, int]] = []  # the topic ids of requests, and their versions
        self.options = ClientOptions(())
        self.connections: list[FakeConnection] = []

    def leader(self, _: Any, topic_id: UUID = ZERO_UUID) -> int:
        if self.recreated:
            self.topics["t"] = TopicView("t", NEW)
            if topic_id == OLD:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "topic t was created again")
        return 1

    def retrying(self, ask: Any, what: str, final: Any = ()) -> Any:
        return ask()

    def backoff_ms(self, code: ErrorCode, failures: int) -> int:
        return 0

    def list_offsets(self, timestamps: Any) -> Any:
        return dict.fromkeys(timestamps, self.end if self.at_end is None else self.at_end)

    def connection_to(self, _: int) -> FakeConnection:
        self.connections.append(FakeConnection(self))
        return self.connections[-1]

    def monotonic_ms(self) -> float:
        return self.passed_ms


class FakeConnection:
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._offset = 0
        self.in_flight = 0
        self.is_open = True

    def send(self, request: Any, highest_version: int) -> None:
        (row,) = request.topics[0].partitions
        self._offset = row.fetch_offset
        self._broker.named.append((request.topics[0].topic_id, highest_version))
        self._broker.epochs.append(row.current_leader_epoch)
        self.in_flight += 1

    def receive(self) -> FetchResponse:
        self.in_flight -= 1
        if self._broker.lost and self._broker.lost.popleft():
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "closed by the broker")
        count = min(2, self._broker.end - self._offset)
        if count:
            records = build_batch([(1, None, b"", [])] * count, base_offset=self._offset)
        else:
            self._broker.passed_ms += 30_000
            records = b""
        code = self._broker.errors.popleft() if self._broker.errors else ErrorCode.NONE
        data = PartitionData(partition_index=0, error_code=code, records=memoryview(records))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    there = FakeBroker(4)
    monkeypatch.setattr(module, "WallClock", lambda: there)
    monkeypatch.setattr(module, "pause", lambda _: None)
    return there


def reader_of(
    broker: FakeBroker, end: int, fail_on_data_loss: bool, topic_id: UUID = OLD
) -> RangeReader:
    wanted = OffsetRange("t", 0, 0, end, topic_id)
    return RangeReader(broker, wanted, fail_on_data_loss, TIMEOUT_MS)  # type: ignore[arg-type]


def offsets(reader: RangeReader) -> list[int]:
    return [o for rows in reader.read(SCHEMA) for o in rows.column(0).to_pylist()]


def test_a_log_that_ends_before_the_range_is_a_loss(broker: FakeBroker) -> None:
    """The log was truncated, or its topic was created again on brokers without topic ids."""
    with pytest.raises(DataLossError, match=r"no record at offset 4 or later .* the log ends at 4"):
        offsets(reader_of(broker, 9, fail_on_data_loss=True))
    assert broker.passed_ms == TIMEOUT_MS


def test_a_query_that_may_lose_data_goes_on_where_a_log_ends(broker: FakeBroker) -> None:
    reader = reader_of(broker, 9, fail_on_data_loss=False)
    assert offsets(reader) == [0, 1, 2, 3]
    assert reader.position == 9


def test_a_broker_that_does_not_tell_is_no_loss(broker: FakeBroker) -> None:
    broker.at_end = 9
    with pytest.raises(KafkaError, match="no record at offset 4 or later"):
        offsets(reader_of(broker, 9, fail_on_data_loss=False))


def test_spark_may_take_its_time_between_two_batches_of_rows(broker: FakeBroker) -> None:
    """A broker closes connections that are idle for ten minutes."""
    seen = []
    broker.lost = deque([False, True])
    for rows in reader_of(broker, 4, fail_on_data_loss=True).read(SCHEMA):
        seen += rows.column(0).to_pylist()
        broker.passed_ms += 10 * TIMEOUT_MS
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID],
)
def test_a_retriable_error_of_the_partition_is_fetched_over(
    broker: FakeBroker, code: ErrorCode
) -> None:
    """OFFSET_NOT_AVAILABLE: a new leader does not know its high watermark yet."""
    broker.errors = deque([code, code])
    assert offsets(reader_of(broker, 4, fail_on_data_loss=True)) == [0, 1, 2, 3]


def test_a_batch_that_the_broker_finds_corrupt_is_reported(broker: FakeBroker) -> None:
    broker.errors = deque([ErrorCode.CORRUPT_MESSAGE])
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: fetching t-0 at 0"):
        offsets(reader_of(broker, 4, fail_on_data_loss=True))


def test_a_fetch_names_the_leader_epoch_that_is_known(broker: FakeBroker) -> None:
    """A leader of an older epoch would otherwise serve what was cut since."""
    broker.topics["t"] = TopicView("t", partitions={0: PartitionView(0, 1, leader_epoch=5)})
    assert offsets(reader_of(broker, 4, fail_on_data_loss=True)) == [0, 1, 2, 3]
    assert broker.epochs == [5, 5]


@pytest.mark.mission("SPS-2")
def test_the_next_task_gets_the_connection_of_a_range_that_was_read_to_its_end(
    broker: FakeBroker,
) -> None:
    assert offsets(reader_of(broker, 4, fail_on_data_loss=True)) == [0, 1, 2, 3]
    assert [each.is_open for each in broker.connections] == [True]


@pytest.mark.mission("SPS-2")
def test_a_task_that_ends_early_closes_the_connection(broker: FakeBroker) -> None:
    """The next fetch is in flight then, and another task would get its response."""
    rows = iter(reader_of(broker, 4, fail_on_data_loss=True).read(SCHEMA))
    next(rows)
    assert broker.connections[0].is_open
    rows.close()  # type: ignore[attr-defined]
    assert not broker.connections[0].is_open


@pytest.mark.parametrize(("topic_id", "version"), [(OLD, 13), (ZERO_UUID, 12)])
def test_a_fetch_gives_the_id_of_the_topic_if_it_is_known(
    broker: FakeBroker, topic_id: UUID, version: int
) -> None:
    """The leader checks it when it reads the log; the metadata of the client may be stale."""
    assert offsets(reader_of(broker, 4, True, topic_id)) == [0, 1, 2, 3]
    assert broker.named == [(topic_id, version)] * 2


def test_a_topic_created_again_amid_a_range_is_a_loss(
    broker: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The leader refuses the id, and so the metadata are looked up."""
    broker.end = 9
    broker.errors = deque([ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID])
    loss = (
        "t-0 at offset 2: topic t was deleted and created again: its id was "
        "AAAAAAAAAAAAAAAAAAAAAQ and is AAAAAAAAAAAAAAAAAAAAAg now"
    )
    rows = reader_of(broker, 9, fail_on_data_loss=True).read(SCHEMA)
    assert next(rows).column(0).to_pylist() == [0, 1]
    broker.recreated = True
    with pytest.raises(DataLossError, match=loss):
        next(rows)
    assert offsets(reader_of(broker, 9, fail_on_data_loss=False)) == []
    assert "minikafka: data loss: t-0 at offset 0: topic t was" in capsys.readouterr().err
