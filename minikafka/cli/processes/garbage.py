"""Short pauses of the garbage collector in a broker's process.

CPython's full collection looks at every object, and nothing else runs meanwhile: 200 ms with the
1.6 million objects of 300 large fetch sessions. Here each object is looked at in one full
collection at most, soon after it was made.

A cycle that dies later is not found any more. So nothing that ends while a broker runs may be a
cycle: requests, connections and sessions go by their reference counts, which tests check.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

# Allocations between two collections of the youngest generation, and how many of those are between
# two collections of the next one: a full collection looks at some 100,000 objects, in 10 ms.
THRESHOLDS = (10_000, 5, 2)
FULL = 2  # the oldest generation


def keep_collections_short() -> None:
    """Exclude what exists from garbage collection, and later whatever a full collection leaves."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, collection: Mapping[str, Any]) -> None:
    if phase == "stop" and collection["generation"] == FULL:
        gc.freeze()
