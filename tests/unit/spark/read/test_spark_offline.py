"""Reading a log directory: high watermark, last stable offset, aborted transactions, segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pa = pytest.importorskip("pyarrow")

from minikafka.core.log.open_transactions import ENTRY  # noqa: E402
from minikafka.core.log.small_files import (  # noqa: E402
    encode_offsets,
    encode_partition_metadata,
)
from minikafka.kernel.cluster import TopicPartition  # noqa: E402
from minikafka.protocol.records.builder import build_batch  # noqa: E402
from minikafka.protocol.records.control import (  # noqa: E402
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.spark.option_parsing import OptionError  # noqa: E402
from minikafka.spark.options import batch_options, stream_options  # noqa: E402
from minikafka.spark.read.offline import read_segment, segment_ranges  # noqa: E402
from minikafka.spark.read.planning import DataLossError  # noqa: E402

pytestmark = pytest.mark.mission("SPK-1")

P0 = TopicPartition("t", 0)
SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary())])


def plain(offset: int, *values: bytes) -> bytes:
    return build_batch([(1, None, value, []) for value in values], base_offset=offset)


def of_producer(offset: int, producer: int, *values: bytes) -> bytes:
    return build_batch(
        [(1, None, value, []) for value in values], base_offset=offset, producer_id=producer,
        producer_epoch=0, base_sequence=0, transactional=True,
    )  # fmt: skip


def marker(offset: int, producer: int, kind: ControlRecordType) -> bytes:
    key, value = encode_end_txn_marker(EndTxnMarker(kind, 0))
    return build_batch(
        [(1, key, value, [])], base_offset=offset, producer_id=producer, producer_epoch=0,
        transactional=True, control=True,
    )  # fmt: skip


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two segments; producer 1 aborts over both, 2 commits, 3 is open at the end, and a torn batch
    lies beyond the high watermark."""
    first = plain(0, b"a", b"b") + of_producer(2, 1, b"gone") + of_producer(3, 2, b"c")
    second = (
        marker(4, 2, ControlRecordType.COMMIT)
        + of_producer(5, 1, b"gone too")
        + marker(6, 1, ControlRecordType.ABORT)
        + of_producer(7, 1, b"d")
        + marker(8, 1, ControlRecordType.COMMIT)
        + of_producer(9, 3, b"open")
        + plain(10, b"e")
        + plain(11, b"not replicated")
        + plain(12, b"torn")[:-3]
    )
    log_dir = tmp_path / "data"
    partition = log_dir / "t-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(first)
    (partition / f"{4:020d}.log").write_bytes(second)
    (partition / f"{4:020d}.txnindex").write_bytes(ENTRY.pack(0, 1, 2, 6, 7))
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (log_dir / "u-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    (log_dir / "replication-offset-checkpoint").write_bytes(encode_offsets({P0: 11}))
    return log_dir


def rows(directory: Path, **more: str) -> list[tuple[int, bytes]]:
    given = {"path": str(directory), "subscribe": "t", **more}
    options = batch_options(given)
    return [
        (row["offset"], row["value"])
        for wanted in segment_ranges(directory, options)
        for batch in read_segment(wanted, SCHEMA, options)
        for row in batch.to_pylist()
    ]


COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_up_to_the_high_watermark(log_dir: Path) -> None:
    assert [offset for offset, _ in rows(log_dir)] == [0, 1, 2, 3, 5, 7, 9, 10]


def test_committed_records_up_to_the_last_stable_offset(log_dir: Path) -> None:
    expected = [(0, b"a"), (1, b"b"), (3, b"c"), (7, b"d")]
    assert rows(log_dir, **COMMITTED) == expected


def test_a_range_of_offsets_across_segments(log_dir: Path) -> None:
    more = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":8}}'}
    assert [value for _, value in rows(log_dir, **more, **COMMITTED)] == [b"b", b"c", b"d"]
    more = {"startingOffsets": '{"t":{"0":7}}', "endingOffsets": '{"t":{"0":-1}}'}
    assert [value for _, value in rows(log_dir, **more)] == [b"d", b"open", b"e"]


def test_deleted_records_are_a_loss(log_dir: Path) -> None:
    (log_dir / "log-start-offset-checkpoint").write_bytes(encode_offsets({P0: 1}))
    assert rows(log_dir, **COMMITTED)[0] == (1, b"b")
    more = {"startingOffsets": '{"t":{"0":0}}', **COMMITTED}
    with pytest.raises(DataLossError, match="t-0: offsets 0 to 0 are gone"):
        rows(log_dir, **more)
    assert rows(log_dir, failOnDataLoss="false", **more)[0] == (1, b"b")


def test_a_log_start_beyond_the_stored_high_watermark_is_an_empty_log(log_dir: Path) -> None:
    """A broker stores the two at different times."""
    (log_dir / "log-start-offset-checkpoint").write_bytes(encode_offsets({P0: 12}))
    assert rows(log_dir) == []


def test_an_end_that_cannot_be_reached_is_a_loss(log_dir: Path) -> None:
    more = {"endingOffsets": '{"t":{"0":11}}'}
    assert rows(log_dir, **more)[-1] == (10, b"e")
    with pytest.raises(DataLossError, match=r"t-0 can be read below offset 9, .* is 11"):
        rows(log_dir, **more, **COMMITTED)
    assert rows(log_dir, failOnDataLoss="false", **more, **COMMITTED)[-1] == (7, b"d")


def test_a_pattern_leaves_kafkas_own_topics_out(log_dir: Path) -> None:
    (log_dir / "__consumer_offsets-0").mkdir()
    marks = {P0: 11, TopicPartition("__consumer_offsets", 0): 9}
    (log_dir / "replication-offset-checkpoint").write_bytes(encode_offsets(marks))
    given = {"path": str(log_dir), "subscribePattern": ".*"}
    assert {each.topic for each in segment_ranges(log_dir, batch_options(given))} == {"t"}


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"subscribe": "u"}, "topic u is not in"),
        ({"startingTimestamp": "5"}, "timestamps are not looked up offline"),
        ({"startingOffsets": '{"t":{"1":0}}'}, "must specify all partitions"),
        ({"startingOffsets": '{"t":{"0":12}}'}, "start offset 12 is greater than end offset 11"),
    ],
)
def test_invalid_offline_reads_are_refused(
    log_dir: Path, more: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        rows(log_dir, **more)


def test_a_directory_that_is_no_log_directory_is_refused(log_dir: Path) -> None:
    with pytest.raises(OptionError) as refusal:
        rows(log_dir / "t-0")
    assert str(refusal.value) == (
        f"option path: {log_dir / 't-0'} is not a log directory (no meta.properties)"
    )
    with pytest.raises(OptionError, match=f"there is no directory {log_dir}/nowhere$"):
        rows(log_dir / "nowhere")


def test_a_copy_without_meta_properties_is_read(log_dir: Path) -> None:
    (log_dir / "meta.properties").unlink()
    assert rows(log_dir)[0] == (0, b"a")


def test_the_log_directories_in_a_brokers_folder_are_suggested(log_dir: Path) -> None:
    folder = log_dir.parent
    not_log_directory = f"option path: {folder} is not a log directory (no meta.properties)"
    with pytest.raises(OptionError) as refusal:
        rows(folder)
    assert str(refusal.value) == f"{not_log_directory}: did you mean {log_dir}?"
    (folder / "second").mkdir()
    (folder / "second" / "meta.properties").touch()
    with pytest.raises(OptionError) as refusal:
        rows(folder)
    assert str(refusal.value) == (
        f"{not_log_directory}: did you mean {log_dir} or {folder / 'second'}?"
    )


def test_a_stream_needs_brokers(log_dir: Path) -> None:
    with pytest.raises(ValueError, match="option path is for batches"):
        stream_options({"path": str(log_dir), "subscribe": "t"})


def test_a_topic_that_the_broker_created_again_after_the_plan(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The planned files have the names of those of the new topic."""
    given = {"path": str(log_dir), "subscribe": "t"}
    strict = batch_options(given)
    mild = batch_options({**given, "failOnDataLoss": "false"})
    metadata = log_dir / "t-0" / "partition.metadata"
    metadata.write_bytes(encode_partition_metadata(UUID(int=1)))
    segment, *_ = segment_ranges(log_dir, strict)
    assert sum(rows.num_rows for rows in read_segment(segment, SCHEMA, strict)) == 4
    metadata.write_bytes(encode_partition_metadata(UUID(int=2)))
    with pytest.raises(DataLossError, match="topic t was deleted and created again"):
        next(read_segment(segment, SCHEMA, strict))
    assert list(read_segment(segment, SCHEMA, mild)) == []
    assert "data loss: topic t was deleted" in capsys.readouterr().err
    metadata.unlink()  # as of a broker before 2.8
    assert sum(rows.num_rows for rows in read_segment(segment, SCHEMA, strict)) == 4
