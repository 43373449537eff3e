"""Loading all logs of a log directory: several at a time, with a word on how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.storage.log_loader import LogLoader
from minikafka.storage.unified_log import UnifiedLog

_LOADS_PER_BREATH: Final = 20
_PROGRESS_MS: Final = 5_000


class LogLoading:
    """``adopt`` is given each log as soon as it is loaded. ``at_once`` logs are loaded side by
    side: while one waits for the disk, others go on. Kafka: ``LogManager.loadLogs``."""

    def __init__(
        self,
        clock: Clock,
        events: EventLog,
        at_once: int,
        adopt: Callable[[UnifiedLog], None],
    ) -> None:
        self._clock = clock
        self._events = events
        self._at_once = at_once
        self._adopt = adopt
        self._loaders: Sequence[LogLoader] = ()
        self._loaded = 0
        self._error: OSError | KafkaError | None = None

    async def load(self, loaders: Sequence[LogLoader]) -> None:
        """Raises the first OSError or KafkaError(CORRUPT_MESSAGE) that a log meets; the loading of
        others ends then too."""
        self._loaders = loaders
        waiting = iter(loaders)
        self._progress = self._clock.call_later(_PROGRESS_MS, self._tell)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._at_once, len(loaders))):
                    tasks.create_task(self._work(waiting))
        finally:
            self._progress.cancel()
        if self._error is not None:
            raise self._error

    async def _work(self, waiting: Iterator[LogLoader]) -> None:
        for loader in waiting:
            if self._error is not None:
                return
            try:
                await loader.load()
                self._adopt(loader.log)
                if loader.discarded:
                    await loader.log.flush()
            except (OSError, KafkaError) as error:
                self._error = error
                return
            self._loaded += 1
            if self._loaded % _LOADS_PER_BREATH == 0:
                await asyncio.sleep(0)

    def _tell(self) -> None:
        self._events.info(
            "logs_loading",
            loaded=self._loaded,
            logs=len(self._loaders),
            bytes_recovered=sum(loader.bytes_read for loader in self._loaders),
        )
        self._progress = self._clock.call_later(_PROGRESS_MS, self._tell)
