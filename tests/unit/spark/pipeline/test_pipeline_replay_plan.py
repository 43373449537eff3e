"""The range of a replay, its options for the data source, and the plan that fixes its offsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.spark.options import TopicSelection
from minikafka.spark.pipeline import replay
from minikafka.spark.pipeline.replay import (
    ReplayPlan,
    parse_range,
    source_text,
    without_range,
)

ORDERS = TopicSelection(topics=("orders",))
MAY = 1714521600000


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("2024-05-01T00:00:00Z", {"startingtimestamp": str(MAY)}),
        ("2024-05-01", {"startingtimestamp": str(MAY)}),  # UTC
        ("2024-05-01T02:00:00+02:00", {"startingtimestamp": str(MAY)}),
        (f"{MAY}", {"startingtimestamp": str(MAY)}),
        ("earliest", {"startingoffsets": "earliest"}),
        ('{"orders":{"0":5},"x":{"0":1}}', {"startingoffsets": '{"orders": {"0": 5}}'}),
    ],
)
def test_a_start_is_a_time_or_offsets_or_an_edge(text: str, options: dict[str, str]) -> None:
    found = parse_range(text, "latest").options(ORDERS)
    assert found.pop("endingoffsets") == "latest"
    assert found.pop("startingoffsetsbytimestampstrategy") == "latest"
    assert found == options


@pytest.mark.parametrize("text", ["yesterday", "", '{"orders":[1]}', "2024-13-01"])
def test_an_invalid_edge_is_refused_with_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match="--to"):
        parse_range("earliest", text)


def test_a_source_gets_the_offsets_of_its_own_partitions() -> None:
    offsets = parse_range('{"a":{"0":1,"1":2},"b":{"0":3}}', "latest")
    pattern = TopicSelection(pattern="a|c")
    assert json.loads(offsets.options(pattern)["startingoffsets"]) == {"a": {"0": 1, "1": 2}}
    one = TopicSelection(partitions=(TopicPartition("a", 1),))
    assert json.loads(offsets.options(one)["startingoffsets"]) == {"a": {"1": 2}}
    assert [source_text(each) for each in (pattern, one, ORDERS)] == ["a|c", "a-1", "orders"]
    with pytest.raises(ConfigError, match="no offsets for orders"):
        offsets.options(ORDERS)


def test_range_options_of_a_stream_are_left_out() -> None:
    options = {
        "startingOffsets": "latest",
        "startingTimestamp": "1",
        "endingOffsetsByTimestamp": "{}",
        "maxOffsetsPerTrigger": "5",
        "minoffsetspertrigger": "5",
        "maxTriggerDelay": "1s",
        "subscribe": "orders",
        "failOnDataLoss": "false",
    }
    assert without_range(options) == {"subscribe": "orders", "failOnDataLoss": "false"}


def test_a_second_run_reads_the_offsets_of_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = iter([10, 99])

    def resolved(_options: Any) -> dict[str, Any]:
        return {"start": {"orders": {"0": 4}}, "end": {"orders": {"0": next(ends)}}}

    monkeypatch.setattr(replay, "_resolved_offsets", resolved)
    source = {"kafka.bootstrap.servers": "h:1", "subscribe": "orders", "startingoffsets": "latest"}
    for _ in range(2):
        plan = ReplayPlan.load(tmp_path, "may", "2024-05-01", "latest")
        options = plan.options(source)
        assert json.loads(options["startingoffsets"]) == {"orders": {"0": 4}}
        assert json.loads(options["endingoffsets"]) == {"orders": {"0": 10}}
        assert plan.records() == 6
    with pytest.raises(
        ConfigError, match=r"--sink-id may is a replay --from 2024-05-01 --to latest"
    ):
        ReplayPlan.load(tmp_path, "may", "2024-06-01", "latest")
    with pytest.raises(ConfigError, match="--sink-id a/b"):
        ReplayPlan.load(tmp_path, "a/b", "2024-06-01", "latest")


def test_a_second_run_notices_a_topic_that_was_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the same sink id other records would be taken for those of the first run."""
    orders = TopicPartition("orders", 0)
    current = {"orders": UUID(int=1)}

    class FakeCluster:
        def __init__(self, _: Any) -> None: ...

        def __enter__(self) -> FakeCluster:
            return self

        def __exit__(self, *_: object) -> None: ...

        def partitions(self, _: Any) -> list[TopicPartition]:
            return [orders]

        def partitions_there(self, _: Any, known_ids: Any) -> list[TopicPartition]:
            return [orders]

        def topic_ids(self, _: Any) -> dict[str, UUID]:
            return current

        def list_offsets(self, times: Any) -> dict[TopicPartition, int]:
            return dict.fromkeys(times, 7)

    monkeypatch.setattr(replay, "Cluster", FakeCluster)
    source = {"kafka.bootstrap.servers": "h:1", "subscribe": "orders"}
    for _ in range(2):
        plan = ReplayPlan.load(tmp_path, "may", "earliest", "latest")
        assert json.loads(plan.options(source)["endingoffsets"]) == {"orders": {"0": 7}}
    current["orders"] = UUID(int=2)
    plan = ReplayPlan.load(tmp_path, "may", "earliest", "latest")
    with pytest.raises(ConfigError, match=r"topic orders was deleted .* --sink-id may"):
        plan.options(source)
    other = ReplayPlan.load(tmp_path, "june", "earliest", "latest")
    assert json.loads(other.options(source)["endingoffsets"]) == {"orders": {"0": 7}}
