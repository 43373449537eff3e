"""The newest records of all partitions by windows that grow downwards, against a sort of all."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.page.dashboard.records import newest as newest_module
from minikafka.page.dashboard.records.newest import Newest, Passed

Row = tuple[int, int]  # partition, offset


class Stored(NamedTuple):
    offset: int
    time: int
    matches: bool


@st.composite
def logs(draw: st.DrawFn) -> dict[int, list[Stored]]:
    """Partitions with gaps in their offsets, and with times that may go backwards."""
    steps = st.tuples(st.integers(1, 12), st.integers(-3, 6), st.booleans())
    found: dict[int, list[Stored]] = {}
    for partition in range(draw(st.integers(1, 4))):
        offset, time = draw(st.integers(0, 5)), 10
        found[partition] = rows = []
        for gap, later, matches in draw(st.lists(steps, max_size=40)):
            offset, time = offset + gap, time + later
            rows.append(Stored(offset, time, matches))
    return found


def end_of(rows: list[Stored]) -> int:
    return rows[-1].offset + 3 if rows else 7  # markers follow


def step(
    partitions: dict[int, list[Stored]], before: dict[int, int], limit: int, budget: int | None
) -> Passed[Row]:
    """Read as the shell does; with a budget only until so many records have been read."""
    newest: Newest[Row] = Newest(dict.fromkeys(before, 0), before, limit, budget or 100)
    read = 0
    while (budget is None or read < budget) and (wanted := newest.wanted()):
        for partition, (low, high) in wanted.items():
            for row in partitions[partition]:
                if low <= row.offset < high:
                    read += 1
                    shown = row.matches and row.time >= newest.threshold
                    item = (partition, row.offset) if shown else None
                    newest.add(partition, row.offset, row.time, item, 1 if shown else 0)
            newest.read(partition)
    return newest.passed()


def times(partitions: dict[int, list[Stored]]) -> dict[Row, int]:
    """The slow twin: no record is newer than those after it in its partition."""
    found = {}
    for partition, rows in partitions.items():
        latest = 10**9
        for row in reversed(rows):
            latest = min(latest, row.time)
            if row.matches:
                found[partition, row.offset] = latest
    return found


@pytest.mark.mission("GLASS-111")
@given(logs(), st.integers(1, 9))
def test_pages_have_each_record_once_and_newest_first(
    partitions: dict[int, list[Stored]], limit: int
) -> None:
    expected = times(partitions)
    before = {partition: end_of(rows) for partition, rows in partitions.items()}
    seen: list[Row] = []
    while any(before.values()):
        rows, before = step(partitions, before, limit, None)
        assert len(rows) <= limit
        seen += rows
    assert len(seen) == len(set(seen))
    assert [expected[row] for row in seen] == sorted(expected.values(), reverse=True)


@pytest.mark.mission("GLASS-111")
@given(logs(), st.integers(1, 9), st.integers(1, 30))
def test_each_step_gets_on_however_little_it_may_read(
    partitions: dict[int, list[Stored]], limit: int, budget: int
) -> None:
    before = {partition: end_of(rows) for partition, rows in partitions.items()}
    seen: list[Row] = []
    while any(before.values()):
        rows, after = step(partitions, before, limit, budget)
        assert after != before
        assert all(after[partition] <= at for partition, at in before.items())
        seen, before = seen + rows, after
    assert sorted(seen) == sorted(times(partitions))
    for partition in partitions:
        offsets = [offset for number, offset in seen if number == partition]
        assert offsets == sorted(offsets, reverse=True)


def test_rows_that_take_too_much_memory_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_module, "MOST_KEPT_BYTES", 10)
    partitions = {0: [Stored(offset, offset, True) for offset in range(64)]}
    rows, before = step(partitions, {0: 64}, 32, None)
    assert rows[0] == (0, 63)
    assert 5 <= len(rows) <= 10
    assert before == {0: 64 - len(rows)}


def test_a_partition_with_few_records_is_not_read_far_ahead() -> None:
    """A search reads the busy partition; the quiet ones are far back in time already."""
    newest: Newest[Row] = Newest({0: 0, 1: 0}, {0: 10_000, 1: 10_000}, 5, 1_000)
    apart = {0: 1, 1: 1_000}  # ms between two records
    read = {0: 0, 1: 0}
    for _ in range(6):
        for partition, (low, high) in newest.wanted().items():
            for offset in range(low, high):
                newest.add(partition, offset, 10**8 - (9_999 - offset) * apart[partition], None)
            read[partition] += high - low
            newest.read(partition)
    assert read[0] > 10 * read[1]
