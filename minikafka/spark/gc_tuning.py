"""Garbage collection of Spark's Python processes."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_the_collector() -> None:
    """Exclude all existing objects from garbage collection. Only the first call has an effect.

    Spark's Python daemon runs a full collection after each task. Over the objects of the imported
    modules of Spark, Arrow and minikafka it takes 10 ms or more, as long as a small task. Python
    counts excluded objects (``gc.get_freeze_count``) one by one, which takes as long."""
    gc.collect()
    gc.freeze()
