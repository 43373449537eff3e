"""Runs the commands of acts as processes, bounded in time and in output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from typing import IO, Any

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.own_command import own_command
from minikafka.page.dashboard.acting.acts import Command

MOST_BYTES = 1024 * 1024
TIMEOUT_S = 60.0
_CHUNK = 64 * 1024
_MOST_ERROR_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command has done.

    ``status`` is None if it was killed: ``errors`` then says why. ``cut``: there was more output
    than the caller takes.
    """

    status: int | None
    output: str
    errors: str
    cut: bool = False


async def run_command(
    command: Command,
    timeout_s: float = TIMEOUT_S,
    most_bytes: int = MOST_BYTES,
    output: bytearray | None = None,
) -> Finished:
    """Run a command of minikafka's and return its output, which also appears in ``output`` while
    the command runs.

    It is killed when ``timeout_s`` is over, when it has printed more than ``most_bytes``, and when
    the caller is cancelled. There is no shell, no module is imported from the working directory,
    and text is UTF-8 whatever the locale. Raises OSError if no process can be started.
    """
    with contextlib.ExitStack() as files:
        process = await asyncio.create_subprocess_exec(
            *own_command(*command.words),
            env={**os.environ, **command.secrets, "PYTHONIOENCODING": "utf-8:backslashreplace"},
            stdin=DEVNULL if command.stdin is None else _file_of(command.stdin, files),
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,  # a Ctrl-C is for the page, which then cancels the caller
        )
    try:
        return await _finish(
            process, timeout_s, most_bytes, bytearray() if output is None else output
        )
    finally:
        if process.returncode is None:
            await _kill(process)


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(_CHUNK):
            pass  # asyncio does not notice the end of a process with output that nobody reads
    await process.wait()


def _file_of(text: str, files: contextlib.ExitStack) -> IO[bytes]:
    """Return an unnamed file. A pipe of uvloop's is a socket, which ``/dev/stdin`` cannot open."""
    file: IO[bytes] = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (it is)
    file.write(text.encode(errors="replace"))
    file.seek(0)
    return file


async def _finish(
    process: asyncio.subprocess.Process, timeout_s: float, most_bytes: int, output: bytearray
) -> Finished:
    assert process.stdout is not None
    assert process.stderr is not None
    errors = bytearray()
    cut = False
    status: int | None = None
    try:
        async with asyncio.timeout(timeout_s):
            complaints = asyncio.ensure_future(_read_beginning(process.stderr, errors))
            try:
                cut = await _read(process.stdout, output, most_bytes)
                if not cut:
                    await complaints
                    status = await process.wait()
            finally:
                complaints.cancel()
                await asyncio.wait([complaints])
    except TimeoutError:
        errors += f"minikafka: the command was stopped after {timeout_s:g} s\n".encode()
    if cut:
        errors += f"minikafka: the output was cut after {most_bytes} bytes\n".encode()
    return Finished(status, output.decode(errors="replace"), errors.decode(errors="replace"), cut)


async def _read(stream: asyncio.StreamReader, into: bytearray, most: int) -> bool:
    """Read to the end; return True, without reading on, once there is more than ``most``."""
    while chunk := await stream.read(_CHUNK):
        left = most - len(into)
        into += chunk[:left]
        if len(chunk) > left:
            return True
    return False


async def _read_beginning(stream: asyncio.StreamReader, into: bytearray) -> None:
    """Read to the end, and keep what comes first."""
    while chunk := await stream.read(_CHUNK):
        into += chunk[: _MOST_ERROR_BYTES - len(into)]


def parsed_output(text: str, lines: bool = False) -> Any:
    """Return JSON, or the text as it is. ``lines``: each line is JSON, and the result a list."""
    try:
        if lines:
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text)
    except ValueError:
        return text
