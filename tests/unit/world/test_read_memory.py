"""Memory of reads: nothing that is still referred to is overwritten, and little is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.world.real.read_memory import KEPT_BYTES, LEAST_BYTES, MOST_BYTES, ReadMemory

SIZES = st.integers(1, MOST_BYTES)


@pytest.mark.mission("FET-18")
@given(st.lists(st.tuples(SIZES, st.integers(0, 3)), max_size=20))
def test_memory_that_is_referred_to_is_not_used_again(steps: list[tuple[int, int]]) -> None:
    memory = ReadMemory()
    held: list[tuple[int, memoryview]] = []
    for number, (size, released) in enumerate(steps, 1):
        view = memory.take(size)
        assert len(view) == size
        view[0] = view[-1] = number
        held.append((number, view[-1:].toreadonly()))  # a view of a view keeps it, too
        del held[:released]
        assert all(view[0] == known for known, view in held)
        assert memory.kept_bytes <= KEPT_BYTES


@pytest.mark.mission("FET-18")
@pytest.mark.parametrize("size", [LEAST_BYTES, 100_000, MOST_BYTES])
def test_memory_is_used_again_when_nothing_refers_to_it(size: int) -> None:
    memory = ReadMemory()
    memory.take(size)[0] = 7
    assert memory.take(size // 2 + 1)[0] == 7
    first = memory.take(size)
    assert memory.take(size)[0] == 0
    assert first[0] == 7


def test_smaller_memory_gives_way_to_larger() -> None:
    memory = ReadMemory()
    held = [memory.take(LEAST_BYTES) for _ in range(KEPT_BYTES // LEAST_BYTES)]
    assert memory.kept_bytes == KEPT_BYTES
    held.clear()
    memory.take(MOST_BYTES)
    assert memory.kept_bytes == MOST_BYTES
