"""The APIs of a running broker, as the docstring of their rows lists them."""

from __future__ import annotations

import re

import pytest

from minikafka.server.broker.apis import api as rows
from minikafka.server.broker.apis.table import ApiTable
from minikafka.testing.simulator.cluster import SimCluster


@pytest.mark.mission("DOOR-3")
def test_the_requests_whose_bugs_end_the_node_are_listed() -> None:
    async def play(cluster: SimCluster) -> list[str]:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)
        node = cluster.nodes()[1]
        broker = node._parts.services(None, node._client_quotas)
        for api_key, api in ApiTable().items():
            assert api.key is api_key
            assert callable(api.handler(broker))
        return sorted(api.key.api_name for api in ApiTable().values() if api.changes_state)

    changing = SimCluster(1, (1,)).run(play)
    assert rows.__doc__ is not None
    text = " ".join(rows.__doc__.split())
    (listed,) = re.findall(r"handler that changes state: ([^.]*)\.", text)
    assert changing == sorted(listed.split(", "))
