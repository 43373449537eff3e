"""dump-log decodes the coordinator's records into Kafka's text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.main import main
from tests.support.coordinator.group_lab import GroupLab

METADATA = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"
ASSIGNMENT = b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xff"


def test_a_group_in_dump_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = GroupLab()
    joined = lab.join(new_id="m1", instance="i", metadata=METADATA)
    lab.clock.advance(6_000)
    generation = joined[0].generation_id
    lab.sync("m1", generation, {"m1": ASSIGNMENT}, instance="i")
    lab.commit({("t", 0): 42}, "m1", generation, metadata="so far", instance="i")
    lab.clock.advance(60_000)  # its session ends
    lab.coordinator.delete_groups(["g"], lambda errors: None)
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"".join(lab.log.batches))
    assert main(["dump-log", "--offsets-decoder", "--files", str(log)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " key: " in line]
    shown: list[tuple[Any, Any]] = [
        (json.loads(key), payload if payload == "<DELETE>" else json.loads(payload))
        for key, payload in (line.split(" key: ")[1].split(" payload: ") for line in lines)
    ]
    group = {"type": "2", "data": {"group": "g"}}
    offset = {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    assert [key for key, _ in shown] == [group, offset, group, offset, group]
    stable = shown[0][1]["data"]
    assert (stable["generation"], stable["protocol"], stable["leader"]) == (1, "range", "m1")
    (member,) = stable["members"]
    assert member["groupInstanceId"] == "i"
    assert member["subscription"]["topics"] == ["t"]
    assert member["assignment"]["assignedPartitions"] == [{"topic": "t", "partitions": [0]}]
    assert shown[1][1]["data"]["offset"] == 42
    assert shown[1][1]["data"]["metadata"] == "so far"
    assert shown[2][1]["data"]["members"] == []
    assert [payload for _, payload in shown[3:]] == ["<DELETE>", "<DELETE>"]
