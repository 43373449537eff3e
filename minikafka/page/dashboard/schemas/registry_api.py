"""The routes that read a schema registry: subjects, versions, schemas and their users.

Each response is bounded: a page of subjects, the newest versions of one, one schema. Each request
has its own connection to the registry, and ``READ_WITHIN_S``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.client.rest import NOT_FOUND, RestError
from minikafka.client.schema_registry import (
    SchemaRegistry,
    SchemaVersion,
)
from minikafka.kernel.errors import KafkaError
from minikafka.page.dashboard.cluster_api import BAD_GATEWAY, BAD_REQUEST, list_query
from minikafka.page.dashboard.context import HttpError, PageContext
from minikafka.page.dashboard.schemas.subject_names import subject_use

READ_WITHIN_S: Final = 10.0
DETAILS_WITHIN_S: Final = 3.0  # of the subjects of a page; the others have none
MAX_VERSIONS: Final = 100
MAX_SUBJECTS: Final = 100


def routes(context: PageContext) -> list[BaseRoute]:
    api = RegistryApi(context)
    return [
        Route("/api/registry", api.about),
        Route("/api/subjects", api.subjects),
        Route("/api/subjects/{name:path}", api.subject),
        Route("/api/schema", api.schema),
    ]


class RegistryApi:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._address = context.registry

    async def about(self, request: Request) -> Response:
        """Say where the registry is; the address is null if the page was started without one."""
        if self._address is None:
            return JSONResponse({"address": None, "level": None})
        async with self._connected() as registry:
            return JSONResponse({"address": self._address.url, "level": await registry.level()})

    async def subjects(self, request: Request) -> Response:
        """List subjects by name, with the newest version of each as far as time allows."""
        query = list_query(request)
        async with self._connected() as registry:
            names = await registry.subjects()
            wanted = query.search.lower()
            matching = [name for name in names if wanted in name.lower()]
            if query.descending and query.sort == "name":
                matching.reverse()
            rest = matching[query.skip :]
            shown = rest[: min(query.limit, MAX_SUBJECTS)]
            newest = await _newest(registry, shown)
        topics = await self._topics()
        return JSONResponse(
            {
                "subjects": [_row(name, newest.get(name), topics) for name in shown],
                "matching": len(matching),
                "total": len(names),
                "more": len(rest) > len(shown),
            }
        )

    async def subject(self, request: Request) -> Response:
        """Describe a subject: its newest versions first, its level, and the topics that use it."""
        name = request.path_params["name"]
        async with self._connected() as registry:
            numbers = sorted(await registry.versions(name), reverse=True)
            versions = [await registry.version(name, each) for each in numbers[:MAX_VERSIONS]]
            level = await registry.level(name)
        topics = await self._topics()
        use = subject_use(name, topics, versions[0] if versions else None)
        return JSONResponse(
            {
                "subject": name,
                "level": level,
                "versions": [
                    {"version": each.version, "id": each.id, "type": each.kind} for each in versions
                ],
                "older": max(0, len(numbers) - MAX_VERSIONS),
                "use": None if use is None else use.facts(),
            }
        )

    async def schema(self, request: Request) -> Response:
        """Return the schema of one version."""
        name, version = (request.query_params.get(key, "") for key in ("subject", "version"))
        if not name or not (version == "latest" or (version.isascii() and version.isdecimal())):
            raise HttpError(BAD_REQUEST, "subject is needed, and version: a number, or latest.")
        async with self._connected() as registry:
            found = await registry.version(name, version)
            referring = await registry.referenced_by(name, found.version)
        return JSONResponse(
            {
                "subject": name,
                "version": found.version,
                "id": found.id,
                "type": found.kind,
                "schema": found.text,
                "references": list(found.references),
                "referenced_by": referring[:MAX_VERSIONS],
            }
        )

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[SchemaRegistry]:
        """Raises HttpError for whatever the registry refuses, or does not do in time."""
        if self._address is None:
            raise HttpError(NOT_FOUND, "The page was started without --registry.")
        try:
            async with (
                asyncio.timeout(READ_WITHIN_S),
                SchemaRegistry(self._context.world.network, self._address) as registry,
            ):
                yield registry
        except RestError as error:
            status = NOT_FOUND if str(error.code).startswith(str(NOT_FOUND)) else BAD_GATEWAY
            raise HttpError(status, f"The registry refused it: {error}") from None
        except TimeoutError:
            sentence = f"The registry did not respond within {READ_WITHIN_S:g} s."
            raise HttpError(BAD_GATEWAY, sentence) from None
        except ConnectionError as error:
            raise HttpError(BAD_GATEWAY, f"There is {error}.") from None

    async def _topics(self) -> Collection[str]:
        """Return the names of all topics; none if no broker responds, which the page says
        elsewhere."""
        if self._context.cluster is None:
            return ()
        with suppress(KafkaError, OSError):
            return (await self._context.cluster.follow.reader.listed_topics()).topics
        return ()


async def _newest(registry: SchemaRegistry, subjects: Sequence[str]) -> dict[str, SchemaVersion]:
    """Return the newest versions of the first subjects, as many as can be read in time. A subject
    that has just been deleted is absent."""
    found: dict[str, SchemaVersion] = {}
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + DETAILS_WITHIN_S
    for name in subjects:
        if loop.time() >= deadline_s:
            break
        with suppress(RestError):
            found[name] = await registry.version(name)
    return found


def _row(name: str, newest: SchemaVersion | None, topics: Collection[str]) -> dict[str, Any]:
    use = subject_use(name, topics, newest)
    return {
        "subject": name,
        "version": None if newest is None else newest.version,
        "id": None if newest is None else newest.id,
        "type": None if newest is None else newest.kind,
        "use": None if use is None else use.facts(),
    }
