"""Lines of standard input, read asynchronously from a file, a pipe or a terminal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

STDIN = 0
READ_BYTES = 1 << 16


class InputLines:
    """Chunks of lines from a file descriptor; iterate once.

    The event loop waits for input: a thread blocked in ``sys.stdin`` could not be stopped.
    """

    def __init__(self, descriptor: int = STDIN) -> None:
        self._descriptor = descriptor
        self._woken = asyncio.Event()
        self._stopped = False

    def stop(self) -> None:
        """End the iteration. An incomplete line is dropped."""
        self._stopped = True
        self._woken.set()

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        """Yield the lines available at once, with their newlines; the last line may lack it.

        Raises OSError.
        """
        begun: list[bytes] = []
        while data := await self._read():
            *whole, rest = data.split(b"\n")
            if whole:
                whole[0] = b"".join([*begun, whole[0]])
                begun.clear()
                yield [line + b"\n" for line in whole]
            if rest:
                begun.append(rest)
        if begun and not self._stopped:
            yield [b"".join(begun)]

    async def _read(self) -> bytes:
        """Wait for input and return it; empty at the end of input or after ``stop``."""
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._descriptor, self._woken.set)
        except PermissionError:  # a regular file: nothing to wait for
            await asyncio.sleep(0)
        else:
            try:
                await self._woken.wait()
            finally:
                loop.remove_reader(self._descriptor)
        if self._stopped:
            return b""
        self._woken.clear()
        return os.read(self._descriptor, READ_BYTES)
