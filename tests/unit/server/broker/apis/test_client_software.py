"""A connection is known by what its client names itself in ApiVersions."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.server.listeners.connected_clients import ClientSoftware
from tests.support.network.network_lab import Lab
from tests.unit.server.broker.apis.test_apis import Stage, receive, send


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


@pytest.mark.mission("GLASS-54")
async def test_connections_are_counted_by_software_until_they_close(lab: Lab) -> None:
    stage = Stage(lab)
    peer = await stage.open()
    clients = stage.server.clients
    for request, version in (
        (ApiVersionsRequest("not valid", "1"), 3),
        (ApiVersionsRequest("librdkafka", "2.6.0"), 3),
    ):
        send(peer, request, version)
        await receive(peer, ApiVersionsResponse, version)
    assert dict(clients.by_software()) == {("me", "librdkafka", "2.6.0"): 1}
    old = await lab.connect(stage.server)
    send(old, ApiVersionsRequest(), 0)
    await receive(old, ApiVersionsResponse, 0)
    assert clients.by_software()[ClientSoftware("me", "", "")] == 1
    for each in (peer, old):
        each.writer.close()
    await lab.until(lambda: not clients.by_software())
    await stage.close()
