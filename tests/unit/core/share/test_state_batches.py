"""The combination of state batches, against the states of single offsets."""

from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.share.persister import StateBatch
from minikafka.core.share.state_batches import combined


@st.composite
def batches(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 12))
    last = draw(st.integers(first, 14))
    return StateBatch(first, last, draw(st.sampled_from((0, 2, 4))), draw(st.integers(1, 3)))


def by_offset(rows: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """The slow twin: the highest count and state of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        for offset in range(max(start, row.first_offset), row.last_offset + 1):
            state = (row.delivery_count, row.delivery_state)
            found[offset] = max(state, found.get(offset, state))
    return found


@given(st.lists(batches(), max_size=8), st.integers(-1, 10))
def test_the_highest_count_and_state_of_each_offset_are_left(
    rows: list[StateBatch], start: int
) -> None:
    made = combined(rows, start)
    assert by_offset(list(made), start) == by_offset(rows, start)
    assert sum(row.last_offset - row.first_offset + 1 for row in made) == len(
        by_offset(rows, start)
    )
    assert list(made) == sorted(made) or len(rows) < 2
    assert combined(made, start) == made or len(combined(made, start)) < len(made)
