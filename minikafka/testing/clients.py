"""Our own clients of a cluster under test, and their loop where the cluster has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Any, NamedTuple, ParamSpec, TypeVar

from minikafka.client import (
    Admin,
    ClientConfig,
    Consumer,
    ConsumerConfig,
    Producer,
    ProducerConfig,
)
from minikafka.kernel.events import kept
from minikafka.kernel.ports import Clock, World
from minikafka.world.real.loop_thread import LoopThread

T = TypeVar("T")
P = ParamSpec("P")


class ClusterClients(NamedTuple):
    """Makes clients for the loop on which the world works."""

    world: World
    config: ClientConfig

    def admin(self) -> Admin:
        return Admin(self.world, self.config)

    def producer(self, config: ProducerConfig | None = None) -> Producer:
        return Producer(self.world, self.config, config or ProducerConfig())

    def consumer(self, config: ConsumerConfig | None = None) -> Consumer:
        return Consumer(self.world, self.config, config or ConsumerConfig())


def attempts(clock: Clock, timeout_s: float) -> Iterator[int]:
    """Count from 0 until the time has passed; at least one attempt."""
    deadline_ms = clock.monotonic_ms() + round(timeout_s * 1000)
    for number in count():
        yield number
        if clock.monotonic_ms() >= deadline_ms:
            return


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that blocks in a thread made for this call, so that any number of them may
    wait for each other. After a cancellation the function runs on, unnoticed."""
    done: Future[T] = Future()

    def work() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(function(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="minikafka-call", daemon=True).start()
    return await asyncio.wrap_future(done)


class ClientThread:
    """An event loop in a thread, for the clients of a cluster that has no loop in this process.
    Clients on it print nothing."""

    def __init__(self) -> None:
        self._thread = LoopThread("minikafka-clients")
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and return its result."""
        with kept(lambda *_: None):  # the work runs in a copy of this context
            return self._thread.call(work)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the loop; the caller may be on any loop."""
        if self._thread.is_current:
            return await work
        return await in_thread(self.call, work)

    def close(self) -> None:
        """Cancel what runs, and end the thread."""
        self.call(self._end_all())
        self._thread.stop()

    async def _end_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
