"""Checkpoints in Spark's file format, and the rows of `pipeline status` for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.pipeline.checkpoints import (
    checkpoint_folder,
    find_checkpoints,
    read_checkpoint,
)
from minikafka.spark.pipeline.status import EndOffsets, FlowStatus, flow_statuses, samples
from minikafka.spark.query_metrics import metrics_text
from minikafka.spark.read.offsets import with_topic_ids

TABLE = ("spark_catalog", "default", "hourly")


def write_checkpoint(folder: Path, offsets: list[list[Any]], commits: int) -> None:
    """Write a checkpoint. ``offsets`` has the lines of the sources for each batch; the first
    ``commits`` batches are completed."""
    for log in ("offsets", "commits"):
        (folder / log).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q-1"}')
    for batch, sources in enumerate(offsets):
        header = {"batchWatermarkMs": 5, "batchTimestampMs": 1000 * batch, "conf": {}}
        lines = [
            "v1",
            json.dumps(header),
            *(each if each == "-" else json.dumps(each) for each in sources),
        ]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
        (folder / "offsets" / f".{batch}.crc").touch()
    for batch in range(commits):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_status_shows_the_offsets_after_the_last_completed_batch(tmp_path: Path) -> None:
    sources = [[{"t": {"0": n, "1": 2 * n}}, {"logOffset": n}, "-"] for n in range(3)]
    write_checkpoint(tmp_path, sources, 2)
    point = read_checkpoint(tmp_path, "sink", "flow")
    assert (point.query_id, point.batch, point.planned, point.at_ms) == ("q-1", 1, 2, 1000)
    assert point.sources == ({TopicPartition("t", 0): 1, TopicPartition("t", 1): 2},)
    ends = {TopicPartition("t", 0): 11, TopicPartition("t", 1): 1}
    flow = FlowStatus("flow", "sink", 1, 2, "1970-01-01T00:00:01+00:00")
    assert list(flow_statuses(point, ends)) == [
        flow._replace(topic="t", partition=0, next=1, end=11, lag=10, per_s=1.0),
        flow._replace(topic="t", partition=1, next=2, end=1, lag=0, per_s=2.0),
    ]


def test_status_has_one_row_without_topic_before_the_first_batch_is_completed(
    tmp_path: Path,
) -> None:
    write_checkpoint(tmp_path, [[{"t": {"0": 1}}]], 0)
    point = read_checkpoint(tmp_path, "sink", "flow")
    assert (point.batch, point.planned, point.sources) == (-1, 0, ())
    assert list(flow_statuses(point, {})) == [FlowStatus("flow", "sink", -1, 0, None)]


def test_the_newest_checkpoint_of_each_flow_is_found(tmp_path: Path) -> None:
    """Each full refresh starts a folder with the next number. Folder 10 is newer than folder 9."""
    flow = Path(checkpoint_folder(str(tmp_path), TABLE, "flow"))
    for number in (0, 9, 10):
        write_checkpoint(flow / str(number), [[{"t": {"0": number}}]], 1)
    other = Path(checkpoint_folder(str(tmp_path), ["sink"], "other"))
    write_checkpoint(other / "0", [["-"]], 1)
    (flow / "10" / "state" / "0" / "0").mkdir(parents=True)
    found = {(each.target, each.flow): each for each in find_checkpoints(tmp_path)}
    assert set(found) == {("spark_catalog.default.hourly", "flow"), ("sink", "other")}
    assert found["spark_catalog.default.hourly", "flow"].sources == ({TopicPartition("t", 0): 10},)
    rows = [row for each in find_checkpoints(tmp_path) for row in flow_statuses(each, {})]
    assert [(row.flow, row.next, row.end, row.lag) for row in rows] == [
        ("other", None, None, None),
        ("flow", 10, None, None),
    ]


def test_a_pipeline_that_never_ran_has_no_checkpoints(tmp_path: Path) -> None:
    assert list(find_checkpoints(tmp_path / "state")) == []


@pytest.mark.mission("SPO-3")
def test_the_rate_is_that_of_the_last_minute(tmp_path: Path) -> None:
    """Batches begin a second apart; the first ones are older than a minute."""
    sources = [[{"t": {"0": 10 * n, "1": 0}}] for n in range(70)]
    sources[3] = [{"t": {"0": 0, "1": 0}}]
    write_checkpoint(tmp_path, sources, 70)
    first, second = flow_statuses(read_checkpoint(tmp_path, "sink", "flow"), {})
    assert (first.per_s, second.per_s) == (10.0, 0.0)


@pytest.mark.mission("SPO-3")
def test_a_topic_that_was_created_again_has_neither_rate_nor_lag(tmp_path: Path) -> None:
    """The next offset of the flow is one of the deleted topic."""
    old, new = UUID(int=1), UUID(int=2)
    sources = [[with_topic_ids({"t": {"0": 10 * n}, "u": {"0": n}}, {"t": old})] for n in range(3)]
    write_checkpoint(tmp_path / "old", sources, 3)
    sources.append([with_topic_ids({"t": {"0": 4}, "u": {"0": 3}}, {"t": new})])
    write_checkpoint(tmp_path / "new", sources, 4)
    ends = EndOffsets({TopicPartition("t", 0): 30, TopicPartition("u", 0): 9}, {"t": new, "u": new})
    found = {}
    for name in ("old", "new"):
        point = read_checkpoint(tmp_path / name, "sink", "flow")
        rows = flow_statuses(point, ends.for_flow(point))
        found[name] = [(row.next, row.lag, row.per_s) for row in rows]
    assert found == {
        "old": [(20, None, 10.0), (2, 7, 1.0)],
        "new": [(4, 26, None), (3, 6, 1.0)],
    }


@pytest.mark.mission("SPO-3")
def test_one_batch_has_no_rate(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, [[{"t": {"0": 10}}]], 1)
    (row,) = flow_statuses(read_checkpoint(tmp_path, "sink", "flow"), {})
    assert (row.next, row.per_s) == (10, None)


@pytest.mark.mission("SPO-3")
def test_the_metrics_of_a_status(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, [[{"t": {"0": n}}] for n in range(3)], 3)
    point = read_checkpoint(tmp_path, "sink", "flow")
    rows = [*flow_statuses(point, {TopicPartition("t", 0): 12}), FlowStatus("f", "s", -1, 0, None)]
    prefix, of_flow = "minikafka_spark_query_", '{pipeline="shop",query="flow",target="sink"'
    lines = [line for line in metrics_text(samples("shop", rows)).splitlines() if line[0] != "#"]
    assert [line.removeprefix(prefix) for line in lines] == [
        f"last_batch{of_flow}}} 2",
        'last_batch{pipeline="shop",query="f",target="s"} -1',
        f"last_batch_timestamp_seconds{of_flow}}} 2.0",
        f'next_offset{of_flow},topic="t",partition="0"}} 2',
        f'end_offset{of_flow},topic="t",partition="0"}} 12',
        f'lag{of_flow},topic="t",partition="0"}} 10',
        f'offsets_per_second{of_flow},topic="t",partition="0"}} 1.0',
    ]
