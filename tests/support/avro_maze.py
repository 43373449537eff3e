"""An Avro schema with many paths through few types, for tests of bounds."""

from __future__ import annotations

from typing import Any


def avro_maze(levels: int, *last: Any) -> Any:
    """Return a union of two records with one local name, each with a field of such a union, and so
    on; ``last`` are the fields of the innermost records."""
    below: Any = None
    for level in range(levels):
        first: Any = last
        second: Any = last
        if level:
            first = [{"name": "a", "type": below}]
            second = [{"name": "a", "type": [f"{space}.R{level - 1}" for space in "pq"]}]
        below = [
            {"type": "record", "name": f"{space}.R{level}", "fields": list(fields)}
            for space, fields in zip("pq", (first, second), strict=True)
        ]
    return below
