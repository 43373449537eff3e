"""Serves the page of learn mode over HTTP until it is stopped."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from minikafka.kernel.listeners import is_loopback
from minikafka.kernel.ports import World
from minikafka.page.dashboard.app import (
    STATIC,
    GuardMiddleware,
    http_error,
    index_page,
)
from minikafka.page.dashboard.context import HttpError
from minikafka.page.dashboard.guards import TOKEN_BYTES, Guard
from minikafka.page.learn.recipe import MAX_JSON_BYTES
from minikafka.page.learn.serving.players import Players, is_session_name
from minikafka.world.real.asgi_server import AsgiServer

MAX_REQUEST_BYTES: Final = MAX_JSON_BYTES + 16 * 1024  # a recipe, and what is around it
NO_STORE: Final = {"Cache-Control": "no-store"}


def learn_app(guard: Guard, players: Players, mode: Mapping[str, object]) -> Starlette:
    """Return the application. ``mode`` is what the page opens at its start."""

    async def read_mode(request: Request) -> Response:
        return JSONResponse({"mode": "learn", **mode}, headers=NO_STORE)

    async def learn(request: Request) -> Response:
        session = request.query_params.get("session", "")
        if not is_session_name(session):
            raise HttpError(400, "A request names its session.")
        line = await _one_line(request)
        response = await players.request(session, line)
        return Response(response, media_type="application/json", headers=NO_STORE)

    return Starlette(
        routes=[
            Route("/", index_page(guard, "learn.html")),
            Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
            Route("/api/mode", read_mode),
            Route("/api/learn", learn, methods=["POST"]),
        ],
        middleware=[Middleware(GuardMiddleware, guard=guard)],
        exception_handlers={HttpError: http_error},
    )


async def _one_line(request: Request) -> bytes:
    """Return the JSON of a request as one line. Raises HttpError."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_REQUEST_BYTES:
            raise HttpError(413, f"A request has at most {MAX_REQUEST_BYTES} bytes.")
    try:
        return json.dumps(json.loads(body)).encode()
    except (ValueError, RecursionError):
        raise HttpError(400, "A request is JSON.") from None


async def serve_learn(
    world: World,
    mode: Mapping[str, object],
    listening: socket.socket,
    stopped: asyncio.Event,
    ready: Callable[[Guard], None],
) -> None:
    """Serve until ``stopped`` is set. ``ready`` is called with the guard, whose address has the
    token."""
    host, port = listening.getsockname()[:2]
    token = world.entropy.random_bytes(TOKEN_BYTES).hex()
    guard = Guard(host, port, token, private=not is_loopback(host))
    async with asyncio.TaskGroup() as tasks:
        players = Players(world.clock, tasks)
        players.prepare()
        idle = tasks.create_task(players.end_idle(), name="end idle sessions")
        server = AsgiServer(learn_app(guard, players, mode))
        serving = tasks.create_task(server.serve([listening]), name="serve")
        ready(guard)
        await stopped.wait()
        server.should_exit = True
        await players.close()
        await serving
        idle.cancel()
