"""Recordings: the messages of a page in a file, one line each, which the page plays back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Final

from minikafka.kernel.events import event_log
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.messages import json_text

MAX_BYTES: Final = 512 * 1024 * 1024


@contextmanager
def opened(path: str) -> Iterator[Callable[[str], object]]:
    """Open a file for a recording; yield what writes a line. Raises OSError."""
    with open(
        path, "wb", buffering=0
    ) as file:  # what a full disk refuses is not kept until the end
        yield lambda line: file.write(line.encode("ascii"))


async def record(broadcast: Broadcast, write: Callable[[str], object]) -> None:
    """Call ``write`` with each line of a recording, until it is cancelled or has ``MAX_BYTES``, or
    ``write`` raises OSError, which is logged. The sources run meanwhile."""
    size = 0
    async with aclosing(broadcast.texts()) as texts:  # which is a reader until it is closed
        async for line in recorded(texts):
            size += len(line)
            if size > MAX_BYTES:
                return
            try:
                write(line)
            except OSError as error:
                event_log("page").error("recording_failed", error=str(error))
                return


async def recorded(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the lines of a recording: the first message says that nothing here is live."""
    async for text in texts:
        message = json.loads(text) if text.startswith('{"type":"hello"') else None
        if message is not None:
            message |= {"live": False, "read_only": True, "supervised": []}
            text = json_text(message)
        yield f"{text}\n"
