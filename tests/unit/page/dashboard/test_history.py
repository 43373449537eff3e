"""The last day of a cluster: rings, lag as time, the numbers of two looks, and the file."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.page.dashboard.history.end_times import MAX_POINTS, EndTimes
from minikafka.page.dashboard.history.figures import GroupNow, SampledCluster, TopicNow, figures
from minikafka.page.dashboard.history.history_api import lines
from minikafka.page.dashboard.history.ring import (
    COARSE_MS,
    FINE_MS,
    FINE_STEPS,
    MAX_SERIES,
    HistorySeries,
    PageHistory,
    Ring,
)
from minikafka.page.dashboard.history.store import HistoryStore, row

DAY_MS = 24 * 3_600_000
A, B = HistorySeries("topic", "a", "records"), HistorySeries("topic", "b", "records")
STEPS = st.lists(
    st.tuples(
        st.integers(-30, 400),  # ms later, or earlier: a clock is set back
        st.dictionaries(st.sampled_from([A, B]), st.integers(0, 1000).map(float)),
    ),
    max_size=60,
)


@pytest.mark.mission("GLASS-142")
@given(STEPS)
def test_a_ring_has_the_last_value_of_each_of_its_last_steps(
    steps: list[tuple[int, dict[HistorySeries, float]]],
) -> None:
    """A twin keeps every step by its number."""
    ring, twin, at_ms = Ring(100, 8), dict[int, dict[HistorySeries, float]](), 10_000
    for later, values in steps:
        at_ms += later
        number = at_ms // 100
        if number > max(twin, default=0) - 8 or number in twin:
            kept = [n for n in twin if n % 8 == number % 8]
            if all(n <= number for n in kept):
                ring.put(at_ms, values)
                for n in kept:
                    if n != number:
                        del twin[n]
                twin[number] = {**twin.get(number, {}), **values}
                assert ring.values(at_ms) == twin[number]
                continue
        ring.put(at_ms, values)  # ignored
    end = (max(twin, default=0) + 1) * 100
    at, found = ring.lines([A, B], end - 800, end)
    shown = sorted(number for number in twin if number * 100 >= end - 800)
    assert at == [number * 100 for number in shown]
    for series, line in found.items():
        assert line == [twin[number].get(series) for number in shown]


@pytest.mark.mission("GLASS-142")
def test_a_ring_is_bounded_and_forgets_the_series_that_is_silent_longest() -> None:
    ring = Ring(100, 4)
    for number in range(MAX_SERIES + 10):
        ring.put(100 * number, {HistorySeries("topic", str(number), "records"): 1.0})
    assert len(ring) == MAX_SERIES
    assert ring.of("topic", "9") == []
    assert ring.of("topic", "10") == [HistorySeries("topic", "10", "records")]


@pytest.mark.mission("GLASS-142")
def test_an_hour_is_fine_and_a_day_has_the_means_of_minutes() -> None:
    history = PageHistory()
    for at_ms in range(0, 2 * DAY_MS, FINE_MS):
        history.put(at_ms, {A: float(at_ms % COARSE_MS // FINE_MS)})  # 0 to 5, then again
    now_ms = 2 * DAY_MS - FINE_MS
    fine = history.lines([A], now_ms, 600_000)
    assert (fine.step_ms, len(fine.at_ms)) == (FINE_MS, 61)
    assert list(fine.values[A])[-3:] == [3.0, 4.0, 5.0]
    coarse = history.lines([A, B], now_ms, DAY_MS)
    assert (coarse.step_ms, len(coarse.at_ms)) == (COARSE_MS, DAY_MS // COARSE_MS - 1)
    assert {*coarse.values[A]} == {2.5}
    assert B not in coarse.values
    shown = lines(history, "topic", "a", now_ms, 10)
    assert shown["lines"] == [{"name": "a", "what": "records", "values": list(fine.values[A])}]
    assert lines(history, "topic", "c", now_ms, 10)["lines"] == []


# -------------------------------------------------------------------------------- lag as time


@pytest.mark.mission("GLASS-143")
@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 50)), min_size=1, max_size=400),
    st.integers(0, 5000),
)
def test_the_time_of_a_record_lies_between_two_looks(
    steps: list[tuple[int, int]], offset: int
) -> None:
    times, looks, at_ms, end = EndTimes(), list[tuple[int, int]](), 0, 10
    for later, more in steps:
        at_ms, end = at_ms + later, end + more
        times.add(at_ms, end)
        looks.append((at_ms, end))
    assert len(times) <= MAX_POINTS
    now_ms = at_ms + 5
    found = times.lag(offset, now_ms)
    assert found is not None
    written_ms = now_ms - found.ms
    if offset >= end:
        assert found == (0, True)
    elif offset < looks[0][1]:
        assert found == (now_ms - looks[0][0], False)
    else:
        assert found.exact
        assert looks[0][0] <= written_ms <= at_ms
        if len(looks) <= MAX_POINTS:  # no point was left out
            low = max(at for at, known in looks if known <= offset)
            high = min(at for at, known in looks if known > offset)
            assert low <= written_ms <= high
    later_one = times.lag(offset + 1, now_ms)
    assert later_one is not None
    assert later_one.ms <= found.ms


@pytest.mark.mission("GLASS-143")
def test_a_log_that_stood_still_says_when_it_went_on() -> None:
    times = EndTimes()
    for at_ms, end in [(0, 10), (60_000, 10), (600_000, 10), (610_000, 20)]:
        times.add(at_ms, end)
    assert times.lag(10, 620_000) == (20_000, True)
    assert times.lag(15, 620_000) == (15_000, True)
    times.add(620_000, 3)  # another topic of that name
    assert times.lag(2, 630_000) == (10_000, False)
    assert EndTimes().lag(0, 0) is None
    # Records of after the last sample, at 600 s or later, up to the end that was read now.
    (last_ms, end) = times.points[-1]
    assert times.lag(end, 640_000) == (0, True)
    assert times.lag(end, 640_000, end) == (0, True)
    assert times.lag(end + 3, last_ms + 8_000, end + 4) == (2_000, True)


@pytest.mark.mission("GLASS-142", "GLASS-143")
def test_two_looks_say_rates_lag_and_sizes() -> None:
    t0, t1, new = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("new", 0)
    before = SampledCluster(
        0, {t0: 100, t1: 7}, {}, {}, {1: {"messages_in": 5, "bytes_in": 100, "requests": 9}}
    )
    sample = SampledCluster(
        10_000,
        {t0: 200, t1: 5, new: 9},
        {"g": {t0: 150}, "all": {t0: 200, t1: 5}, "unknown": {TopicPartition("u", 0): 1}},
        {t0: {1: 1000, 2: 900}, t1: {1: 30}},
        {1: {"messages_in": 105, "bytes_in": 600, "requests": 3}, 2: {"bytes_in": 7}},
    )
    times = {tp: EndTimes() for tp in (t0, t1)}
    for each in (before, sample):
        for tp, known in times.items():
            known.add(each.at_ms, each.ends[tp])
    found = figures(before, sample, times)
    assert found.topics == {"t": TopicNow(10.0, 1030)}  # a new topic has no rate yet
    assert found.groups == {
        "g": GroupNow(50, 5_000, True),
        "all": GroupNow(0, 0, True),
        "unknown": GroupNow(),
    }
    shown = {(kind, name, what): value for (kind, name, what), value in found.values.items()}
    assert shown == {
        ("cluster", "", "records"): 10.0,
        ("cluster", "", "size"): 1930.0,
        ("cluster", "", "bytes_in"): 50.0,
        ("broker", "1", "messages_in"): 10.0,
        ("broker", "1", "bytes_in"): 50.0,
        ("broker", "1", "size"): 1030.0,
        ("broker", "2", "size"): 900.0,
        ("topic", "t", "records"): 10.0,
        ("topic", "t", "size"): 1030.0,
        ("group", "g", "lag"): 50,
        ("group", "g", "lag_ms"): 5000,
        ("group", "all", "lag"): 0,
        ("group", "all", "lag_ms"): 0,
    }
    assert figures(None, sample, times).topics["t"].records_per_s is None


# ------------------------------------------------------------------------------------ the file


def filled(store: HistoryStore, until_ms: int) -> PageHistory:
    history = PageHistory()
    for at_ms in range(0, until_ms, FINE_MS):
        ended_ms = history.put(at_ms, {A: at_ms / 1000})
        rows = [row(history.fine, at_ms)]
        rows += [] if ended_ms is None else [row(history.coarse, ended_ms)]
        store.save(rows)
    return history


@pytest.mark.mission("GLASS-144")
def test_a_file_brings_a_history_back_and_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "history"
    store = HistoryStore.open(path)
    written = filled(store, 2 * FINE_MS * FINE_STEPS)
    store.close()
    again, read = HistoryStore.open(path), PageHistory()
    ends: dict[TopicPartition, EndTimes] = {}
    again.load(read, ends)
    assert ends == {}
    now_ms = 2 * FINE_MS * FINE_STEPS - 1
    for last_ms in (600_000, 2 * FINE_MS * FINE_STEPS):
        wanted, found = (each.lines([A], now_ms, last_ms) for each in (written, read))
        assert found.at_ms == wanted.at_ms
        assert found.values[A] == pytest.approx(wanted.values[A])
    again.close()
    database = sqlite3.connect(path)
    (count,) = database.execute(
        "SELECT count(*) FROM steps WHERE step_ms = ?", (FINE_MS,)
    ).fetchone()
    database.close()
    assert count == FINE_STEPS


@pytest.mark.mission("GLASS-143", "GLASS-144")
def test_lag_in_time_is_known_after_a_restart(tmp_path: Path) -> None:
    store, tp, gone = HistoryStore.open(tmp_path / "history"), TopicPartition("t", 0), "gone"
    times = EndTimes.of([(0, 10), (1_000, 10), (2_000, 20)])
    store.save_ends({TopicPartition(gone, 1): times.points})
    store.save_ends({tp: times.points})
    store.close()
    again, found = HistoryStore.open(tmp_path / "history"), dict[TopicPartition, EndTimes]()
    again.load(PageHistory(), found)
    again.close()
    assert found.keys() == {tp}
    assert found[tp].points == times.points
    found[tp].add(60_000, 30)
    assert found[tp].lag(15, 60_000) == (58_500, True)


@pytest.mark.mission("GLASS-144")
def test_a_file_of_something_else_is_refused_and_a_damaged_one_is_put_aside(
    tmp_path: Path,
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.txt: this file is no history of a page"):
        HistoryStore.open(other)
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("CREATE TABLE t (a)")
    database.close()
    with pytest.raises(ConfigError):
        HistoryStore.open(tmp_path / "other.db")
    with pytest.raises(OSError, match="--history"):
        HistoryStore.open(tmp_path / "absent" / "history")

    path = tmp_path / "history"
    store = HistoryStore.open(path)
    filled(store, 600_000)
    store.close()
    data = bytearray(path.read_bytes())
    data[100:] = os.urandom(len(data) - 100)
    path.write_bytes(data)
    HistoryStore.open(path).close()
    assert (tmp_path / "history.damaged").read_bytes()[100:] == data[100:]


WRITER = """
import sys
from pathlib import Path
from minikafka.page.dashboard.history.ring import FINE_MS, PageHistory, HistorySeries
from minikafka.page.dashboard.history.store import HistoryStore, row
store, history = HistoryStore.open(Path(sys.argv[1])), PageHistory()
for at_ms in range(0, 10**9, FINE_MS):
    history.put(at_ms, {HistorySeries("topic", "a", "records"): float(at_ms)})
    store.save([row(history.fine, at_ms)])
    print(at_ms, flush=True)
"""


@pytest.mark.mission("GLASS-144")
def test_what_a_killed_process_has_written_is_there(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            at_ms = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
    store, history = HistoryStore.open(path), PageHistory()
    store.load(history, {})
    store.close()
    assert history.fine.values(at_ms)[A] == pytest.approx(at_ms)
    assert not math.isnan(history.fine.values(0)[A])
    assert not (tmp_path / "history.damaged").exists()
