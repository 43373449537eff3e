"""The routes of sign-ins: who this browser is to the page, signing in and out."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.page.dashboard.access.accounts import is_password, nobodys_verifier
from minikafka.page.dashboard.access.doors import PageUser
from minikafka.page.dashboard.acting.acts_api import body
from minikafka.page.dashboard.context import (
    HttpError,
    PageContext,
    identity_of,
    peer_of,
)
from minikafka.page.dashboard.guards import SESSION, SIGN_IN, SIGN_OUT

AT_ONCE: Final = 2  # comparisons of passwords, each with 16 MiB
MOST_WAITING: Final = 16
AFTER_FAILURE_MS: Final = 1_000
ACT: Final = "sign-in"
_NO_STORE: Final = {"Cache-Control": "no-store"}


def routes(context: PageContext) -> list[BaseRoute]:
    api = SessionApi(context)
    return [
        Route(SESSION, api.session, methods=["GET"]),
        Route(SIGN_IN, api.sign_in, methods=["POST"]),
        Route(SIGN_OUT, api.sign_out, methods=["POST"]),
    ]


class SessionApi:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def session(self, request: Request) -> Response:
        """Return who sends the request, what they may do, and how to come in."""
        guard, identity = self._context.guard, identity_of(request)
        facts = {
            "who": None if identity is None else identity.name,
            "role": None if identity is None else identity.role.label,
            "way": None if identity is None else identity.way,
            "may_read": identity is not None or not guard.private,
            "ways": guard.doors.ways or ["token"],
            # A cookie that nobody knows is of the time before the server was started again.
            "stale": identity is None and guard.cookie in request.cookies,
        }
        return JSONResponse(facts, headers=_NO_STORE)

    async def sign_in(self, request: Request) -> Response:
        """Compare a password, and open a session whose secret becomes a cookie."""
        guard = self._context.guard
        if "password" not in guard.doors.ways or guard.sessions is None:
            raise HttpError(404, "This page has no users with passwords.")
        given = await body(request)
        name, password = given.get("user"), given.get("password")
        if not isinstance(name, str) or not isinstance(password, str):
            raise HttpError(400, "user and password are needed.")
        account = guard.doors.users.get(name)
        verifier = account.secret if account is not None else ""
        matches = await self._compare(verifier or nobodys_verifier(), password)
        peer = peer_of(request)
        if account is None or not verifier or not matches:
            self._context.audit.refused(None, peer, ACT, f"user {name[:100]!r}: wrong password.")
            await self._context.world.clock.sleep(AFTER_FAILURE_MS)
            raise HttpError(403, "The user or the password is wrong.")
        identity = PageUser(account.name, account.role, "password")
        self._context.audit.ended(identity, peer, ACT, "", 0)
        response = JSONResponse({"who": identity.name}, headers=_NO_STORE)
        secret = guard.sessions.open(account)
        response.set_cookie(guard.cookie, secret, httponly=True, samesite="strict", path="/")
        return response

    async def sign_out(self, request: Request) -> Response:
        guard = self._context.guard
        secret = request.cookies.get(guard.cookie)
        if guard.sessions is not None and secret is not None:
            guard.sessions.close(secret)
        response = JSONResponse({}, headers=_NO_STORE)
        response.delete_cookie(guard.cookie, path="/")
        return response

    async def _compare(self, verifier: str, password: str) -> bool:
        """Raises HttpError if too many wait for the same."""
        if self._waiting >= MOST_WAITING:
            raise HttpError(429, "Too many sign-ins at once: try again.")
        self._waiting += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(is_password, verifier, password)
        finally:
            self._waiting -= 1
