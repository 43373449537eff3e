"""Dependencies of transactions, and cycles of them, as Elle finds them in list-append histories.

Each partition is a list to which transactions append. ``ww``: a transaction's record is followed by
a record of another one. ``wr``: a transaction read a record of another one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from minikafka.testing.verify.append.history import RecordId


class Dependency(NamedTuple):
    """``before`` precedes ``after``: transactions, with the records that show it."""

    before: int
    after: int
    kind: str
    records: tuple[RecordId, ...]

    def __str__(self) -> str:
        names = " and ".join(f"{record.producer}/{record.number}" for record in self.records)
        return f"{self.before} {self.kind} {self.after} by {names}"


def write_dependencies(log: Iterable[RecordId]) -> Iterator[Dependency]:
    """Yield the ``ww`` dependencies of neighbours in a partition; the others follow from these."""
    last: RecordId | None = None
    for record in log:
        if last is not None and last.producer != record.producer:
            yield Dependency(last.producer, record.producer, "ww", (last, record))
        last = record


def read_dependencies(transaction: int, reads: Iterable[RecordId]) -> Iterator[Dependency]:
    """Yield the ``wr`` dependencies of a transaction that read these records."""
    for record in reads:
        if record.producer != transaction:
            yield Dependency(record.producer, transaction, "wr", (record,))


def cycles(dependencies: Iterable[Dependency]) -> list[list[Dependency]]:
    """Return a shortest cycle through the first transaction of each strongly connected component
    of more than one transaction, in the order of these transactions."""
    following: dict[int, dict[int, Dependency]] = defaultdict(dict)
    for dependency in dependencies:
        following[dependency.before].setdefault(dependency.after, dependency)
    graph = {before: list(after) for before, after in following.items()}
    return [
        _shortest(min(component), set(component), following)
        for component in sorted(components(graph), key=min)
        if len(component) > 1
    ]


def components(graph: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph: Tarjan's algorithm, without recursion,
    since a run may have 100,000 transactions in a row."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in graph:
        path = [] if root in index else [root]
        rest: dict[int, Iterator[int]] = {}
        while path:
            node = path[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                rest[node] = iter(graph.get(node, ()))
                stack.append(node)
                on_stack.add(node)
            after = next((n for n in rest[node] if n not in index or n in on_stack), None)
            if after is not None:
                if after in index:
                    low[node] = min(low[node], index[after])
                else:
                    path.append(after)
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[node])
            if low[node] == index[node]:
                component = [stack.pop()]
                while component[-1] != node:
                    component.append(stack.pop())
                on_stack.difference_update(component)
                found.append(component)
    return found


def _shortest(
    start: int, component: set[int], following: dict[int, dict[int, Dependency]]
) -> list[Dependency]:
    """Return a shortest cycle from ``start`` to itself within its component, by breadth."""
    reached_by: dict[int, Dependency] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for after, dependency in following[node].items():
            if after not in component or after in reached_by:
                continue
            reached_by[after] = dependency
            if after == start:
                return _path(start, reached_by)
            queue.append(after)
    raise AssertionError("a component of several transactions has a cycle")


def _path(start: int, reached_by: dict[int, Dependency]) -> list[Dependency]:
    path = [reached_by[start]]
    while path[-1].before != start:
        path.append(reached_by[path[-1].before])
    return path[::-1]
