"""Recordings: the messages of a page in a file, one line each, which the page plays back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from minikafka.dashboard.broadcast import Broadcast
from minikafka.dashboard.messages import json_text

MAX_BYTES: Final = 512 * 1024 * 1024


async def record(broadcast: Broadcast, write: Callable[[str], object]) -> None:
    """Call ``write`` with each line of a recording, until it is cancelled or has ``MAX_BYTES``.
    The sources run meanwhile."""
    size = 0
    async for line in recorded(broadcast.texts()):
        size += len(line)
        if size > MAX_BYTES:
            return
        write(line)


async def recorded(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the lines of a recording: the first message says that nothing here is live."""
    async for text in texts:
        message = json.loads(text) if text.startswith('{"type":"hello"') else None
        if message is not None:
            message |= {"live": False, "read_only": True, "supervised": []}
            text = json_text(message)
        yield f"{text}\n"
