"""What the queue of buckets costs: a heap, so the logarithm of its length per operation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.core.timer import ExpirationQueue


class Counted(int):
    """A number that counts how often it is ordered."""

    asked = 0

    def __lt__(self, other: int) -> bool:
        Counted.asked += 1
        return int(self) < int(other)


def comparisons(population: int) -> tuple[int, int]:
    """For the dearest push, of what expires first of all, and for taking it out again."""
    queue: Any = ExpirationQueue()
    for order in range(population):
        expiration = Counted(1_000 + order * 7919 % population)
        queue.push(SimpleNamespace(expiration_ms=expiration, order=order))
    Counted.asked = 0
    first = SimpleNamespace(expiration_ms=Counted(1), order=population)
    queue.push(first)
    pushing, Counted.asked = Counted.asked, 0
    assert queue.pop_due(1) is first
    return pushing, Counted.asked


@pytest.mark.mission("R-7")
@pytest.mark.parametrize("exponent", [4, 8, 12, 16])
def test_an_operation_costs_the_logarithm_of_the_length(exponent: int) -> None:
    pushing, popping = comparisons(2**exponent)
    assert exponent <= pushing <= exponent + 1
    assert exponent <= popping <= 2 * exponent + 1
