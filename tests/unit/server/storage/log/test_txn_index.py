"""The transaction index: its bytes, its file, and what reads of committed records learn from it."""

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.server.storage.log.indexes import TxnIndex
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, cut, load, new_log
from tests.support.storage.transactions import TxnProducer, marker

GOLDEN = bytes.fromhex(
    "0000"
    "0000000000000007"  # producer id
    "00000000000003e9"  # first offset
    "00000000000003eb"  # the marker's offset
    "00000000000003ec"  # last stable offset
    "0000"
    "0000000000000008"
    "00000000000003ea"
    "00000000000003f0"
    "00000000000003ed"
)
FIRST = AbortedTxn(7, 1001, 1003, 1004)
SECOND = AbortedTxn(8, 1002, 1008, 1005)


def new_index(files: InstantFiles | None = None) -> TxnIndex:
    files = files or InstantFiles()
    files.make_directories("/d")
    return TxnIndex(files, "/d/i.txnindex", 1000)


def test_bytes() -> None:
    files = InstantFiles()
    index = new_index(files)
    index.create()
    index.append(FIRST)
    index.append(SECOND)
    index.persist()
    assert files.read_all("/d/i.txnindex") == GOLDEN
    other = new_index(files)
    other.attach()
    assert other.is_sane()
    assert other.collect(0, 2000) == ([FIRST, SECOND], False)


def test_there_is_no_file_without_an_entry() -> None:
    files = InstantFiles()
    index = new_index(files)
    index.create()
    index.persist()
    index.release()
    asyncio.run(index.flush())
    assert not files.exists("/d/i.txnindex")
    other = new_index(files)
    other.attach()
    assert other.is_sane()
    other.load()
    other.append(FIRST)
    asyncio.run(other.flush())
    assert files.read_all("/d/i.txnindex") == GOLDEN[:34]
    other.truncate_to(0)
    asyncio.run(other.flush())
    assert files.size("/d/i.txnindex") == 0
    other.remove()
    assert not files.exists("/d/i.txnindex")


@pytest.mark.parametrize(
    "data",
    [
        GOLDEN[:-1],
        GOLDEN[:20],
        b"\x00\x01" + GOLDEN[2:],  # a version of later days
        GOLDEN[34:] + GOLDEN[:34],  # markers that do not rise
        bytes(34),  # a marker from before the segment
    ],
)
def test_a_file_that_cannot_be_right(data: bytes) -> None:
    files = InstantFiles()
    index = new_index(files)
    files.replace_unsynced("/d/i.txnindex", data)
    index.attach()
    assert not index.is_sane()


def test_an_entry_that_could_not_be_written_is_written_later() -> None:
    files = InstantFiles()
    index = new_index(files)
    index.create()
    for number in range(300):  # more than is kept back
        if number == 240:
            files.break_below()
        with contextlib.suppress(OSError):
            index.append(AbortedTxn(1, 1000 + number, 1000 + number, 1001 + number))
        files.repair()
    assert index.count == 300
    index.release()
    assert files.size("/d/i.txnindex") == 300 * 34


gaps = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 30), st.integers(1, 40)), max_size=60)


@given(gaps, st.integers(990, 1200), st.integers(0, 100), st.booleans())
@settings(max_examples=60, deadline=None)
def test_search_against_a_list(
    gaps: list[tuple[int, int, int]], start: int, length: int, released: bool
) -> None:
    index = new_index()
    index.create()
    txns: list[AbortedTxn] = []
    last, last_stable = 1000, 0
    for step, back, stable in gaps:
        last += step
        last_stable = max(last_stable, last + 1 - min(stable, 20))  # as in a log, it never falls
        txns.append(AbortedTxn(step, last - back, last, last_stable))
        index.append(txns[-1])
    if released:
        index.release()
    bound = start + length
    expected = []
    complete = False
    for txn in txns:
        if txn.last_offset >= start:
            if txn.first_offset < bound:
                expected.append(txn)
            if txn.last_stable_offset >= bound:
                complete = True
                break
    assert index.collect(start, bound) == (expected, complete)


# ---- in a log


def aborted(log: UnifiedLog, start: int, bound: int) -> list[tuple[int, int]]:
    read = log.read(start, 10_000, bound, True, include_aborted=True)
    cold = asyncio.run(log.read_cold(start, 10_000, bound, True, include_aborted=True))
    assert cold == read
    return [(txn.producer_id, txn.first_offset) for txn in read.aborted]


def two_transactions(log: UnifiedLog) -> None:
    """Offsets: 0 1: a, 2 3: b, 4 abort of a, 5: b, 6: c, 7 commit of c, 8 abort of b."""
    a, b, c = TxnProducer(1), TxnProducer(2), TxnProducer(3)
    for producer in (a, a, b, b):
        producer.send(log, (b"k", b"v" * 60))
    a.end(log, commit=False)
    b.send(log, (b"k", b"v"))
    c.send(log, (b"k", b"v"))
    c.end(log, commit=True)
    b.end(log, commit=False)


@pytest.mark.parametrize("segment_bytes", [10_000, 300])
def test_a_read_tells_the_aborted_transactions_that_it_touches(segment_bytes: int) -> None:
    log = new_log(segment_bytes=segment_bytes)
    two_transactions(log)
    assert aborted(log, 0, 2) == [(1, 0)]
    assert aborted(log, 8, 9) == [(2, 2)]
    assert log.aborted_transactions(0, 9) == [AbortedTxn(1, 0, 4, 2), AbortedTxn(2, 2, 8, 9)]
    if segment_bytes > 300:
        assert aborted(log, 0, 9) == [(1, 0), (2, 2)]
        assert aborted(log, 5, 6) == [(2, 2)]
    assert log.read(0, 10_000, 9, True).aborted == ()
    short = log.read(0, 10, 9, True, include_aborted=True)  # one batch alone
    assert [txn.producer_id for txn in short.aborted] == [1]


@pytest.mark.parametrize("segment_bytes", [10_000, 300])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("recovery_point", [0, 5, 9])
def test_the_index_outlives_a_restart_and_is_rebuilt(
    segment_bytes: int, clean: bool, recovery_point: int
) -> None:
    files = InstantFiles()
    log = new_log(files, segment_bytes=segment_bytes)
    two_transactions(log)
    log.persist()
    asyncio.run(log.flush())
    before = log.aborted_transactions(0, 9)
    log.close()
    if not clean:
        active = max(name for name in files.list(DIRECTORY) if name.endswith(".log"))
        files.remove(f"{DIRECTORY}/{active.replace('.log', '.txnindex')}")
    if recovery_point == 0 and not clean:
        for name in files.list(DIRECTORY):
            if name.endswith((".txnindex", ".snapshot")):
                files.remove(f"{DIRECTORY}/{name}")
    again = load(files, clean, recovery_point, segment_bytes=segment_bytes)
    assert again.aborted_transactions(0, 9) == before


def test_a_torn_index_of_a_segment_below_the_recovery_point_is_rebuilt() -> None:
    files = InstantFiles()
    log = new_log(files, segment_bytes=300)
    two_transactions(log)
    log.persist()
    asyncio.run(log.flush())
    before = log.aborted_transactions(0, 9)
    log.close()
    torn = [name for name in files.list(DIRECTORY) if name.endswith(".txnindex")]
    assert len(torn) == 2
    files.replace_unsynced(f"{DIRECTORY}/{torn[0]}", bytes(20))
    assert load(files, True, 9, segment_bytes=300).aborted_transactions(0, 9) == before


def test_truncation_takes_entries_of_markers_that_go() -> None:
    log = new_log()
    two_transactions(log)
    log.truncate_to(8)
    assert log.aborted_transactions(0, 8) == [AbortedTxn(1, 0, 4, 2)]
    cut(log, 4)
    assert log.aborted_transactions(0, 4) == []
    log.append_as_follower(marker(1, 0, commit=True, base_offset=4))
    assert log.aborted_transactions(0, 5) == []
    log.truncate_fully_and_start_at(100)
    assert log.aborted_transactions(0, 200) == []


def test_a_follower_indexes_aborted_transactions_it_copies() -> None:
    leader, follower = new_log(), new_log()
    two_transactions(leader)
    follower.append_as_follower(leader.read(0, 10_000, 9, True).records)
    assert follower.aborted_transactions(0, 9) == leader.aborted_transactions(0, 9)
