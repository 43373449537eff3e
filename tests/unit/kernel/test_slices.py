"""Loops in slices: all items in order, and others run in between."""

import asyncio

import pytest

from minikafka.kernel.slices import in_slices


@pytest.mark.mission("SAFE-33")
async def test_others_run_after_each_slice() -> None:
    events: list[object] = []

    async def other() -> None:
        for _ in range(2):
            events.append("other")
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    async for item in in_slices("abcde", 2):
        events.append(item)
    await running
    assert events == ["a", "b", "other", "c", "d", "other", "e"]


@pytest.mark.parametrize(("items", "size"), [("", 1), ("a", 1), ("ab", 2), ("abc", 500)])
def test_one_slice_runs_without_a_pause(items: str, size: int) -> None:
    async def collected() -> str:
        return "".join([item async for item in in_slices(items, size)])

    with pytest.raises(StopIteration) as end:
        collected().send(None)
    assert end.value.value == items
