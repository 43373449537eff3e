"""A reader of changes knows what there is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.entity_changes import MAX_REMOVED, EntityChanges
from minikafka.kernel.slices import run_at_once

WORLDS = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 2), max_size=5)


class Reader:
    def __init__(self) -> None:
        self.last = 0
        self.known: dict[str, Any] = {}

    def read(self, changes: EntityChanges) -> int:
        """Return how many entities were sent."""
        found = changes.since(self.last)
        if found.reset:
            self.known.clear()
        for _, name in found.removed:
            self.known.pop(name, None)
        numbers = [change.number for change in found.changed]
        assert numbers == sorted(numbers)
        self.known |= {change.name: change.facts["value"] for change in found.changed}
        self.last = found.last
        return len(found.changed)


def refresh(changes: EntityChanges, world: dict[str, int]) -> None:
    entities = [(("kind", name), {"value": value}) for name, value in world.items()]
    run_at_once(changes.refresh(entities))


@pytest.mark.mission("GLASS-9")
@given(st.lists(st.tuples(WORLDS, st.booleans()), max_size=20))
def test_a_reader_that_reads_now_and_then_knows_all_entities(
    steps: list[tuple[dict[str, int], bool]],
) -> None:
    changes, often, seldom = EntityChanges(), Reader(), Reader()
    for world, both_read in steps:
        before = dict(often.known)
        refresh(changes, world)
        sent = often.read(changes)
        assert often.known == world
        assert sent == sum(before.get(name) != value for name, value in world.items())
        if both_read:
            seldom.read(changes)
            assert seldom.known == world


@pytest.mark.mission("GLASS-53")
@given(st.lists(st.tuples(WORLDS, WORLDS), max_size=20))
def test_entities_that_are_followed_one_by_one_are_left_alone_by_a_refresh(
    steps: list[tuple[dict[str, int], dict[str, int]]],
) -> None:
    changes, reader = EntityChanges(), Reader()
    before: dict[str, int] = {}
    for refreshed, followed in steps:
        for name in before.keys() - followed.keys():
            changes.remove(("followed", f"{name}'"))
        for name, value in followed.items():
            changes.put(("followed", f"{name}'"), {"value": value})
        refresh(changes, refreshed)
        reader.read(changes)
        assert reader.known == refreshed | {f"{n}'": v for n, v in followed.items()}
        before = followed


@pytest.mark.mission("GLASS-9")
def test_a_reader_that_is_too_far_behind_begins_again() -> None:
    changes, late = EntityChanges(), Reader()
    refresh(changes, {"a": 1, "b": 2})
    late.read(changes)
    for number in range(MAX_REMOVED):
        refresh(changes, {"a": 1, "b": 2, str(number): 1})
    assert not changes.since(late.last).reset
    refresh(changes, {"a": 1})
    refresh(changes, {"a": 1, "c": 3})
    assert changes.since(late.last).reset
    late.read(changes)
    assert late.known == {"a": 1, "c": 3}


@pytest.mark.mission("GLASS-9")
def test_a_number_of_an_earlier_run_begins_again() -> None:
    changes, reader = EntityChanges(), Reader()
    refresh(changes, {"a": 1})
    reader.last, reader.known = 7_000, {"old": 1}
    reader.read(changes)
    assert reader.known == {"a": 1}
