"""The routes of the page as an ASGI application: files, snapshot, stream, and those of EXTRAS.

With several clusters each has an application of its own, below its name.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minikafka.kernel.errors import KafkaError
from minikafka.page.dashboard import cluster_api, moves_api, topic_api
from minikafka.page.dashboard.access import session_api
from minikafka.page.dashboard.access.audit import ActLog, AuditError
from minikafka.page.dashboard.acting import acts_api
from minikafka.page.dashboard.connect import connect_api
from minikafka.page.dashboard.context import (
    IDENTITY,
    HttpError,
    PageContext,
)
from minikafka.page.dashboard.guards import FORBIDDEN, HEADERS, TOKEN_HEADER, Asked, Guard
from minikafka.page.dashboard.history import history_api
from minikafka.page.dashboard.messages import json_text
from minikafka.page.dashboard.records import records_api
from minikafka.page.dashboard.schemas import registry_api
from minikafka.page.dashboard.security import security_api

STATIC: Final = Path(__file__).parent / "static"
BAD_GATEWAY: Final = 502

# Each returns the routes of a subject.
EXTRAS: Final[Sequence[Callable[[PageContext], list[BaseRoute]]]] = (
    acts_api.routes,
    history_api.routes,
    topic_api.routes,
    cluster_api.routes,
    moves_api.routes,
    records_api.routes,
    registry_api.routes,
    connect_api.routes,
    session_api.routes,
    security_api.routes,
)


def page_app(context: PageContext) -> Starlette:
    """Return the application. The guard checks every request before its route runs."""
    routes: list[BaseRoute] = [
        Route("/", index_page(context.guard)),
        Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
        Route("/api/snapshot", _snapshot(context)),
        Route("/api/stream", _stream(context)),
    ]
    if context.options.recording is not None:
        routes.append(Route("/api/recording", _recording(context.options.recording)))
    for extra in EXTRAS:
        routes += extra(context)
    return Starlette(
        routes=routes,
        middleware=[Middleware(GuardMiddleware, guard=context.guard, audit=context.audit)],
        exception_handlers={
            HttpError: http_error,
            KafkaError: _gateway_error,
            OSError: _gateway_error,
            AuditError: _audit_error,
        },
    )


def clusters_app(contexts: Mapping[str, PageContext]) -> Starlette:
    """Return the application of several clusters: that of each below its name, which ``contexts``
    has, and the address without a name leads to the first one."""
    name, first = next(iter(contexts.items()))
    guarded = Middleware(GuardMiddleware, guard=first.guard, audit=first.audit)
    entry = Route("/", _entry(first.guard, name), middleware=[guarded])
    mounted = [Mount(f"/{name}", page_app(context)) for name, context in contexts.items()]
    return Starlette(routes=[entry, *mounted])


class GuardMiddleware:
    """Refuses requests as ``Guard`` says, and adds its headers to every response. ``audit`` gets
    what was refused to somebody who is known."""

    def __init__(self, app: ASGIApp, guard: Guard, audit: ActLog | None = None) -> None:
        self._app = app
        self._guard = guard
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.lower().encode() not in named
                    ),
                ]
            await send(message)

        request = asked(Request(scope), self._guard)
        scope[IDENTITY] = identity = self._guard.identity(request)
        refusal = self._guard.refusal(request)
        if refusal is not None:
            if self._audit is not None and identity is not None:
                with suppress(AuditError):  # it is refused whether or not that can be logged
                    self._audit.refused(identity, request.peer, request.path, refusal)
            response = JSONResponse({"error": refusal}, FORBIDDEN)
            await response(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)


def asked(request: Request, guard: Guard) -> Asked:
    headers = request.headers
    token = headers.get(TOKEN_HEADER) or request.cookies.get(guard.cookie)
    named = guard.doors.user_header
    users = [] if named is None else headers.getlist(named)
    host, origin = headers.get("host", ""), headers.get("origin")
    # Not the path of ``request.url``, of which the Host header is a part.
    path = request.scope["path"].removeprefix(root_of(request)) or "/"
    site = headers.get("sec-fetch-site")
    return Asked(
        *(request.method, path, host, origin, token, site),
        user=users[0] if len(users) == 1 else None,
        peer=None if request.client is None else request.client.host,
    )


def root_of(request: Request) -> str:
    """Return the path below which the application is, "" if it is alone."""
    return str(request.scope.get("root_path", ""))


def index_page(guard: Guard, name: str = "index.html") -> Callable[[Request], Response]:
    def page(request: Request) -> Response:
        """Serve the page. With the token in the address, keep it in a cookie, which scripts cannot
        read, and serve the page without it."""
        token = request.query_params.get("token")
        if token is None:
            if not (STATIC / name).is_file():
                raise HttpError(404, "The files of the page are not installed.")
            return FileResponse(STATIC / name, headers={"Cache-Control": "no-cache"})
        return _welcome(guard, token, f"{root_of(request)}/")

    return page


def _entry(guard: Guard, name: str) -> Callable[[Request], Response]:
    def entry(request: Request) -> Response:
        return _welcome(guard, request.query_params.get("token"), f"/{name}/")

    return entry


def _welcome(guard: Guard, token: str | None, address: str) -> Response:
    """Send the browser to an address, with a cookie for the token if that is right."""
    known = token is not None and guard.identity_of_token(token) is not None
    query = "" if known or token is None else "?wrong-token"
    response = RedirectResponse(f"{address}{query}", status_code=303)
    if known:
        assert token is not None
        response.set_cookie(guard.cookie, token, httponly=True, samesite="strict", path="/")
    return response


def _snapshot(context: PageContext) -> Callable[[Request], object]:
    async def snapshot(request: Request) -> Response:
        messages = await context.broadcast.snapshot()
        return Response(json_text(messages), media_type="application/json", headers=_NO_STORE)

    return snapshot


_NO_STORE: Final = {"Cache-Control": "no-store"}


def _stream(context: PageContext) -> Callable[[Request], object]:
    async def stream(request: Request) -> Response:
        # A script that opens a stream again cannot set the header.
        last_id = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
        return EventStream(context.broadcast.stream(last_id))

    return stream


class EventStream(StreamingResponse):
    """Server-sent events. The generator is closed when the reader has gone."""

    def __init__(self, events: AsyncGenerator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


def _recording(file: str) -> Callable[[Request], Response]:
    def recording(request: Request) -> Response:
        if not os.path.isfile(file):
            raise HttpError(404, f"The recording {file} is not there any more.")
        return FileResponse(file, media_type="application/x-ndjson", headers=_NO_STORE)

    return recording


def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return JSONResponse({"error": error.sentence}, error.status)


def _gateway_error(request: Request, error: Exception) -> Response:
    """Respond for a cluster that failed to do what the request needs."""
    return JSONResponse({"error": f"The cluster did not do it: {error}"}, BAD_GATEWAY)


def _audit_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, UNAVAILABLE)


UNAVAILABLE: Final = 503
