"""The timer alone: adding, cancelling and expiring beside heapq and the loop's own timers."""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Any, Protocol

import uvloop

from minikafka.cli.processes.garbage import THRESHOLDS
from minikafka.core.timer import Timer, TimerTaskEntry
from scripts.lib.bench import parked
from scripts.lib.bench.report import Report

POPULATIONS = (1_000, 100_000, 1_000_000)
CHUNK = 1_000  # timers added, then as many cancelled
ROUNDS = 25
START_MS = 10_000_000  # a machine that has been up for hours
LONGEST_MS = 60_000
MEASURED_FOR_SIZE = 100_000
DUE_MS = 2


def nothing() -> None: ...


class Timers(Protocol):
    """One way of holding timers that expire so many milliseconds after the start."""

    def add(self, delay_ms: int) -> Any: ...

    def cancel(self, handle: Any) -> None: ...


class Wheel:
    def __init__(self) -> None:
        self.timer: Timer[Callable[[], None]] = Timer(START_MS)

    def add(self, delay_ms: int) -> TimerTaskEntry[Callable[[], None]]:
        return self.timer.add(nothing, START_MS + delay_ms)

    def cancel(self, handle: TimerTaskEntry[Callable[[], None]]) -> None:
        handle.cancel()

    def drain(self) -> int:
        """Expire everything, wake-up by wake-up."""
        count, timer = 0, self.timer
        while (due_ms := timer.next_expiration_ms()) is not None:
            count += len(timer.advance(due_ms))
        return count


class LazyHeap:
    """A heap of deadlines. A cancelled entry loses its task, and leaves when it comes up or when
    half of the heap is cancelled, as asyncio does."""

    def __init__(self) -> None:
        self.heap: list[list[Any]] = []
        self.number = 0
        self.cancelled = 0

    def add(self, delay_ms: int) -> list[Any]:
        self.number += 1
        entry = [START_MS + delay_ms, self.number, nothing]
        heapq.heappush(self.heap, entry)
        return entry

    def cancel(self, handle: list[Any]) -> None:
        handle[2] = None
        self.cancelled += 1
        if self.cancelled > len(self.heap) // 2:
            self.heap = [entry for entry in self.heap if entry[2] is not None]
            heapq.heapify(self.heap)
            self.cancelled = 0

    def drain(self) -> int:
        count, heap = 0, self.heap
        while heap:
            count += heapq.heappop(heap)[2] is not None
        return count


class LoopTimers:
    """``call_later`` of the running loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def add(self, delay_ms: int) -> asyncio.TimerHandle:
        return self.loop.call_later(delay_ms / 1000 + 3600, nothing)  # none fires meanwhile

    def cancel(self, handle: asyncio.TimerHandle) -> None:
        handle.cancel()


class Population:
    """So many timers, and what a chunk of additions and of cancellations took, round by round.

    The oldest are cancelled first, as requests are answered about in their order; or any.
    """

    def __init__(self, timers: Timers, count: int, in_order: bool = True) -> None:
        dice = random.Random(count)
        self.timers = timers
        self.handles = [timers.add(delay(dice)) for _ in range(count)]
        if not in_order:
            dice.shuffle(self.handles)
        self._delays = [delay(dice) for _ in range(CHUNK)]
        self._place = 0
        self.adding: list[float] = []
        self.cancelling: list[float] = []

    def round(self) -> None:
        """Twice, and the second counts: the others have taken the processor's caches."""
        self._round()
        adding, cancelling = self._round()
        self.adding.append(adding)
        self.cancelling.append(cancelling)

    def _round(self) -> tuple[float, float]:
        add, cancel = self.timers.add, self.timers.cancel
        started = time.perf_counter()
        new = [add(delay_ms) for delay_ms in self._delays]
        added = time.perf_counter()
        place = self._place if self._place + CHUNK <= len(self.handles) else 0
        old = self.handles[place : place + CHUNK]
        self.handles[place : place + CHUNK] = new
        self._place = place + CHUNK
        del new
        between = time.perf_counter()
        for handle in old:
            cancel(handle)
        return added - started, time.perf_counter() - between

    @property
    def add_ns(self) -> float:
        return typical(self.adding) / CHUNK * 1e9

    @property
    def cancel_ns(self) -> float:
        return typical(self.cancelling) / CHUNK * 1e9


def typical(seconds: Sequence[float]) -> float:
    """The lower quartile: what others do on the machine only ever adds."""
    return quantiles(seconds, n=4)[0]


def delay(dice: random.Random) -> int:
    return 1 + int(dice.random() * LONGEST_MS)


def run(report: Report) -> None:
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)  # as in a broker
    try:
        for count in POPULATIONS:
            uvloop.run(compare(report, count))
        uvloop.run(sizes(report))
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    parked.run(report)


async def compare(report: Report, count: int) -> None:
    """Rounds in turns, so that whatever else the machine does hits all alike."""
    wheel, heap, loop = (Population(t, count) for t in (Wheel(), LazyHeap(), LoopTimers()))
    any_order = Population(Wheel(), count, in_order=False)
    heap_any, loop_any = (
        Population(timers, count, in_order=False) for timers in (LazyHeap(), LoopTimers())
    )
    few = Population(Wheel(), POPULATIONS[0])
    everyone = (wheel, heap, loop, any_order, heap_any, loop_any, few)
    for _ in range(ROUNDS):
        for population in everyone:
            population.round()
    both = wheel.add_ns + wheel.cancel_ns
    report.section(f"{count:,} timers outstanding (ns each)", "wheel", "heapq")
    report.row("add", "ns", wheel.add_ns, heap.add_ns)
    report.row("cancel, in order", "ns", wheel.cancel_ns, heap.cancel_ns)
    report.row("cancel, in any order", "ns", any_order.cancel_ns, heap_any.cancel_ns)
    report.section("", "wheel", "call_later")
    report.row("add", "ns", wheel.add_ns, loop.add_ns)
    report.row("cancel, in order", "ns", wheel.cancel_ns, loop.cancel_ns)
    report.row("cancel, in any order", "ns", any_order.cancel_ns, loop_any.cancel_ns)
    report.row(
        "add and cancel", "ns", both, loop.add_ns + loop.cancel_ns, 1.0, smaller_is_better=True
    )
    if count > POPULATIONS[0]:
        report.section("", f"{count:,}", f"{POPULATIONS[0]:,}")
        for name, ours, least in (
            ("add", wheel.add_ns, few.add_ns),
            ("cancel, in order", wheel.cancel_ns, few.cancel_ns),
            ("cancel, in any order", any_order.cancel_ns, few.cancel_ns),
        ):
            report.row(name, "ns", ours, least, 1.3, smaller_is_better=True)
    for population in (loop, loop_any):
        for handle in population.handles:
            population.timers.cancel(handle)
    await expire(report, count)


async def expire(report: Report, count: int) -> None:
    """Everything expires: the wheel's and the heap's in time of their own, wake-up by wake-up. The
    loop's cannot be hurried: they come in bursts of a chunk among the others."""
    dice = random.Random(count)
    costs = []
    for make in (Wheel, LazyHeap):
        timers = make()
        for _ in range(count):
            timers.add(delay(dice))
        started = time.perf_counter()
        if timers.drain() != count:
            raise RuntimeError("timers were lost")
        costs.append((time.perf_counter() - started) / count * 1e9)
    report.section("", "wheel", "heapq")
    wheel_ns, heap_ns = costs
    report.row("expire", "ns", wheel_ns, heap_ns)
    report.section("", "wheel", "call_later")
    report.row("expire", "ns", costs[0], await loop_expires(count))


async def loop_expires(count: int) -> float:
    """Nanoseconds for each timer of a burst that is due at once."""
    loop = asyncio.get_running_loop()
    others = [loop.call_later(3600, nothing) for _ in range(count)]
    costs = []
    for _ in range(10):
        fired = loop.create_future()
        for _ in range(CHUNK - 1):
            loop.call_later(DUE_MS / 1000, nothing)
        loop.call_later(DUE_MS / 1000, fired.set_result, None)
        let_pass(2 * DUE_MS)  # all are due before the loop looks again
        started = time.perf_counter()
        await fired
        costs.append(time.perf_counter() - started)
    for handle in others:
        handle.cancel()
    return typical(costs) / CHUNK * 1e9


def let_pass(milliseconds: int) -> None:
    """On purpose without the loop."""
    time.sleep(milliseconds / 1000)


async def sizes(report: Report) -> None:
    def size(timers: Timers) -> float:
        delays = [delay(random.Random(i)) for i in range(MEASURED_FOR_SIZE)]
        handles: list[Any] = [None] * MEASURED_FOR_SIZE
        tracemalloc.start()
        for i, delay_ms in enumerate(delays):
            handles[i] = timers.add(delay_ms)
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        for handle in handles:
            timers.cancel(handle)
        return used / MEASURED_FOR_SIZE

    wheel = size(Wheel())
    report.section("bytes for each outstanding timer", "wheel", "heapq")
    report.row("memory", "B", wheel, size(LazyHeap()))
    report.section("", "wheel", "call_later")
    report.row("memory", "B", wheel, size(LoopTimers()))
