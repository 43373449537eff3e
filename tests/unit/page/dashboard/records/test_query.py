"""Queries of records, where reading begins, and how far it is."""

from __future__ import annotations

import pytest

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.page.dashboard.records.places import (
    LogBounds,
    first_offsets,
    in_order,
    positions,
    progress,
    share,
    upper_bounds,
)
from minikafka.page.dashboard.records.query import (
    LONGEST_WAIT_MS,
    MOST_RECORDS,
    ReadQuery,
    Wanted,
    parse_query,
)


def record(offset: int, partition: int = 0, timestamp: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, timestamp, b"k", b"v", (), 0)


@pytest.mark.mission("GLASS-26")
def test_a_query_is_bounded() -> None:
    least = parse_query({"topic": "t"})
    assert least == ReadQuery("t", limit=100)
    words = {
        "topic": "t",
        "partition": "3",
        "from": "last:7",
        "limit": "100000",
        "wait": "600000",
        "contains": "é",
        "uncommitted": "1",
        "next": "",
    }
    assert parse_query(words) == ReadQuery(
        "t",
        partition=3,
        start="last",
        number=7,
        limit=7,
        wanted=Wanted("é"),
        wait_ms=LONGEST_WAIT_MS,
        uncommitted=True,
    )
    assert parse_query({**words, "from": "earliest"}).limit == MOST_RECORDS
    assert parse_query({"topic": "t", "next": "0:17,1:5"}).positions == {0: 17, 1: 5}
    assert parse_query({"topic": "t", "full": "1", "limit": "9"}).limit == 1


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "topic"),
        ({"topic": "a/b"}, "topic"),
        ({"topic": "t", "from": "last"}, "from"),
        ({"topic": "t", "from": "offset:-1"}, "from"),
        ({"topic": "t", "from": "time:" + "9" * 30}, "from"),
        ({"topic": "t", "partition": "x"}, "partition"),
        ({"topic": "t", "limit": "-1"}, "limit"),
        ({"topic": "t", "limit": "²"}, "limit"),
        ({"topic": "t", "next": "0"}, "next"),
        ({"topic": "t", "before": "0:-1"}, "before"),
        ({"topic": "t", "until": "soon"}, "until"),
        ({"topic": "t", "value_as": "morse"}, "value_as"),
        ({"topic": "t", "transaction": "lost"}, "transaction"),
        ({"topic": "t", "transaction": "open"}, "transaction=open"),
    ],
)
def test_wrong_parameters_are_named(words: dict[str, str], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} needs"):
        parse_query(words)


@pytest.mark.mission("GLASS-26")
@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ({"from": "earliest"}, {0: 5, 1: 0}),
        ({"from": "latest"}, {0: 100, 1: 10}),
        ({"from": "last:20"}, {0: 100, 1: 10}),  # on from there, after the newest
        ({"from": "offset:3"}, {0: 5, 1: 3}),
        ({"from": "offset:1000"}, {0: 100, 1: 10}),
        ({"from": "time:9"}, {0: 50, 1: 10}),
        ({"next": "0:70", "from": "latest"}, {0: 70, 1: 10}),
        ({"next": "0:2,1:99,7:7"}, {0: 5, 1: 10}),
    ],
)
def test_reading_begins_within_the_log(words: dict[str, str], offsets: dict[int, int]) -> None:
    logs = {0: LogBounds(5, 100, 50), 1: LogBounds(0, 10, None)}
    query = parse_query({"topic": "t", **words})
    assert positions(query, logs, first_offsets(query, logs)) == offsets


@pytest.mark.mission("GLASS-110")
def test_progress_counts_the_records_of_the_whole_query() -> None:
    logs = {0: LogBounds(5, 100, 50), 1: LogBounds(0, 10, None)}
    query = parse_query({"topic": "t", "from": "time:9", "next": "0:70,1:10"})
    first = first_offsets(query, logs)
    assert progress(first, positions(query, logs, first), logs) == (20, 50)
    assert upper_bounds(parse_query({"topic": "t", "before": "0:7,1:99"}), logs) == {0: 7, 1: 10}


def test_partitions_take_turns() -> None:
    assert share(33, {}, [0, 1, 2]) == [0, 1, 2]
    assert share(33, {0: 33}, [0, 1, 2]) == [1, 2]
    assert share(33, {0: 33, 1: 33, 2: 33}, [0, 1, 2]) == [0, 1, 2]
    assert share(1, {0: 1}, [0, 1, 2]) == [1, 2]
    assert share(1, {0: 9}, []) == []


@pytest.mark.mission("GLASS-26")
def test_records_of_all_partitions_come_by_time_and_keep_their_order() -> None:
    rows = [record(0, timestamp=5), record(1, timestamp=1), record(7, partition=1, timestamp=3)]
    assert [(row.partition, row.offset) for row in in_order(rows)] == [(1, 7), (0, 0), (0, 1)]
