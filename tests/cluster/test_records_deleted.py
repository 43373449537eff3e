"""The verb delete-records against real brokers, and what is left after kill -9 of all of them."""

from __future__ import annotations

import json
import signal
import uuid
from functools import partial
from pathlib import Path

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.mission("DOP-8"),
]
COUNT = 8


@pytest.fixture
def topic(trio: RealCluster) -> str:
    """With so many records in each of two partitions, on three brokers."""
    name = f"deleted-{uuid.uuid4().hex[:8]}"
    trio.create_topic(name, partitions=2)
    lines = "".join(f"{number}\n" for number in range(COUNT))
    for partition in ("0", "1"):
        done = run_verb(
            *("produce", "--bootstrap-server", trio.bootstrap, "--topic", name),
            *("--partition", partition),
            stdin=lines,
        )
        assert done.returncode == 0, done.stderr
    return name


def offsets_file(directory: Path, topic: str, *offsets: int) -> str:
    rows = [{"topic": topic, "partition": p, "offset": o} for p, o in enumerate(offsets)]
    path = directory / "offsets.json"
    path.write_text(json.dumps({"partitions": rows, "version": 1}))
    return str(path)


def left(trio: RealCluster, topic: str, partition: int) -> list[str]:
    done = run_verb(
        *("consume", "--bootstrap-server", trio.bootstrap, "--topic", topic),
        *("--partition", str(partition), "--from-beginning", "--timeout-ms", "10000"),
    )
    return str(done.stdout).split()


def test_deleted_records_stay_deleted_after_kill_9(
    trio: RealCluster, topic: str, tmp_path: Path
) -> None:
    verb = ("delete-records", "--bootstrap-server", trio.any_broker, "--offset-json-file")
    done = run_verb(*verb, offsets_file(tmp_path, topic, 5, -1))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"partition: {topic}-0\tlow_watermark: 5",
        f"partition: {topic}-1\tlow_watermark: {COUNT}",
    ]
    for broker_id in trio.broker_ids:
        trio.end_broker(broker_id, signal.SIGKILL)
    for broker_id in trio.broker_ids:
        trio.restart_broker(broker_id)
    trio.until_whole()
    # The first consumers may find no leader in time.
    found = until(partial(left, trio, topic, 0), "the records that were left")
    assert found == ["5", "6", "7"]
    assert left(trio, topic, 1) == []
    for broker_id in trio.broker_ids:
        starts = trio.data(broker_id) / "log-start-offset-checkpoint"
        until(
            partial(lambda s: f"{topic} 0 5\n" in s.read_text(), starts),
            f"broker {broker_id} knows",
        )


def test_refusals_in_kafkas_lines_and_as_json(
    trio: RealCluster, topic: str, tmp_path: Path
) -> None:
    verb = ("delete-records", "--bootstrap-server", trio.any_broker, "--offset-json-file")
    path = offsets_file(tmp_path, topic, COUNT + 1, 1, 0)
    done = run_verb(*verb, path)
    assert done.returncode == 1
    first, second, third = done.stdout.splitlines()
    assert first.startswith(f"partition: {topic}-0\terror: ")
    assert second == f"partition: {topic}-1\tlow_watermark: 1"
    assert third.startswith(f"partition: {topic}-2\terror: ")
    done = run_verb(*verb, path, "--json")
    assert done.returncode == 1
    rows = json.loads(done.stdout)
    assert [(row["partition"], row["low_watermark"]) for row in rows] == [
        (0, None),
        (1, 1),
        (2, None),
    ]
