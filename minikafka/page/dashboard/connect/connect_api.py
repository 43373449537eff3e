"""The routes that read Kafka Connect: connectors, and one with its tasks.

Each request has its own connection to a worker, and ``READ_WITHIN_S``. Values of settings that are
secrets, by their name or since they have a login, are in no response.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.client.kafka_connect import Connector, ConnectPart, KafkaConnect
from minikafka.client.rest import NOT_FOUND, RestError
from minikafka.page.dashboard.acting.act_fields import is_secret
from minikafka.page.dashboard.acting.acts import HIDDEN
from minikafka.page.dashboard.cluster_api import BAD_GATEWAY, list_query
from minikafka.page.dashboard.context import HttpError, PageContext

READ_WITHIN_S: Final = 10.0
TOPICS_WITHIN_S: Final = 3.0  # of the connectors of a page; the others have those configured
MAX_CONNECTORS: Final = 100
MAX_TRACE: Final = 16 * 1024  # characters
# What connectors have besides the secrets of brokers.
_SECRET_NAME: Final = re.compile(r"token|passphrase|(api|access|account)[._-]?key", re.IGNORECASE)
_SECRET_VALUE: Final = re.compile(r"password=|://[^/\s@]*:[^/\s@]*@", re.IGNORECASE)
_SORTS: Final[Mapping[str, Callable[[Connector], str]]] = MappingProxyType(
    {
        "name": lambda one: one.name,
        "type": lambda one: one.kind,
        "state": lambda one: one.own.state,
        "worker": lambda one: one.own.worker,
    }
)


def routes(context: PageContext) -> list[BaseRoute]:
    api = ConnectApi(context)
    return [
        Route("/api/connect", api.about),
        Route("/api/connectors", api.connectors),
        Route("/api/connectors/{name:path}", api.connector),
    ]


class ConnectApi:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._address = context.connect

    async def about(self, request: Request) -> Response:
        """Say where Connect is; the address is null if the page was started without one."""
        if self._address is None:
            return JSONResponse({"address": None, "version": None})
        async with self._connected() as connect:
            version = await connect.version()
        return JSONResponse({"address": self._address.url, "version": version})

    async def connectors(self, request: Request) -> Response:
        """List connectors, with the topics of each as far as time allows."""
        query = list_query(request)
        wanted = query.search.lower()
        async with self._connected() as connect:
            found = await connect.connectors()
            matching = [
                one
                for one in found
                if wanted in one.name.lower() and (one.has_failed or not query.sick)
            ]
            by = _SORTS.get(query.sort, _SORTS["name"])
            rest = sorted(matching, key=by, reverse=query.descending)[query.skip :]
            shown = rest[: min(query.limit, MAX_CONNECTORS)]
            topics = await _topics(connect, shown)
        return JSONResponse(
            {
                "connectors": [_row(one, topics[one.name]) for one in shown],
                "matching": len(matching),
                "total": len(found),
                "more": len(rest) > len(shown),
            }
        )

    async def connector(self, request: Request) -> Response:
        """Describe a connector: its tasks, its settings, and the topics that it has used."""
        async with self._connected() as connect:
            found = await connect.connector(request.path_params["name"])
            topics = await _topics(connect, [found])
        return JSONResponse(
            {
                **_row(found, topics[found.name]),
                "trace": found.own.trace[:MAX_TRACE],
                "parts": [
                    {"task": number, **_part(task), "trace": task.trace[:MAX_TRACE]}
                    for number, task in sorted(found.tasks.items())
                ],
                "settings": [
                    {"name": key, "value": HIDDEN if _is_secret(key, value) else value}
                    for key, value in sorted(found.config.items())
                ],
            }
        )

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[KafkaConnect]:
        """Raises HttpError for whatever Connect refuses, or does not do in time."""
        if self._address is None:
            raise HttpError(NOT_FOUND, "The page was started without --connect.")
        try:
            async with (
                asyncio.timeout(READ_WITHIN_S),
                KafkaConnect(self._context.world.network, self._address) as connect,
            ):
                yield connect
        except RestError as error:
            status = NOT_FOUND if error.code == NOT_FOUND else BAD_GATEWAY
            raise HttpError(status, f"Kafka Connect refused it: {error}") from None
        except TimeoutError:
            sentence = f"Kafka Connect did not respond within {READ_WITHIN_S:g} s."
            raise HttpError(BAD_GATEWAY, sentence) from None
        except ConnectionError as error:
            raise HttpError(BAD_GATEWAY, f"Kafka Connect was not read: {error}.") from None


async def _topics(connect: KafkaConnect, shown: Sequence[Connector]) -> dict[str, Sequence[str]]:
    """Return the topics of connectors by name: those that each has used, or those that it is
    configured with if there is no time, or Connect does not keep them."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + TOPICS_WITHIN_S
    found: dict[str, Sequence[str]] = {one.name: one.configured_topics for one in shown}
    for one in shown:
        if loop.time() >= deadline_s:
            break
        with suppress(RestError):
            found[one.name] = await connect.topics(one.name) or one.configured_topics
    return found


def _is_secret(key: str, value: str) -> bool:
    named = is_secret(key) or _SECRET_NAME.search(key) is not None
    return named or _SECRET_VALUE.search(value) is not None


def _row(one: Connector, topics: Sequence[str]) -> dict[str, Any]:
    return {
        "connector": one.name,
        "type": one.kind,
        **_part(one.own),
        "tasks": len(one.tasks),
        "failed": one.failed_tasks,
        "topics": list(topics),
    }


def _part(part: ConnectPart) -> dict[str, str]:
    return {"state": part.state, "worker": part.worker}
