"""The real Workers: threads for work that takes longer than the event loop may stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

MAX_THREADS = 2  # they share the interpreter with the event loop: more would only slow it down


class RealWorkers:
    """See ``kernel.ports.Workers``. A thread starts with the first work."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="minikafka-worker")

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
