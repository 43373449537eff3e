"""An unexpected exception in the completion of a parked fetch: whose request fails."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from minikafka.server.broker.fetch.reader import FetchReader, HalfChanged
from minikafka.server.broker.fetch.record_fetches import DelayedFetch
from tests.support.broker.replicas import Node, ReplicaCluster


class _Bug(Exception):
    pass


async def parked(cluster: ReplicaCluster, contain: Any) -> tuple[Node, list[Any]]:
    """A node with one parked fetch, and the responses to it."""
    await cluster.elect(1, isr=[1], replicas=[1])
    node = cluster[1]
    made = node.context

    def context(*given: Any) -> Any:
        found = made(*given)
        found.contain = contain
        return found

    node.context = context  # type: ignore[method-assign,assignment]
    answers = node.fetch(0, max_wait_ms=60_000)
    assert answers == []
    return node, answers


def _raises(error: Exception) -> Any:
    def fail(*given: Any, **named: Any) -> Any:
        raise error

    return fail


@pytest.mark.mission("SAFE-72")
@pytest.mark.parametrize(
    ("owner", "name"), [(FetchReader, "read_parked"), (DelayedFetch, "_has_reason")]
)
async def test_a_bug_closes_the_connection_of_the_fetch_and_the_produce_succeeds(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bugs: list[Exception] = []
    async with ReplicaCluster([1]) as cluster:
        node, answers = await parked(cluster, bugs.append)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, _raises(_Bug("read")))
            (produced,) = node.produce("a")
            await cluster.clock.settle()
        assert produced.error_code == 0
        assert [str(bug) for bug in bugs] == ["read"]
        assert answers == []
        assert node.replicas.purgatories.fetch.purgatory.delayed == 0
        assert node.fetch(0)[0].error_code == 0


@pytest.mark.mission("SAFE-72")
@pytest.mark.parametrize("error", [AssertionError("state"), HalfChanged()])
async def test_a_state_that_is_wrong_is_not_contained(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    bugs: list[Exception] = []
    async with ReplicaCluster([1]) as cluster:
        node, _ = await parked(cluster, bugs.append)
        with monkeypatch.context() as patch:
            patch.setattr(FetchReader, "read_parked", _raises(error))
            with pytest.raises(type(error)):
                node.produce("a")
        assert bugs == []


@pytest.mark.mission("SAFE-72")
async def test_a_bug_while_a_disk_error_is_handled_is_not_contained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bugs: list[Exception] = []
    async with ReplicaCluster([1]) as cluster:
        node, _ = await parked(cluster, bugs.append)
        reader: Any = node.fetches._reader
        with monkeypatch.context() as patch:
            patch.setattr(reader, "_read", _raises(OSError(errno.EIO, "broken")))
            patch.setattr(reader, "_on_disk_error", _raises(_Bug("half")))
            with pytest.raises(HalfChanged):
                node.produce("a")
        assert bugs == []
