"""Rows of APIs with a test's handlers, and the few services that ``Apis`` itself needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from minikafka.protocol.api_keys import ApiKey
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.apis.table import ApiTable


def row(
    api_key: ApiKey,
    handler: Any,
    *,
    task: bool = False,
    changes_state: bool = True,
    overlapping: bool = False,
    in_parts: bool = False,
    parks_reads: bool = False,
) -> Api:
    """Return the row of an API with another handler, and without its special treatment."""
    return replace(
        ApiTable()[api_key],
        handler=lambda _: handler,
        task=task,
        changes_state=changes_state,
        overlapping=overlapping,
        in_parts=in_parts,
        parks_reads=parks_reads,
        to_controller=False,
    )


def table(*rows: Api) -> dict[ApiKey, Api]:
    found = {each.key: each for each in rows}
    assert len(found) == len(rows), "one row for each API"
    return found


def services(
    workers: Any = None,
    monotonic_ns: Callable[[], int] = lambda: 0,
    authorization: Authorization | None = None,
    **others: Any,
) -> Services:
    """Return services of which only the given ones are there."""
    world = SimpleNamespace(workers=workers, clock=SimpleNamespace(monotonic_ns=monotonic_ns))
    return cast(Services, SimpleNamespace(world=world, authorization=authorization, **others))
