"""A check: a wire rule, its source, what breaks without it, and the function that tries it.

``expectations.py`` says which errors the function raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.conformance.subject import Subject

Rule: TypeAlias = Callable[[Subject], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """``name`` is the rule in words, ``source`` the KIP, class or issue of Kafka that has it, and
    ``consequence`` what happens to a client of a broker without it."""

    name: str
    source: str
    consequence: str
    rule: Rule


def check(source: str) -> Callable[[Rule], Check]:
    """Make a check of a function: its name is the rule, its docstring the consequence."""

    def decorate(rule: Rule) -> Check:
        name = getattr(rule, "__name__", "").strip("_").replace("_", " ")
        return Check(name, source, " ".join((rule.__doc__ or "").split()), rule)

    return decorate
