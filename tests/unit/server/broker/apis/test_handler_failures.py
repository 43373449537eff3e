"""A handler's bug on one request: what it ends, by the route's ``changes_state``."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from minikafka.kernel.metrics import Metrics
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode as real_decode
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.server.broker.apis.request import Reply, RequestContext
from tests.support.broker.api_rows import row
from tests.support.network.network_lab import Lab
from tests.unit.server.broker.apis.test_apis import Stage, receive, send

METRIC = (
    "kafka.network:type=RequestMetrics,name=ErrorsPerSec,"
    "request=DescribeCluster,error=UNKNOWN_SERVER_ERROR"
)


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


def raises(context: RequestContext, request: Any, reply: Reply) -> None:
    raise ValueError("a bug")


def fails_an_assertion(context: RequestContext, request: Any, reply: Reply) -> None:
    raise AssertionError("a bug")


def replies_first(context: RequestContext, request: Any, reply: Reply) -> None:
    reply(DescribeClusterResponse(cluster_id="replied"))
    raise ValueError("a bug")


def cannot_be_encoded(context: RequestContext, request: Any, reply: Reply) -> None:
    reply(DescribeClusterResponse(controller_id=2**40))


async def raises_later(context: RequestContext, request: Any) -> Any:
    raise ValueError("a bug")


async def cannot_be_encoded_later(context: RequestContext, request: Any) -> Any:
    return DescribeClusterResponse(controller_id=2**40)


def lists(context: RequestContext, request: Any, reply: Reply) -> None:
    reply(ListGroupsResponse())


HANDLERS: dict[str, tuple[Any, bool]] = {
    "raises": (raises, False),
    "fails an assertion": (fails_an_assertion, False),
    "replies first": (replies_first, False),
    "cannot be encoded": (cannot_be_encoded, False),
    "raises in a task": (raises_later, True),
    "cannot be encoded in a task": (cannot_be_encoded_later, True),
}


def stage_of(lab: Lab, what: str, changes_state: bool) -> tuple[Stage, Metrics]:
    handler, task = HANDLERS[what]
    stage = Stage(
        lab,
        row(ApiKey.DESCRIBE_CLUSTER, handler, task=task, changes_state=changes_state),
        row(ApiKey.LIST_GROUPS, lists, changes_state=False),
    )
    return stage, stage.metrics


@pytest.mark.mission("DOOR-3")
@pytest.mark.parametrize("what", HANDLERS)
async def test_a_bug_of_a_handler_that_changes_no_state_ends_its_connection(
    lab: Lab, what: str
) -> None:
    stage, metrics = stage_of(lab, what, changes_state=False)
    other = await stage.open()
    for number in (1, 2):
        peer = await lab.connect(stage.server)
        send(peer, DescribeClusterRequest(), 0)
        if what == "replies first":
            await receive(peer, DescribeClusterResponse, 0)
        assert await peer.is_closed()
        assert metrics.snapshot()[METRIC] == number
    send(other, ListGroupsRequest(), 0)
    await receive(other, ListGroupsResponse, 0)
    failures = [facts for _, name, facts in lab.log.events if name == "request_handler_failed"]
    assert [facts["error_id"] for facts in failures] == ["1-1", "1-2"]
    for facts in failures:
        assert (facts["api"], facts["client_id"]) == ("DescribeCluster", "me")
        assert facts["client"] == "127.0.0.1"
        assert "Traceback" in facts["traceback"]
    await stage.close()


@pytest.mark.mission("DOOR-3")
@pytest.mark.parametrize("what", HANDLERS)
async def test_a_bug_of_a_handler_that_changes_state_ends_the_node(lab: Lab, what: str) -> None:
    stage, metrics = stage_of(lab, what, changes_state=True)
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    assert stage.running is not None
    with pytest.raises(BaseExceptionGroup):
        await stage.running
    assert METRIC not in metrics.snapshot()


@pytest.mark.mission("DOOR-3")
@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(errno.EMFILE, "no descriptor"), RecursionError("too deep")],
    ids=repr,
)
async def test_a_request_that_is_too_much_to_decode_ends_its_connection(
    lab: Lab, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(cls: Any, *args: Any) -> Any:
        if cls is DescribeClusterRequest:
            raise error
        return real_decode(cls, *args)

    monkeypatch.setattr("minikafka.server.broker.apis.pipeline.decode", decode)
    stage, _ = stage_of(lab, "raises", changes_state=True)
    other = await stage.open()
    peer = await lab.connect(stage.server)
    send(peer, DescribeClusterRequest(), 0)
    assert await peer.is_closed()
    assert lab.log.reasons() == ["bad_request"]
    send(other, ListGroupsRequest(), 0)
    await receive(other, ListGroupsResponse, 0)
    await stage.close()
