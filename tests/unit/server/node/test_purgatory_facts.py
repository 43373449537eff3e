"""The facts of a purgatory: its clock, and its operations by their time-outs."""

from __future__ import annotations

import pytest

from tests.support.parked_operations import ParkedOperations


@pytest.mark.mission("GLASS-40")
def test_the_facts_name_the_time_of_the_wheels() -> None:
    parked = ParkedOperations("Fetch", now_ms=772_985)
    parked.park("Fetch", 500, "orders-0")
    parked.clock.advance(16)
    facts = parked.facts("Fetch")
    assert facts["now_ms"] == 773_001
    (operation,) = facts["operations"]
    assert facts["now_ms"] + operation["remaining_ms"] == 772_985 + 500


@pytest.mark.mission("GLASS-40")
def test_an_empty_purgatory_does_not_change_with_time() -> None:
    parked = ParkedOperations("Fetch")
    parked.park("Fetch", 30, "orders-0")
    parked.clock.advance(50)
    before = parked.facts("Fetch")
    parked.clock.advance(1000)
    assert parked.facts("Fetch") == before
    assert before["now_ms"] is None
