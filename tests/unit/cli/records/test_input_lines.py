"""Lines out of pipes, files and terminals."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.cli.records.produce import READ_BYTES, InputLines
from tests.support.cluster.terminals import needs_a_terminal


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


async def collect(lines: InputLines) -> list[list[bytes]]:
    return [chunk async for chunk in lines]


async def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    long = b"x" * (2 * READ_BYTES + 10)
    path.write_bytes(b"a\r\n\nb\n" + long + b"\nlast")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        chunks = await collect(InputLines(descriptor))
    finally:
        os.close(descriptor)
    assert [line for chunk in chunks for line in chunk] == [
        b"a\r\n",
        b"\n",
        b"b\n",
        long + b"\n",
        b"last",
    ]


async def test_lines_of_a_pipe_come_when_they_are_whole(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    chunks = aiter(InputLines(reading))
    os.write(writing, b"a\nb\nbeg")
    assert await anext(chunks) == [b"a\n", b"b\n"]
    coming = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0.01)
    assert not coming.done()
    os.write(writing, b"un\n")
    assert await coming == [b"begun\n"]
    os.write(writing, b"no end")
    os.close(writing)
    assert [chunk async for chunk in chunks] == [[b"no end"]]


async def test_a_reader_that_waits_can_be_stopped(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    lines = InputLines(reading)
    collecting = asyncio.ensure_future(collect(lines))
    os.write(writing, b"a\nhalf")
    await asyncio.sleep(0.01)
    lines.stop()
    assert await collecting == [[b"a\n"]]


@needs_a_terminal
async def test_a_terminal() -> None:
    ours, theirs = pty.openpty()
    try:
        lines = InputLines(theirs)
        collecting = asyncio.ensure_future(collect(lines))
        os.write(ours, b"hello\n")
        await asyncio.sleep(0.05)
        os.write(ours, b"\x04")  # Ctrl-D
        assert await collecting == [[b"hello\n"]]
    finally:
        os.close(ours)
        os.close(theirs)
