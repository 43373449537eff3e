"""The HTTP server on uvloop and real sockets: half-closed peers, large answers, refusals, noise."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from minikafka.server.listeners.http_server import HttpConfig, HttpServer
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from tests.support.network.http_lab import get, responses

BIG = "x" * 3_000_000
LIMIT_S = 20


async def ask(port: int, data: bytes, half_close: bool = True) -> bytes:
    """All that comes until the server is done."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if half_close:
        writer.write_eof()
    try:
        async with asyncio.timeout(LIMIT_S):
            return await reader.read()
    finally:
        writer.close()


def serve(play: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = real_world()
        broken: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
        routes = {"/small.json": lambda query: dict(query), "/big.json": lambda query: BIG}
        server = HttpServer(world.network, world.clock, routes, HttpConfig(max_request_bytes=2_000))
        port = await server.start("127.0.0.1", 0)
        await play(port)
        async with asyncio.timeout(LIMIT_S):
            while server.connection_count:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0)
        server.close()
        assert broken == []

    run(main())


def test_pipelined_requests_of_a_peer_that_is_done_writing() -> None:
    async def play(port: int) -> None:
        asked = b"".join(get(f"/small.json?n={n}") for n in range(100))
        assert [int(r.json["n"]) for r in responses(await ask(port, asked))] == list(range(100))

    serve(play)


def test_large_pipelined_responses_arrive_whole() -> None:
    async def play(port: int) -> None:
        answers = responses(await ask(port, get("/big.json") * 5))
        assert [len(r.json) for r in answers] == [len(BIG)] * 5

    serve(play)


def test_the_server_closes_after_connection_close() -> None:
    async def play(port: int) -> None:
        asked = get("/small.json") + get("/small.json", "Connection: close")
        assert len(responses(await ask(port, asked, half_close=False))) == 2

    serve(play)


def test_a_refusal_arrives_while_the_client_still_sends() -> None:
    async def play(port: int) -> None:
        answers = responses(await ask(port, b"y" * 500_000, half_close=False))
        assert [r.status for r in answers] == [431]

    serve(play)


def test_noise() -> None:
    dice = random.Random(1)

    async def play(port: int) -> None:
        for _ in range(100):
            noise = dice.randbytes(dice.randrange(1, 200))
            if dice.random() < 0.5:
                noise = get("/small.json") + noise
            await ask(port, noise)
        assert [r.status for r in responses(await ask(port, get("/small.json")))] == [200]

    serve(play)
