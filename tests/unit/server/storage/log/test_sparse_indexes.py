"""Offset and time index against a list and a scan; their bytes; their files."""

import asyncio
import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.server.storage.log.indexes import OffsetIndex, TimeIndex
from tests.support.storage.instant_files import InstantFiles

BASE = 1000
rising = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), max_size=40)


def new_files() -> InstantFiles:
    files = InstantFiles()
    files.make_directories("/d")
    return files


def offset_index(files: InstantFiles, size_max_bytes: int = 10_000) -> OffsetIndex:
    return OffsetIndex(files, "/d/i.index", BASE, size_max_bytes)


def time_index(files: InstantFiles, size_max_bytes: int = 10_000) -> TimeIndex:
    return TimeIndex(files, "/d/i.timeindex", BASE, size_max_bytes)


def summed(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    entries, offset, other = [], BASE, 0
    for a, b in steps:
        offset, other = offset + a, other + b
        entries.append((offset, other))
    return entries


@given(steps=rising, mode=st.sampled_from(["memory", "file", "reloaded"]), data=st.data())
def test_offset_lookups_equal_a_scan(
    steps: list[tuple[int, int]], mode: str, data: st.DataObject
) -> None:
    files, entries = new_files(), summed(steps)
    index = offset_index(files)
    index.create()
    for offset, position in entries:
        index.append(offset, position)
    if mode != "memory":
        index.release()
    if mode == "reloaded":
        index = offset_index(files)
        index.attach()
        index.load()
    assert index.count == len(entries)
    assert index.last_entry() == (entries[-1] if entries else (BASE, 0))
    target = data.draw(st.integers(BASE - 5, BASE + 2100))
    below = [e for e in entries if e[0] <= target]
    assert index.lookup(target) == (below[-1] if below else (BASE, 0))
    position = data.draw(st.integers(0, 400_000))
    before = [e for e in entries if e[1] <= position]
    assert index.lookup_position(position) == (before[-1] if before else (BASE, 0))
    index.truncate_to(target)
    left = [e for e in entries if e[0] < target]
    assert [index.entry(i) for i in range(index.count)] == [(o - BASE, p) for o, p in left]
    index.persist()
    assert files.size("/d/i.index") == 8 * len(left)


@given(steps=rising, stored=st.booleans(), data=st.data())
def test_time_lookups_equal_a_scan(
    steps: list[tuple[int, int]], stored: bool, data: st.DataObject
) -> None:
    files, entries = new_files(), [(t, o) for o, t in summed(steps)]
    index = time_index(files)
    index.create()
    for timestamp, offset in entries:
        index.maybe_append(timestamp, offset)
        index.maybe_append(timestamp, offset + 1)  # no later, so no entry
    if stored:
        index.release()
    target = data.draw(st.integers(-1, 400_000))
    below = [e for e in entries if e[0] <= target]
    assert index.lookup(target) == (below[-1] if below else (-1, BASE))
    assert index.last_entry() == (entries[-1] if entries else (-1, BASE))
    cut = data.draw(st.integers(BASE - 5, BASE + 2100))
    index.truncate_to(cut)
    left = [e for e in entries if e[1] < cut]
    assert [index.entry(i) for i in range(index.count)] == [(t, o - BASE) for t, o in left]


def test_entries_are_kafkas_bytes() -> None:
    files = new_files()
    offsets, times = offset_index(files), time_index(files)
    offsets.create()
    times.create()
    offsets.append(BASE + 258, 0x01020304)
    times.maybe_append(0x0102030405060708, BASE + 3)
    offsets.persist()
    times.persist()
    assert files.read_all("/d/i.index").hex() == "0000010201020304"
    assert files.read_all("/d/i.timeindex").hex() == "010203040506070800000003"


def test_entries_reach_the_file_in_lumps() -> None:
    files = new_files()
    index = offset_index(files, 10**6)
    index.create()
    for n in range(1, 1024):
        index.append(BASE + n, n)
    assert not files.exists("/d/i.index")
    index.append(BASE + 1024, 1024)
    assert files.size("/d/i.index") == 8 * 1024


def test_truncation_reaches_the_file() -> None:
    files = new_files()
    index = offset_index(files)
    index.create()
    for n in range(1, 10):
        index.append(BASE + n, n)
    index.persist()
    index.truncate_to(BASE + 4)
    assert files.size("/d/i.index") == 8 * 3
    index.append(BASE + 100, 100)
    index.persist()
    again = offset_index(files)
    again.attach()
    assert [again.entry(i) for i in range(again.count)] == [(1, 1), (2, 2), (3, 3), (100, 100)]


def test_an_index_is_full_by_its_settings() -> None:
    offsets, times = offset_index(new_files(), 3 * 8), time_index(new_files(), 3 * 12)
    offsets.create()
    times.create()
    for n, (offsets_full, times_full) in enumerate([(False, False), (False, True), (True, True)]):
        offsets.append(BASE + n, n)
        times.maybe_append(n, BASE + n)
        assert (offsets.is_full, times.is_full) == (offsets_full, times_full)


def test_a_failed_write_is_tried_again() -> None:
    files = new_files()
    index = offset_index(files)
    index.create()
    index.append(BASE + 1, 1)
    index.append(BASE + 2, 2)
    files.leave_room(5)
    with pytest.raises(OSError, match="space") as caught:
        index.persist()
    assert caught.value.errno == errno.ENOSPC
    files.leave_room(1000)
    asyncio.run(index.flush())
    assert files.read_all("/d/i.index").hex() == "00000001000000010000000200000002"


def test_sanity() -> None:
    files = new_files()
    index = offset_index(files)
    index.create()
    assert index.is_sane(0)
    index.append(BASE + 5, 70)
    assert index.is_sane(71)
    assert not index.is_sane(70)
    times = time_index(files)
    times.create()
    assert times.is_sane()
    times.maybe_append(9, BASE + 1)
    times.add(5, 3)
    assert not times.is_sane()
