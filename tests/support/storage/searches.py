"""Searches by timestamp, run at once."""

from __future__ import annotations

from minikafka.core.log.time_search import FoundOffset, OffsetSearch


def run_search(search: OffsetSearch) -> FoundOffset | None:
    found: FoundOffset | None = None
    try:
        while True:
            step = search.send(found)
            found = None if step is None else step.run()
    except StopIteration as end:
        result: FoundOffset | None = end.value
        return result
