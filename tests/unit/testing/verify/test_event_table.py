"""Events in columns."""

from __future__ import annotations

from minikafka.testing.verify.event_table import NOTHING, EventTable


def test_events_come_back_in_order_with_what_was_left_out() -> None:
    table = EventTable("bqi", lambda row, values: (row, *values))
    assert table.add(1, 1 << 40, 7) == 0
    assert table.add(2, 5) == 1
    assert list(table) == [(0, 1, 1 << 40, 7), (1, 2, 5, NOTHING)]
    assert list(table.between(1, 9)) == [(1, 2, 5, NOTHING)]
    assert table.counts == {1: 1, 2: 1}
