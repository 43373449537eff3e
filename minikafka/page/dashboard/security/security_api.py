"""The routes of ACLs, SCRAM users, delegation tokens and quotas, read over the protocol.

A response has a part of the rows. Kafka's requests for them have no pages, so what was read serves
the next requests for ``KEPT_MS``, and requests at the same time share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import DescribedQuota
from minikafka.core.client.admin.security import ScramIterations, SecretToken
from minikafka.core.config_resources import ResourceType
from minikafka.core.security.acls import (
    SUPPORTED_OPERATIONS,
    AclBinding,
    AclFilter,
    AclOperation,
    AclResourceType,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.kernel.settings import ALLOW_EVERYONE, SUPER_USERS
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.context import HttpError, PageContext
from minikafka.page.dashboard.security.acl_rows import (
    RESOURCES,
    Settings,
    acl_row,
    parse_question,
    selected,
    verdict,
)

WITHIN_MS: Final = 5_000
KEPT_MS: Final = 2_000
PAGE: Final = 100
_NO_STORE: Final = {"Cache-Control": "no-store"}
_ALL: Final = PatternFilter(AclResourceType.ANY, None, PatternType.ANY)
_ANYBODY: Final = EntryFilter(None, None, AclOperation.ANY, PermissionType.ANY)
# Errors that are the cluster's state and no failure; the view shows the sentence.
_STATES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.SECURITY_DISABLED: "The brokers have no authorizer (authorizer.class.name), so "
    "everybody may do everything.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "The brokers have no delegation.token.secret.key, so "
    "there are no delegation tokens.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "The page has to log in, and not by a token, "
    "to see delegation tokens: give --command-config.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The page's user may not see them: it needs Describe "
    "on the cluster.",
    ErrorCode.UNSUPPORTED_VERSION: "This Kafka is too old: it has no request for them.",
}

T = TypeVar("T")


def routes(context: PageContext) -> list[BaseRoute]:
    if context.cluster is None:  # a recording is shown
        return []
    api = SecurityApi(context.world.clock, context.cluster.admin, context.cluster.follow.reader)
    return [
        Route("/api/acls", api.acls),
        Route("/api/acls/operations", _operations),
        Route("/api/acls/why", api.why),
        Route("/api/users", api.users),
        Route("/api/tokens", api.tokens),
        Route("/api/quotas", api.quotas),
    ]


def _operations(request: Request) -> Response:
    """Return the operations of each type of resource."""
    names = {
        resource: [operation.pascal_name for operation in SUPPORTED_OPERATIONS[kind]]
        for resource, kind in RESOURCES.items()
    }
    return _response(names)


class _Shared(Generic[T]):
    """The last result of a request to the cluster, for a moment."""

    def __init__(self, clock: Clock, read: Callable[[], Awaitable[T]]) -> None:
        self._clock = clock
        self._read = read
        self._read_ms = 0
        self._reading: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Raises KafkaError, also to callers that share a failed request."""
        now_ms = self._clock.monotonic_ms()
        done = self._reading is not None and self._reading.done()
        if self._reading is None or (done and now_ms - self._read_ms > KEPT_MS):
            self._read_ms = now_ms
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._reading)

    def forget(self) -> None:
        """Read again for the next caller: something has changed."""
        self._reading = None


class SecurityApi:
    def __init__(self, clock: Clock, admin: Admin, reader: ClusterReader) -> None:
        self._admin = admin
        self._reader = reader

        async def all_acls() -> list[AclBinding]:
            return await admin.describe_acls(AclFilter(_ALL, _ANYBODY), timeout_ms=WITHIN_MS)

        async def all_users() -> dict[str, ScramIterations | KafkaError]:
            return await admin.describe_scram_credentials(timeout_ms=WITHIN_MS)

        async def all_tokens() -> list[SecretToken]:
            return await admin.describe_delegation_tokens(timeout_ms=WITHIN_MS)

        async def all_quotas() -> list[DescribedQuota]:
            return await admin.describe_all_client_quotas(timeout_ms=WITHIN_MS)

        self._acls = _Shared(clock, all_acls)
        self._users = _Shared(clock, all_users)
        self._tokens = _Shared(clock, all_tokens)
        self._quotas = _Shared(clock, all_quotas)

    async def acls(self, request: Request) -> Response:
        """Return ACLs by ``principal``, ``resource`` and ``name``, from row ``from`` on."""
        query = request.query_params
        found = await _state_of(self._read(request, self._acls))
        if isinstance(found, str):
            return _response({"acls": [], "matching": 0, "total": 0, "state": found})
        texts = (query.get(name, "") for name in ("principal", "resource", "name"))
        return _page("acls", selected(found, *texts), len(found), acl_row, request)

    async def why(self, request: Request) -> Response:
        """Return whether a principal may do something, and by which rule."""
        try:
            question = parse_question(request.query_params)
        except ValueError as error:
            raise HttpError(400, str(error)) from None
        pattern = PatternFilter(question.resource_type, question.name, PatternType.MATCH)
        affecting = AclFilter(pattern, _ANYBODY)
        found = await _state_of(self._admin.describe_acls(affecting, timeout_ms=WITHIN_MS))
        if isinstance(found, str):
            allowed = True if found == _STATES[ErrorCode.SECURITY_DISABLED] else None
            return _response({"allowed": allowed, "why": found, "rules": [], "notes": []})
        return _response(verdict(found, question, await self._settings()))

    async def users(self, request: Request) -> Response:
        """Return the users with SCRAM credentials, by ``search``."""
        found = await _state_of(self._read(request, self._users))
        if isinstance(found, str):
            return _response({"users": [], "matching": 0, "total": 0, "state": found})
        word = request.query_params.get("search", "").lower()
        names = sorted(name for name in found if word in name.lower())
        rows = [(name, found[name]) for name in names]
        return _page("users", rows, len(found), lambda row: user_row(*row), request)

    async def tokens(self, request: Request) -> Response:
        """Return the delegation tokens that the page's user may see, without their secrets."""
        found = await _state_of(self._read(request, self._tokens))
        if isinstance(found, str):
            return _response({"tokens": [], "matching": 0, "total": 0, "state": found})
        word = request.query_params.get("search", "").lower()
        rows = [row for row in map(token_row, found) if word in row["owner"].lower()]
        rows.sort(key=lambda row: (row["owner"], row["expiry_ms"]))
        return _page("tokens", rows, len(found), lambda row: row, request)

    async def quotas(self, request: Request) -> Response:
        """Return the limits of clients, by ``search`` in the names of their entities."""
        found = await _state_of(self._read(request, self._quotas))
        if isinstance(found, str):
            return _response({"quotas": [], "matching": 0, "total": 0, "state": found})
        word = request.query_params.get("search", "").lower()
        rows = [row for each in found for row in quota_rows(each) if word in _names(row)]
        total = sum(len(each.limits) for each in found)
        rows.sort(key=lambda row: (row["user"] or "", row["client_id"] or "", row["ip"] or ""))
        return _page("quotas", rows, total, lambda row: row, request)

    def _read(self, request: Request, shared: _Shared[T]) -> Awaitable[T]:
        if "fresh" in request.query_params:  # after an act
            shared.forget()
        return shared.get()

    async def _settings(self) -> Settings:
        """Return which settings of the authorizer a broker has; their values are hidden."""
        try:
            await self._reader.listed_topics()  # and the brokers
            broker = min(self._reader.view.nodes)
            found = await self._admin.describe_configs(
                ResourceType.BROKER, str(broker), timeout_ms=WITHIN_MS
            )
        except (KafkaError, ValueError):  # it may not be allowed, which the answer says
            return Settings()
        return Settings(SUPER_USERS in found, ALLOW_EVERYONE in found)


async def _state_of(reading: Awaitable[T]) -> T | str:
    """Return what was read, or the sentence that says why the cluster has none. Raises
    KafkaError."""
    try:
        return await reading
    except KafkaError as error:
        if error.code in _STATES:
            return _STATES[error.code]
        raise


def _page(
    name: str, rows: Sequence[T], total: int, facts: Callable[[T], Any], request: Request
) -> Response:
    text = request.query_params.get("from", "0")
    first = int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0
    shown = [facts(row) for row in rows[first : first + PAGE]]
    return _response({name: shown, "matching": len(rows), "total": total, "from": first})


def _response(facts: Mapping[str, Any]) -> Response:
    return JSONResponse(facts, headers=_NO_STORE)


def user_row(name: str, row: ScramIterations | KafkaError) -> dict[str, Any]:
    if isinstance(row, KafkaError):
        return {"user": name, "mechanisms": {}, "error": str(row)}
    return {"user": name, "mechanisms": dict(row)}


def token_row(one: SecretToken) -> dict[str, Any]:
    token = one.token
    return {
        "token_id": token.token_id,
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(renewer) for renewer in token.renewers],
        "issue_ms": token.issue_ms,
        "expiry_ms": token.expiry_ms,
        "max_ms": token.max_ms,
    }


def quota_rows(quota: DescribedQuota) -> list[dict[str, Any]]:
    """Return a row for each limit. A name is None if the entity is not of that type, and
    ``<default>`` for those without a limit of their name."""
    names = {
        kind.replace("-", "_"): "<default>" if name is None else name
        for kind, name in quota.entity.items()
    }
    entity = {kind: names.get(kind) for kind in ("user", "client_id", "ip")}
    return [{**entity, "key": key, "limit": value} for key, value in sorted(quota.limits.items())]


def _names(row: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (row["user"], row["client_id"], row["ip"]))).lower()
