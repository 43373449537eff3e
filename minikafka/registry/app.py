"""The routes of the registry as an ASGI application: Confluent's paths, bodies and errors.

``serve_registry`` serves them over HTTP until it is stopped.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from minikafka.client.config import ClientConfig
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World
from minikafka.registry import decisions, errors
from minikafka.registry.errors import RegistryError
from minikafka.registry.records import AVRO, PROTOBUF, TOPIC, Registered, SchemaText, references_of
from minikafka.registry.service import KINDS, Registry
from minikafka.registry.state import ALL, LIVE, RegistryState, Shown, parse_version
from minikafka.registry.store import TopicStore
from minikafka.world.real.asgi_server import AsgiServer

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MOST_BODY_BYTES: Final = 4 << 20
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def registry_app(registry: Registry, users: Mapping[str, str]) -> Starlette:
    """Return the application. With ``users``, passwords by name, each request needs one of them."""
    routes = Routes(registry)
    return Starlette(
        routes=routes.table(),
        middleware=[Middleware(LoginGuard, users=users)],
        exception_handlers={
            RegistryError: _registry_error,
            HTTPException: _http_error,
        },
    )


class LoginGuard:
    """Refuses requests without a login, if there are users, and requests of web pages."""

    def __init__(self, app: ASGIApp, users: Mapping[str, str]) -> None:
        self._app = app
        self._users = users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Request(scope).headers
        if "origin" in headers:  # any page in a browser could send to this port
            await _failed(403, 40301, "Requests of web pages are refused.")(scope, receive, send)
        elif self._users and not self._logged_in(headers.get("authorization", "")):
            response = _failed(401, 40101, "Unauthorized")
            response.headers["WWW-Authenticate"] = 'Basic realm="minikafka-registry"'
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _logged_in(self, header: str) -> bool:
        kind, _, text = header.partition(" ")
        try:
            name, _, password = base64.b64decode(text).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        expected = self._users.get(name, "")
        same = hmac.compare_digest(password.encode(), expected.encode())
        return kind.lower() == "basic" and name in self._users and same


class Routes:
    """The handlers of all paths. A subject may contain slashes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state

    def table(self) -> list[Route]:
        rows: list[tuple[str, str, Handler]] = [
            ("GET", "/", self._root),
            ("GET", "/schemas", self._schemas),
            ("GET", "/schemas/types", self._types),
            ("GET", "/schemas/ids/{id:int}", self._schema),
            ("GET", "/schemas/ids/{id:int}/schema", self._schema_text),
            ("GET", "/schemas/ids/{id:int}/subjects", self._subjects_of_id),
            ("GET", "/schemas/ids/{id:int}/versions", self._versions_of_id),
            ("GET", "/contexts", self._contexts),
            ("GET", "/subjects", self._subjects),
            ("GET", "/subjects/{subject:path}/versions", self._versions),
            ("POST", "/subjects/{subject:path}/versions", self._register),
            ("GET", "/subjects/{subject:path}/versions/{version}", self._version),
            ("DELETE", "/subjects/{subject:path}/versions/{version}", self._delete_version),
            ("GET", "/subjects/{subject:path}/versions/{version}/schema", self._version_text),
            ("GET", "/subjects/{subject:path}/versions/{version}/referencedby", self._referring),
            ("POST", "/subjects/{subject:path}", self._lookup),
            ("DELETE", "/subjects/{subject:path}", self._delete_subject),
            ("POST", "/compatibility/subjects/{subject:path}/versions", self._check),
            ("POST", "/compatibility/subjects/{subject:path}/versions/{version}", self._check),
        ]
        for path in ("", "/{subject:path}"):
            rows += [
                ("GET", f"/config{path}", self._level),
                ("PUT", f"/config{path}", self._set_level),
                ("DELETE", f"/config{path}", self._delete_level),
                ("GET", f"/mode{path}", self._mode),
                ("PUT", f"/mode{path}", self._set_mode),
                ("DELETE", f"/mode{path}", self._delete_mode),
            ]
        return [Route(path, handler, methods=[method]) for method, path, handler in rows]

    async def _root(self, request: Request) -> Response:
        return _ok({})

    async def _types(self, request: Request) -> Response:
        return _ok(list(KINDS))

    async def _contexts(self, request: Request) -> Response:
        return _ok(["."])

    # -- schemas

    async def _schemas(self, request: Request) -> Response:
        prefix, latest = request.query_params.get("subjectPrefix", ""), _flag(request, "latestOnly")
        found = self._state.all_versions(prefix, _shown(request), latest)
        return _ok([_version_json(each) for each in _page(request, found)])

    async def _schema(self, request: Request) -> Response:
        schema = self._state.schema(request.path_params["id"])
        body: dict[str, object] = {"schema": await self._text(request, schema)}
        body |= _kind_json(schema)
        if _flag(request, "fetchMaxId"):
            body["maxId"] = self._state.max_id
        return _ok(body)

    async def _schema_text(self, request: Request) -> Response:
        schema = self._state.schema(request.path_params["id"])
        return Response(await self._text(request, schema), media_type=CONTENT_TYPE)

    async def _subjects_of_id(self, request: Request) -> Response:
        found = self._state.with_id(request.path_params["id"], _shown(request))
        return _ok(_page(request, list(dict.fromkeys(each.subject for each in found))))

    async def _versions_of_id(self, request: Request) -> Response:
        found = self._state.with_id(request.path_params["id"], _shown(request))
        rows = [{"subject": each.subject, "version": each.version} for each in found]
        return _ok(_page(request, rows))

    async def _text(self, request: Request, schema: SchemaText) -> str:
        if request.query_params.get("format") == "serialized" and schema.kind == PROTOBUF:
            return await self._registry.serialized(schema)
        return schema.text

    # -- subjects

    async def _subjects(self, request: Request) -> Response:
        prefix = request.query_params.get("subjectPrefix", "")
        return _ok(_page(request, self._state.subjects(prefix, _shown(request))))

    async def _versions(self, request: Request) -> Response:
        subject = request.path_params["subject"]
        found = self._state.versions(subject, _shown(request))
        if not found:
            raise errors.subject_not_found(subject)
        return _ok(_page(request, [each.version for each in found]))

    async def _version(self, request: Request) -> Response:
        found = self._named(request)
        return _ok({**_version_json(found), "schema": await self._text(request, found.schema)})

    async def _version_text(self, request: Request) -> Response:
        text = await self._text(request, self._named(request).schema)
        return Response(text, media_type=CONTENT_TYPE)

    async def _referring(self, request: Request) -> Response:
        found = self._named(request)
        all_of = self._state.referencing(found.subject, found.version, _shown(request))
        return _ok(_page(request, list(dict.fromkeys(each.id for each in all_of))))

    def _named(self, request: Request) -> Registered:
        version = parse_version(request.path_params["version"])
        return self._state.version(request.path_params["subject"], version, _shown(request))

    async def _register(self, request: Request) -> Response:
        body = await _body(request)
        schema_id, version = _number(body, "id"), _number(body, "version")
        found = await self._registry.register(
            request.path_params["subject"], _schema_of(body), schema_id, version
        )
        return _ok({"id": found.id})

    async def _lookup(self, request: Request) -> Response:
        schema = _schema_of(await _body(request))
        subject = request.path_params["subject"]
        return _ok(_version_json(await self._registry.lookup(subject, schema, _shown(request))))

    async def _delete_version(self, request: Request) -> Response:
        subject = request.path_params["subject"]
        version = parse_version(request.path_params["version"])
        permanent = _flag(request, "permanent")
        result = await self._registry.change(
            lambda state: decisions.delete_version(state, subject, version, permanent)
        )
        return _ok(result)

    async def _delete_subject(self, request: Request) -> Response:
        subject, permanent = request.path_params["subject"], _flag(request, "permanent")
        result = await self._registry.change(
            lambda state: decisions.delete_subject(state, subject, permanent)
        )
        return _ok(result)

    async def _check(self, request: Request) -> Response:
        schema = _schema_of(await _body(request))
        number = request.path_params.get("version")
        version = None if number is None else parse_version(number)
        reasons = await self._registry.check(request.path_params["subject"], schema, version)
        body: dict[str, object] = {"is_compatible": not reasons}
        if _flag(request, "verbose"):
            body["messages"] = reasons
        return _ok(body)

    # -- levels and modes

    async def _level(self, request: Request) -> Response:
        subject = request.path_params.get("subject")
        level = self._state.level(subject)
        if level is None:
            if subject is not None and not _flag(request, "defaultToGlobal"):
                raise errors.no_subject_compatibility(subject)
            level = self._state.effective_level(subject)
        return _ok({"compatibilityLevel": level})

    async def _set_level(self, request: Request) -> Response:
        subject, body = request.path_params.get("subject"), await _body(request)
        level = body.get("compatibility", body.get("compatibilityLevel"))
        result = await self._registry.change(
            lambda state: decisions.set_level(state, subject, level)
        )
        return _ok({"compatibility": result})

    async def _delete_level(self, request: Request) -> Response:
        subject = request.path_params.get("subject")
        result = await self._registry.change(lambda state: decisions.delete_level(state, subject))
        return _ok({"compatibilityLevel": result})

    async def _mode(self, request: Request) -> Response:
        subject = request.path_params.get("subject")
        mode = self._state.mode(subject)
        if mode is None:
            if subject is not None and not _flag(request, "defaultToGlobal"):
                raise errors.no_subject_mode(subject)
            mode = self._state.effective_mode(subject)
        return _ok({"mode": mode})

    async def _set_mode(self, request: Request) -> Response:
        subject, mode = request.path_params.get("subject"), (await _body(request)).get("mode")
        force = _flag(request, "force")
        result = await self._registry.change(
            lambda state: decisions.set_mode(state, subject, mode, force)
        )
        return _ok({"mode": result})

    async def _delete_mode(self, request: Request) -> Response:
        subject = request.path_params.get("subject")
        result = await self._registry.change(lambda state: decisions.delete_mode(state, subject))
        return _ok({"mode": result})


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body. Raises RegistryError."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MOST_BODY_BYTES:
            raise RegistryError(413, 413, f"The body is larger than {MOST_BODY_BYTES} bytes.")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise RegistryError(400, 400, "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise RegistryError(400, 400, "The body is not a JSON object.")
    return body


def _schema_of(body: Mapping[str, Any]) -> SchemaText:
    text, kind = body.get("schema"), body.get("schemaType") or AVRO
    if not isinstance(text, str) or not text or not isinstance(kind, str):
        raise errors.invalid_schema("the schema is empty")
    try:
        return SchemaText(kind, text, references_of(body.get("references") or []))
    except ValueError as error:
        raise errors.unprocessable(str(error)) from None


def _number(body: Mapping[str, Any], name: str) -> int | None:
    found = body.get(name)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise errors.unprocessable(f"{name} must be a number")
    return found


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def _shown(request: Request) -> Shown:
    only = _flag(request, "deletedOnly") or _flag(request, "deleted_only")
    if only:
        return Shown(only_deleted=True)
    return ALL if _flag(request, "deleted") else LIVE


def _page(request: Request, found: Sequence[Any]) -> Sequence[Any]:
    try:
        offset = int(request.query_params.get("offset", "0"))
        limit = int(request.query_params.get("limit", "-1"))
    except ValueError:
        raise errors.unprocessable("offset and limit must be numbers") from None
    start = max(0, offset)
    return found[start:] if limit < 0 else found[start : start + limit]


def _kind_json(schema: SchemaText) -> dict[str, object]:
    body: dict[str, object] = {}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [each.as_json() for each in schema.references]
    return body


def _version_json(found: Registered) -> dict[str, object]:
    body: dict[str, object] = {
        "subject": found.subject, "version": found.version, "id": found.id,
        **_kind_json(found.schema), "schema": found.schema.text,
    }  # fmt: skip
    if found.deleted:
        body["deleted"] = True
    return body


def _ok(body: object) -> Response:
    return Response(json.dumps(body, ensure_ascii=False), media_type=CONTENT_TYPE)


def _failed(status: int, code: int, message: str) -> Response:
    body = json.dumps({"error_code": code, "message": message}, ensure_ascii=False)
    return Response(body, status, media_type=CONTENT_TYPE)


def _registry_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RegistryError)
    return _failed(error.status, error.code, error.message)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _failed(error.status_code, error.status_code, f"HTTP {error.status_code} {error.detail}")


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """``users`` are passwords by name; without any, no login is needed."""

    topic: str = TOPIC
    read_only: bool = False
    users: Mapping[str, str] = field(default_factory=dict)


async def serve_registry(
    world: World,
    options: RegistryOptions,
    client: ClientConfig,
    listening: socket.socket,
    stopped: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    """Serve until ``stopped`` is set. ``ready`` is called with the address when the topic has been
    read. Raises an ExceptionGroup of KafkaError or ConfigError if it cannot be used."""
    state = RegistryState()
    store = TopicStore(world, client, options.topic, not options.read_only, state.apply)
    registry = Registry(state, store)
    server = AsgiServer(registry_app(registry, options.users))
    loaded = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(store.run(loaded.set), name="follow")
        changing = tasks.create_task(registry.run(), name="change")
        stopping = tasks.create_task(stopped.wait(), name="stop")
        loading = tasks.create_task(loaded.wait(), name="load")
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        if loaded.is_set() and not stopped.is_set():
            serving = tasks.create_task(server.serve([listening]), name="serve")
            host, port = listening.getsockname()[:2]
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
            await stopping
            server.should_exit = True
            await serving
        for task in (following, changing, loading):
            task.cancel()
