"""The built-in assignors by the names that ``partition.assignment.strategy`` accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from minikafka.core.client.assignors.model import Assignor
from minikafka.core.client.assignors.range import RANGE
from minikafka.core.client.assignors.round_robin import ROUND_ROBIN
from minikafka.core.client.assignors.sticky import COOPERATIVE_STICKY, STICKY

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {each.name: each for each in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
)
DEFAULT_STRATEGY: Final = ("range", "cooperative-sticky")


def resolve_strategy(strategy: Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """Return the assignors of a ``partition.assignment.strategy``, in the order of preference.

    A name is looked up among the built-in assignors; an ``Assignor`` object is returned as it is.
    Raises ValueError for an unknown name and for an empty strategy.
    """
    found = []
    for each in strategy:
        assignor = ASSIGNORS.get(each) if isinstance(each, str) else each
        if assignor is None:
            raise ValueError(f"unknown assignor {each!r}; known are {', '.join(ASSIGNORS)}")
        found.append(assignor)
    if not found:
        raise ValueError("partition.assignment.strategy names no assignor")
    return tuple(found)
