"""Checkpoints in Spark's file format, and the rows of `pipeline status` for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.pipeline.checkpoints import (
    checkpoint_folder,
    find_checkpoints,
    read_checkpoint,
)
from minikafka.spark.pipeline.status import FlowStatus, flow_statuses

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
        flow._replace(topic="t", partition=0, next=1, end=11, lag=10),
        flow._replace(topic="t", partition=1, next=2, end=1, lag=0),
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
