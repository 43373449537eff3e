"""Frames of a connection: in order, bounded in both directions, and ended by either side."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from minikafka.testing.proxy.frame_stream import READ_AHEAD_BYTES, WRITE_HIGH_BYTES, FrameStream
from minikafka.world.real.network import RealNetwork

FRAME = bytes(100_000)
HOST = "127.0.0.1"
MAX_BYTES = 10 * 1024 * 1024


@contextlib.asynccontextmanager
async def pair(max_bytes: int = MAX_BYTES) -> AsyncIterator[tuple[FrameStream, FrameStream]]:
    """Two ends of a connection."""
    network = RealNetwork()
    accepted: asyncio.Future[FrameStream] = asyncio.get_running_loop().create_future()
    listener = await network.listen(lambda: FrameStream(max_bytes, accepted.set_result), HOST, 0)
    one = FrameStream(max_bytes)
    await network.connect(lambda: one, HOST, listener.port)
    other = await accepted
    yield one, other
    one.abort()
    other.abort()
    await asyncio.gather(one.until_lost(), other.until_lost())
    listener.close()


async def write_many(stream: FrameStream, count: int) -> None:
    for number in range(count):
        stream.write_frame(number.to_bytes(4, "big") + FRAME)
        await stream.drain()


@pytest.mark.mission("IN-85")
async def test_a_peer_that_does_not_read_holds_the_writer_up() -> None:
    async with pair() as (one, other):
        count = 1_000
        writing = asyncio.create_task(write_many(one, count))
        held = -1
        while held != other.waiting_bytes or held < READ_AHEAD_BYTES:
            held = other.waiting_bytes
            await asyncio.wait((writing,), timeout=0.05)
        assert not writing.done()
        assert held <= READ_AHEAD_BYTES + 2 * len(FRAME) + MAX_BYTES // 10
        transport = one._transport
        assert transport is not None
        assert transport.get_write_buffer_size() <= WRITE_HIGH_BYTES + 2 * len(FRAME)
        for number in range(count):
            frame = await other.read()
            assert frame is not None
            assert (int.from_bytes(frame[:4], "big"), len(frame)) == (number, len(FRAME) + 4)
        await writing


@pytest.mark.mission("IN-85")
async def test_frames_that_have_arrived_are_read_after_the_end() -> None:
    async with pair() as (one, other):
        one.write_frame(b"first")
        one.write_frame(b"second")
        one.close()
        await other.until_lost()
        assert [bytes(frame or b"") for frame in (await other.read(), await other.read())] == [
            b"first",
            b"second",
        ]
        assert await other.read() is None
        other.write_frame(b"dropped")
        await other.drain()


@pytest.mark.mission("IN-85")
async def test_a_reader_and_a_writer_go_on_when_the_peer_has_gone() -> None:
    async with pair() as (one, other):
        reading = asyncio.create_task(one.read())
        writing = asyncio.create_task(write_many(one, 1_000))
        await asyncio.sleep(0)
        other.abort()
        assert await reading is None
        await writing


@pytest.mark.mission("IN-85")
async def test_a_frame_that_is_too_large_ends_the_stream() -> None:
    async with pair(max_bytes=10) as (one, other):
        one.write_frame(b"small")
        one.write_frame(b"more than ten")
        assert bytes(await other.read() or b"") == b"small"
        assert await other.read() is None
        assert other.broken == "frame of 13 bytes, 10 allowed"
