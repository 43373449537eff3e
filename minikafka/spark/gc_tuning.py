"""What a Python process of Spark keeps between tasks: objects that its collector may pass over."""

from __future__ import annotations

import gc


def spare_the_collector() -> None:
    """Take all that is loaded by now out of the garbage collector's sight, once per process.

    After each task Spark's daemon collects in full before it takes the next one. Over the modules
    of Spark, Arrow and this package that is 10 ms or more, as much as a small task takes."""
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()
