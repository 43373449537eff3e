"""Index files are written a few at a time, and only those that have changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.server.storage.log.index_writes import WRITES_PER_ROUND, IndexWrites
from minikafka.server.storage.log.loader import create_log
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.unified_log import LogConfig, NoHome
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, NOW, TP, batch, run_now


class Segment:
    """``looks`` counts how often it was looked at."""

    def __init__(self, writes: IndexWrites) -> None:
        self.written, self.is_broken = True, False
        self.looks = 0
        self._writes = writes

    @property
    def indexes_written(self) -> bool:
        self.looks += 1
        return self.written

    def change(self) -> None:
        self.written = False
        self._writes.changed(self)

    def write_indexes(self) -> None:
        if self.is_broken:
            raise OSError("disk full")
        self.written = True


@pytest.mark.mission("FET-15")
@given(
    rounds=st.lists(st.sets(st.integers(0, 99)), max_size=8),
    broken=st.sets(st.integers(0, 99), max_size=60),
)
def test_every_changed_segment_is_written_and_no_other_is_looked_at(
    rounds: list[set[int]], broken: set[int]
) -> None:
    writes = IndexWrites()
    segments = [Segment(writes) for _ in range(100)]
    for number in broken:
        segments[number].is_broken = True
    for changed in rounds:
        for number in changed:
            segments[number].change()
        before = sum(segment.written for segment in segments)
        run_now(writes.write_some())
        after = sum(segment.written for segment in segments)
        assert before <= after <= before + WRITES_PER_ROUND
    ever = set().union(*rounds)
    assert all(segment.looks == 0 for n, segment in enumerate(segments) if n not in ever)
    for _ in range(8):  # those that fail hold up the others for a bounded number of rounds
        run_now(writes.write_some())
    assert {n for n, segment in enumerate(segments) if not segment.written} == broken & ever
    for segment in segments:
        segment.is_broken, segment.looks = False, 0
    for _ in range(3):
        run_now(writes.write_some())
    assert all(segment.written for segment in segments)
    looks = [segment.looks for segment in segments]
    run_now(writes.write_some())
    assert looks == [segment.looks for segment in segments]


@pytest.mark.mission("FET-15")
def test_an_aborted_transaction_is_written_and_a_closed_segment_is_not() -> None:
    class Home(NoHome):
        def __init__(self) -> None:
            self.open_segments = OpenSegments()

    home = Home()
    log = create_log(InstantFiles(), DIRECTORY, TP, None, LogConfig(), home)
    log.append_as_leader(batch(b"value"), 0, NOW)
    run_now(home.open_segments.index_writes.write_some())
    segment = log.segments.active
    assert segment is not None
    assert segment.indexes_written
    segment.add_aborted(AbortedTxn(1, 0, 0, 0))
    assert not segment.indexes_written
    run_now(home.open_segments.index_writes.write_some())
    assert segment.indexes_written
    segment.add_aborted(AbortedTxn(1, 1, 1, 1))
    log.close()
    run_now(home.open_segments.index_writes.write_some())
