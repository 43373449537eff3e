"""The partitions of an internal topic that are coordinated here: loaded, served, unloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from minikafka.core.coordinator_partition import partition_for
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock


class Runtime(Protocol):
    """What serves one partition, led here since leader epoch ``epoch``."""

    partition: int
    epoch: int
    loading: bool

    @property
    def size(self) -> int:
        """How many groups, or transactional ids."""
        ...

    async def load(self, is_wanted: Callable[[], bool]) -> bool:
        """Read the log; False when that came to nothing, as it is not led here any more."""
        ...

    def loaded(self) -> None:
        """All is read: serve."""
        ...

    def unloaded(self) -> None:
        """Another broker serves it now."""
        ...


R = TypeVar("R", bound=Runtime)


class CoordinatedPartitions(Generic[R]):
    """``elected`` and ``resigned`` come from the controller's requests, in their order; a
    resignation takes effect at once, in the middle of a load too. ``what``: for the event log, in
    the plural."""

    def __init__(
        self,
        clock: Clock,
        new_runtime: Callable[[int, int], R],
        partition_count: Callable[[], int],
        events: EventLog,
        what: str,
    ) -> None:
        self.clock = clock
        self.events = events
        self._new_runtime = new_runtime
        self._partition_count = partition_count
        self._what = what
        self._runtimes: dict[int, R] = {}
        self._epochs: dict[int, int] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def close(self) -> None:
        """Load nothing more, serve nobody."""
        self._closed = True
        for task in self._running:
            task.cancel()

    def start_task(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """It ends with ``close``, if not before."""
        assert self._tasks is not None, "after start"
        task = self._tasks.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # -- leadership

    def elected(self, partition: int, epoch: int) -> None:
        """This broker leads ``partition`` now. One that it led before goes on as it is."""
        if not self._is_news(partition, epoch):
            return
        known = self._runtimes.get(partition)
        if known is not None:
            known.epoch = epoch
            return
        runtime = self._runtimes[partition] = self._new_runtime(partition, epoch)
        self.events.debug("coordinator_elected", partition=partition, epoch=epoch)
        self.start_task(self._load(runtime), f"load-{self._what}-{partition}")

    def resigned(self, partition: int, epoch: int | None) -> None:
        """Another broker leads it; ``epoch`` None: the replica here is gone, or its disk broke."""
        if epoch is not None and not self._is_news(partition, epoch):
            return
        self._resign(partition, epoch)

    def _resign(self, partition: int, epoch: int | None) -> None:
        runtime = self._runtimes.pop(partition, None)
        if runtime is None:
            return
        tell = self.events.info if runtime.size else self.events.debug
        told = {self._what: runtime.size}
        tell("coordinator_resigned", partition=partition, epoch=epoch, **told)
        runtime.unloaded()

    def _is_news(self, partition: int, epoch: int) -> bool:
        if epoch < self._epochs.get(partition, epoch):
            return False
        self._epochs[partition] = epoch
        return True

    async def _load(self, runtime: R) -> None:
        partition = runtime.partition

        def is_wanted() -> bool:
            return self._runtimes.get(partition) is runtime

        started_ms = self.clock.monotonic_ms()
        whole = await runtime.load(is_wanted)
        if not is_wanted():
            return
        if not whole:  # nobody has said so, but there is nothing to serve
            self._resign(partition, runtime.epoch)
            return
        runtime.loading = False
        runtime.loaded()
        tell = self.events.info if runtime.size else self.events.debug
        took_ms = self.clock.monotonic_ms() - started_ms
        told = {self._what: runtime.size, "took_ms": took_ms}
        tell(f"{self._what}_loaded", partition=partition, epoch=runtime.epoch, **told)

    # -- who coordinates what

    def partition_for(self, key: str) -> int:
        return partition_for(key, self._partition_count())

    def require(self, key: str) -> R:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE while shutting down,
        COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR."""
        if self._closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        runtime = self._runtimes.get(self.partition_for(key))
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if runtime.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return runtime

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_loading(self) -> bool:
        return any(runtime.loading for runtime in self._runtimes.values())

    def loaded(self) -> Iterator[R]:
        """Those that are served, by partition."""
        for partition in sorted(self._runtimes):
            runtime = self._runtimes.get(partition)
            if runtime is not None and not runtime.loading:
                yield runtime

    def of_partition(self, partition: int) -> R | None:
        """None when it is not coordinated here; it may still be loading."""
        return self._runtimes.get(partition)
