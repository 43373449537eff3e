"""A simulation in slices equals one that runs at once; a wiretap sees its bytes and is not seen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.world.sim.links import Address, Lane
from minikafka.world.sim.loop import SimLoop, TimeLimitExceeded
from minikafka.world.sim.world import SimWorld
from tests.support.network.wire_end import WireEnd

PORT = 9092
END_US = 2_000_000


class Tap:
    """Counts the bytes of each direction."""

    def __init__(self) -> None:
        self.sizes: dict[tuple[Address, Address], list[int]] = {}
        self.stops: list[int | None] = []
        self.ended: list[tuple[Address, Address]] = []

    def sent(self, source: Address, target: Address, piece: memoryview) -> None:
        self.sizes.setdefault((source, target), [0, 0])[0] += len(piece)

    def arrived(self, source: Address, target: Address, count: int) -> None:
        self.sizes[source, target][1] += count

    def stopped(self, source: Address, target: Address, passing: int | None) -> None:
        self.stops.append(passing)

    def closed(self, client: Address, server: Address) -> None:
        self.ended.append((client, server))

    def message_sent(self, lane: Lane[Any], message: object) -> None:
        raise AssertionError("no client of ZooKeeper is here")

    def message_arrived(self, lane: Lane[Any]) -> None:
        raise AssertionError("no client of ZooKeeper is here")

    def messages_stopped(self, lane: Lane[Any], passing: int | None) -> None:
        raise AssertionError("no client of ZooKeeper is here")

    def messages_lost(self, lane: Lane[Any]) -> None:
        raise AssertionError("no client of ZooKeeper is here")


def talking(seed: int) -> SimWorld:
    """A world in which ``a`` writes to ``b`` every 100 ms, until the link is cut."""
    world = SimWorld(seed)
    a, b = world.host("a"), world.host("b")

    async def talk() -> None:
        await b.world.network.listen(WireEnd, "", PORT)
        transport, _ = await a.world.network.connect(WireEnd, "b", PORT)
        for number in range(15):
            transport.write(bytes(100 * number))
            world.tracer.add("written", number=number)
            await asyncio.sleep(0.1)
        world.clog("a", "b")
        transport.write(bytes(1_000))

    world.loop.call_soon(lambda: a.spawn(talk()))
    return world


def outcome(world: SimWorld) -> tuple[str, list[str]]:
    found = world.digest(), list(world.trace)
    world.end()
    return found


@pytest.mark.mission("LEARN-2")
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 100), st.lists(st.integers(0, END_US), max_size=20))
def test_slices_equal_one_run(seed: int, cuts: list[int]) -> None:
    whole, sliced = talking(seed), talking(seed)
    assert whole.run_slice(END_US)
    for cut_us in [*sorted(cuts), END_US]:
        assert sliced.run_slice(cut_us)
    assert outcome(sliced) == outcome(whole)


@pytest.mark.mission("LEARN-3")
def test_a_wiretap_sees_bytes_leave_and_arrive() -> None:
    plain, tapped, tap = talking(3), talking(3), Tap()
    tapped.links.wiretap = tap
    plain.run_slice(END_US)
    tapped.run_slice(END_US)
    assert outcome(tapped) == outcome(plain)
    a, b = ("a", 49152), ("b", PORT)
    written = 100 * sum(range(15))
    assert tap.sizes == {(a, b): [written + 1_000, written]}  # the cut link holds the rest
    assert set(tap.stops) == {0}
    assert tap.ended == [(a, b)]


def test_stop_ends_a_slice_after_the_turn() -> None:
    loop, seen = SimLoop(), list[int]()
    begin_us = loop.now_us
    loop.call_at_us(begin_us + 10, seen.append, 1)
    loop.call_at_us(begin_us + 10, loop.stop)
    loop.call_at_us(begin_us + 10, loop.call_soon, seen.append, 2)
    loop.call_at_us(begin_us + 20, seen.append, 3)
    assert not loop.run_slice(begin_us + 15)
    assert (seen, loop.now_us - begin_us) == ([1], 10)
    assert loop.run_slice(begin_us + 15)
    assert (seen, loop.now_us - begin_us) == ([1, 2], 15)
    assert loop.run_slice(begin_us + 20)
    assert seen == [1, 2, 3]
    assert loop.run_slice(begin_us + 30)  # without a timer it is no deadlock
    loop.close()


def test_a_slice_keeps_the_limit_of_time() -> None:
    loop = SimLoop()
    loop.limit_us = loop.now_us + 5
    loop.call_at_us(loop.now_us + 10, lambda: None)
    with pytest.raises(TimeLimitExceeded):
        loop.run_slice(loop.now_us + 20)
    loop.close()


def test_the_end_raises_unnoticed_failures() -> None:
    world = SimWorld(1)

    async def fail() -> None:
        raise ValueError("a bug")

    world.loop.call_soon(lambda: world.host("a").spawn(fail()))
    assert world.run_slice(1_000)
    with pytest.raises(BaseExceptionGroup) as raised:
        world.end()
    assert [str(error) for error in raised.value.exceptions] == ["a bug"]
    assert world.loop.is_closed()
