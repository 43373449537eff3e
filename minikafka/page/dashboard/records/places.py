"""Where reading begins and ends in the partitions of a topic, and how far it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.page.dashboard.records.query import LAST, ReadQuery


class LogBounds(NamedTuple):
    """The offsets of a partition: the first, the one after the last that can be read, and the one
    that was looked up by time, if any."""

    begin: int
    end: int
    at_time: int | None = None


class SearchProgress(NamedTuple):
    """How many records of a query have been looked at, by their offsets."""

    done: int
    of: int


def first_offsets(query: ReadQuery, logs: Mapping[int, LogBounds]) -> dict[int, int]:
    """Return where a query begins in each partition, were it not the continuation of another one;
    within the log, whatever was asked for."""
    return {number: _within(log, _first(query, log)) for number, log in logs.items()}


def positions(
    query: ReadQuery, logs: Mapping[int, LogBounds], first: Mapping[int, int]
) -> dict[int, int]:
    """Return where to go on in each partition, within the log."""
    given = query.positions or {}
    return {number: _within(log, given.get(number, first[number])) for number, log in logs.items()}


def upper_bounds(query: ReadQuery, logs: Mapping[int, LogBounds]) -> dict[int, int]:
    """Return before which offset to read the last records of each partition."""
    given = query.before or {}
    return {number: _within(log, given.get(number, log.end)) for number, log in logs.items()}


def progress(
    first: Mapping[int, int], now: Mapping[int, int], logs: Mapping[int, LogBounds]
) -> SearchProgress:
    return SearchProgress(
        sum(max(0, now[number] - offset) for number, offset in first.items()),
        sum(max(0, logs[number].end - offset) for number, offset in first.items()),
    )


def _within(log: LogBounds, offset: int) -> int:
    return max(log.begin, min(log.end, offset))


def _first(query: ReadQuery, log: LogBounds) -> int:
    match query.start:
        case "latest":
            return log.end
        case "offset":
            return query.number
        case "time":
            return log.end if log.at_time is None else log.at_time
        case _:
            return log.end if query.start == LAST else log.begin


def share(step: int, taken: Mapping[int, int], partitions: Sequence[int]) -> list[int]:
    """Return the partitions to read from next: those that have given the fewest records, by less
    than ``step``, so that the first page is not of one partition only."""
    if not partitions:
        return []
    least = min(taken.get(partition, 0) for partition in partitions)
    return [partition for partition in partitions if taken.get(partition, 0) < least + step]


def in_order(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """Order the records of all partitions by time; those of one partition keep their order."""
    latest: dict[int, int] = {}
    rows: list[tuple[int, int, int, ConsumerRecord]] = []
    for record in records:
        at = latest[record.partition] = max(latest.get(record.partition, -1), record.timestamp)
        rows.append((at, record.partition, record.offset, record))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:3])]
