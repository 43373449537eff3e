"""Counters and gauges under Kafka's metric names."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def mark(self, amount: int = 1) -> None:
        self.value += amount


class Metrics:
    """The metrics of one node, by name such as ``kafka.controller:ActiveControllerCount``."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._families: list[Callable[[], Iterable[tuple[str, float]]]] = []

    def counter(self, name: str) -> Counter:
        """Return the counter of that name; the first call creates it."""
        return self._counters.setdefault(name, Counter())

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register a gauge; one of the same name is replaced."""
        self._gauges[name] = read

    def family(self, read: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Register a function that returns the names and values of metrics which come and go, such
        as those of clients. It returns a bounded number."""
        self._families.append(read)

    def snapshot(self, prefix: str = "") -> dict[str, float]:
        """Return the present values of the metrics whose names start with ``prefix``, sorted."""
        values: dict[str, float] = {
            name: c.value for name, c in self._counters.items() if name.startswith(prefix)
        }
        values.update(
            {name: read() for name, read in self._gauges.items() if name.startswith(prefix)}
        )
        for family in self._families:
            values.update({name: value for name, value in family() if name.startswith(prefix)})
        return dict(sorted(values.items()))
