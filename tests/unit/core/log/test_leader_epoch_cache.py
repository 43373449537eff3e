"""Leader epochs and their start offsets, also against a naive model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.log.leader_epochs import EpochEntry, LeaderEpochCache

UNKNOWN = (-1, -1)


def cache(*pairs: tuple[int, int]) -> LeaderEpochCache:
    made = LeaderEpochCache()
    for epoch, offset in pairs:
        made.assign(epoch, offset)
    return made


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    epochs = cache((2, 10), (4, 20), (7, 30))
    assert epochs.end_offset_for(7, 35) == (7, 35)
    assert epochs.end_offset_for(8, 35) == UNKNOWN
    assert epochs.end_offset_for(-1, 35) == UNKNOWN
    assert epochs.end_offset_for(4, 35) == (4, 30)
    assert epochs.end_offset_for(6, 35) == (4, 30)
    assert epochs.end_offset_for(3, 35) == (2, 20)
    assert epochs.end_offset_for(1, 35) == (1, 10)  # before all known: its records are gone
    assert cache().end_offset_for(0, 0) == UNKNOWN


def test_an_epoch_keeps_its_first_start() -> None:
    epochs = cache((1, 10))
    assert not epochs.assign(1, 10)
    assert not epochs.assign(1, 15)
    assert epochs.entries == [(1, 10)]
    assert epochs.assign(1, 5)
    assert epochs.entries == [(1, 5)]
    epochs = cache((1, 10), (2, 20))
    assert epochs.assign(2, 15)
    assert epochs.entries == [(1, 10), (2, 15)]


def test_the_latest_epoch_is_the_last_one_until_all_are_forgotten() -> None:
    epochs = cache((1, 10), (2, 20), (5, 30))
    assert epochs.latest_epoch == 5
    epochs.clear()
    assert list(epochs.entries) == []
    latest: int | None = epochs.latest_epoch
    assert latest is None


def test_contradicted_entries_are_dropped() -> None:
    epochs = cache((1, 10), (2, 20), (3, 30))
    assert epochs.assign(2, 40)
    assert epochs.entries == [(1, 10), (2, 40)]
    assert epochs.assign(5, 10)
    assert epochs.entries == [(5, 10)]


def test_an_epoch_without_records_gives_way() -> None:
    epochs = cache((1, 10), (2, 20))
    assert epochs.assign(3, 20)
    assert epochs.entries == [(1, 10), (3, 20)]


def test_truncation_from_the_end() -> None:
    epochs = cache((1, 10), (2, 20), (3, 30))
    assert not epochs.truncate_from_end(31)
    assert epochs.truncate_from_end(30)
    assert epochs.entries == [(1, 10), (2, 20)]
    assert epochs.truncate_from_end(0)
    assert epochs.entries == []
    assert epochs.latest_epoch is None


def test_truncation_from_the_start_keeps_the_epoch_in_force() -> None:
    epochs = cache((1, 10), (2, 20), (3, 30))
    assert not epochs.truncate_from_start(5)
    assert not epochs.truncate_from_start(10)
    assert epochs.truncate_from_start(15)
    assert epochs.entries == [(1, 15), (2, 20), (3, 30)]
    assert epochs.truncate_from_start(25)
    assert epochs.entries == [(2, 25), (3, 30)]
    assert epochs.truncate_from_start(30)
    assert epochs.entries == [(3, 30)]


def test_the_epoch_of_an_offset() -> None:
    epochs = cache((1, 10), (2, 20))
    assert [epochs.epoch_for_offset(o) for o in (9, 10, 19, 20, 99)] == [None, 1, 1, 2, 2]


@given(
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=12),
    ask=st.integers(-1, 30),
)
def test_against_a_list_of_records(steps: list[tuple[int, int]], ask: int) -> None:
    """Every record remembers its epoch: the results must follow from that."""
    epochs = LeaderEpochCache()
    record_epochs: list[int] = []
    epoch = 0
    for raise_by, count in steps:
        epoch += raise_by
        if count:
            epochs.assign(epoch, len(record_epochs))
            record_epochs += [epoch] * count
    known = sorted(set(record_epochs))
    found = epochs.end_offset_for(ask, len(record_epochs))
    below = [e for e in known if e <= ask]
    above = [e for e in known if e > ask]
    if ask < 0 or (not above and ask not in known):
        assert found == UNKNOWN
    elif not below:
        assert found == EpochEntry(ask, record_epochs.index(above[0]))
    else:
        end = record_epochs.index(above[0]) if above else len(record_epochs)
        assert found == EpochEntry(below[-1], end)
    for offset, expected in enumerate(record_epochs):
        assert epochs.epoch_for_offset(offset) == expected


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        (2, 15, None),  # as it is
        (2, 10, None),
        (4, 60, None),
        (1, 5, [(1, 5), (2, 10), (4, 50)]),  # before all that is known
        (2, 50, [(2, 10)]),  # 4 began later, if at all: its first batch will tell
        (3, 20, [(2, 10), (3, 20), (4, 50)]),  # between
        (4, 30, [(2, 10), (4, 30)]),
        (5, 70, [(2, 10), (4, 50), (5, 70)]),
        (1, 20, [(1, 20), (4, 50)]),
        (3, 10, [(3, 10), (4, 50)]),  # 2 has no record where it was said to begin
        (2, 60, [(2, 10)]),  # it goes on for longer than was known
    ],
)
def test_batches_are_right_where_they_contradict(
    epoch: int, offset: int, expected: list[tuple[int, int]] | None
) -> None:
    cache = LeaderEpochCache([EpochEntry(2, 10), EpochEntry(4, 50)])
    assert cache.agree(epoch, offset) == (expected is not None)
    assert cache.entries == (expected or [(2, 10), (4, 50)])


def test_a_batch_extends_its_own_epoch_behind_earlier_ones() -> None:
    epochs = LeaderEpochCache([EpochEntry(1, 0), EpochEntry(2, 10), EpochEntry(4, 50)])
    assert epochs.agree(2, 60)
    assert epochs.entries == [(1, 0), (2, 10)]
