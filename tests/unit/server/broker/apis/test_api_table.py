"""APIs are imported, and their handlers made, at the first request."""

from __future__ import annotations

import errno
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.apis.services import Services
from tests.support.broker.api_rows import row, services, table
from tests.support.network.network_lab import Lab
from tests.unit.server.broker.apis.test_apis import Stage, cluster, receive, send


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


class ImportFails(dict[ApiKey, Api]):
    """A table of which the first row that is wanted cannot be imported."""

    error: Exception | None = None

    def __getitem__(self, api_key: ApiKey) -> Api:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return super().__getitem__(api_key)


@pytest.mark.mission("SCALE-11")
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        TypeError("another version is being installed"),
    ],
)
async def test_a_request_whose_api_cannot_be_imported_ends_its_connection_alone(
    lab: Lab, error: Exception
) -> None:
    stage = Stage(lab)
    rows = ImportFails(table(row(ApiKey.DESCRIBE_CLUSTER, cluster)))
    rows.error = error
    stage.apis = Apis(1, rows, services(stage.workers), lab.log)
    other = await stage.open()
    peer = await lab.connect(stage.server)
    send(peer, DescribeClusterRequest(), 0)
    assert await peer.is_closed()
    assert lab.log.reasons() == ["api_not_loaded"]
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    await stage.close()


@pytest.mark.mission("SCALE-11")
async def test_a_handler_is_made_once_in_the_context_in_which_its_broker_was_made(lab: Lab) -> None:
    """So that its events reach the same sinks."""
    sinks: ContextVar[str] = ContextVar("sinks", default="of the process")
    made: list[str] = []

    def make(_: Services) -> Any:
        made.append(sinks.get())
        return cluster

    stage = Stage(lab)
    token = sinks.set("of the broker")
    api = replace(row(ApiKey.DESCRIBE_CLUSTER, cluster), handler=make)
    stage.apis = Apis(1, table(api), services(stage.workers), lab.log)
    sinks.reset(token)
    peer = await stage.open()
    for _ in range(2):
        send(peer, DescribeClusterRequest(), 0)
        await receive(peer, DescribeClusterResponse, 0)
    assert made == ["of the broker"]
    await stage.close()
