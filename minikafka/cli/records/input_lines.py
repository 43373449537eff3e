"""Lines of a file, a pipe or a terminal, as they come; waiting for them holds up no end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

STDIN = 0
READ_BYTES = 1 << 16


class InputLines:
    """Iterated once. The loop waits for the input, not a thread inside ``sys.stdin``, which could
    neither be woken up nor left behind."""

    def __init__(self, descriptor: int = STDIN) -> None:
        self._descriptor = descriptor
        self._woken = asyncio.Event()
        self._stopped = False

    def stop(self) -> None:
        """Read no more. A line that is not whole yet is dropped."""
        self._stopped = True
        self._woken.set()

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        """Lines with their ends, as many as are there at once; the last of all may have no end.
        Raises OSError."""
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
        """What is there as soon as there is something; empty at the end."""
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
