"""What the garbage collector of Spark's Python workers is spared, and at which price."""

from __future__ import annotations

import gc
from functools import partial

import pytest

from minikafka.spark.gc_tuning import spare_the_collector

pytestmark = pytest.mark.mission("SPS-5")


def test_only_the_first_task_of_a_process_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a later one count what is excluded, which takes as long as a small task."""
    calls: list[str] = []
    for name in ("collect", "freeze", "get_freeze_count"):
        monkeypatch.setattr(gc, name, partial(calls.append, name))
    spare_the_collector.cache_clear()
    for _ in range(3):
        spare_the_collector()
    assert calls == ["collect", "freeze"]
    spare_the_collector.cache_clear()
