"""The order of arrival by key, compared with a plain list of all that wait."""

from __future__ import annotations

import random

import pytest

from minikafka.core.arrival_order import ArrivalOrder


class Twin:
    """One list in order of arrival; an item may go when no earlier one shares a key with it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[object, tuple[str, ...]]] = []

    def may_go(self, item: object) -> bool:
        for place, (other, keys) in enumerate(self.waiting):
            if other is item:
                return not any(set(keys) & set(earlier) for _, earlier in self.waiting[:place])
        return False


def test_order_is_empty_before_the_first_and_after_the_last_item() -> None:
    order: ArrivalOrder[str] = ArrivalOrder()
    assert order.empty
    order.enter("item", ["k"])
    assert not order.empty
    assert order.leave("item", ["k"]) == []
    assert order.empty


@pytest.mark.mission("ORD-2")
@pytest.mark.parametrize("seed", range(20))
def test_items_go_in_order_of_arrival_by_key(seed: int) -> None:
    rng = random.Random(seed)
    order: ArrivalOrder[object] = ArrivalOrder()
    twin = Twin()
    gone: list[tuple[object, tuple[str, ...]]] = []
    for _ in range(300):
        if rng.random() < 0.5 or not twin.waiting:
            keys = tuple(rng.sample("abcdef", rng.randint(1, 3)))
            assert order.is_busy(keys) == any(set(keys) & set(k) for _, k in twin.waiting)
            item = object()
            order.enter(item, keys)
            twin.waiting.append((item, keys))
        else:
            item, keys = rng.choice(twin.waiting)
            assert order.may_go(item, keys) == twin.may_go(item)
            if twin.may_go(item):
                following = order.leave(item, keys)
                freed = [entry for entry in twin.waiting if not twin.may_go(entry[0])]
                twin.waiting.remove((item, keys))
                gone.append((item, keys))
                assert all(f in following for f, _ in freed if twin.may_go(f))
        assert len(order) == len({key for _, keys in twin.waiting for key in keys})
        assert order.empty == (not twin.waiting)
        for item, keys in gone[-3:]:
            assert not order.may_go(item, keys)
    assert gone
