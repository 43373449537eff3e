"""The Coordination port on kazoo, against a real ZooKeeper server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    ConnectionLost,
    CoordinationSession,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
    RolledBack,
    SessionExpired,
    SessionState,
    SetOp,
    WatchEvent,
    WatchKind,
    ZnodeStat,
)
from minikafka.world.real.zookeeper import RealCoordination
from scripts.lib.cluster import free_ports
from tests.support.world.inbox import Inbox
from tests.support.zookeeper.process import ZookeeperProcess

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


async def open_session(connect: str, session_timeout_ms: int = 10_000) -> CoordinationSession:
    return await RealCoordination().open(connect, session_timeout_ms, 10_000)


@pytest.fixture
async def connect(shared_zookeeper: ZookeeperProcess) -> str:
    return f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"


@pytest.fixture
async def session(connect: str) -> AsyncIterator[CoordinationSession]:
    session = await open_session(connect)
    yield session
    await session.close()


async def blocking(call: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, call, *args)


async def expire(session: Any, connect: str) -> None:
    """Take the session over with a second client and close it there."""
    client = KazooClient(connect, client_id=session._client.client_id)
    await blocking(client.start)
    await blocking(client.stop)
    client.close()


async def test_nodes_are_made_read_written_and_deleted(session: CoordinationSession) -> None:
    path, made = await session.create("/a", b"one")
    data, stat = await session.get("/a")
    assert (path, data, stat) == ("/a", b"one", made)
    assert stat.version == 0
    assert stat.ephemeral_owner == 0
    assert (await session.set("/a", b"two", 0)).version == 1
    assert await session.exists("/b") is None
    await session.create("/a/c")
    assert await session.get("/a/c") == (b"", await session.exists("/a/c"))
    assert await session.children("/a") == ["c"]
    with pytest.raises(NotEmpty):
        await session.delete("/a")
    await session.delete("/a/c")
    await session.delete("/a", 1)
    assert await session.children("/") == []


async def test_errors_are_those_of_the_port(session: CoordinationSession) -> None:
    await session.create("/a")
    with pytest.raises(NodeExists, match="/a"):
        await session.create("/a")
    with pytest.raises(NoNode, match="/x/y"):
        await session.create("/x/y")
    with pytest.raises(BadVersion):
        await session.set("/a", b"", 5)
    with pytest.raises(BadVersion):
        await session.delete("/a", 5)
    for call in (session.get("/x"), session.children("/x"), session.set("/x", b"")):
        with pytest.raises(NoNode):
            await call


async def test_sequential_nodes_count_up(session: CoordinationSession) -> None:
    paths = [(await session.create("/n_", sequential=True))[0] for _ in range(3)]
    assert paths == ["/n_0000000000", "/n_0000000001", "/n_0000000002"]


async def test_ephemeral_nodes_go_with_their_session(
    session: CoordinationSession, connect: str
) -> None:
    other = await open_session(connect)
    _, stat = await other.create("/mine", ephemeral=True)
    assert stat.ephemeral_owner == other.session_id != 0
    inbox = Inbox()
    assert await session.exists("/mine", inbox) == stat
    await other.close()
    assert await inbox.get() == WatchEvent(WatchKind.DELETED, "/mine")
    assert other.state is SessionState.EXPIRED
    with pytest.raises(SessionExpired):
        await other.get("/mine")


async def test_watches_fire_once_and_name_their_event(session: CoordinationSession) -> None:
    inbox = Inbox()
    assert await session.exists("/a", inbox) is None
    await session.create("/a")
    assert await inbox.get() == WatchEvent(WatchKind.CREATED, "/a")
    await session.get("/a", inbox)
    await session.get("/a", inbox)  # armed once all the same
    await session.set("/a", b"1")
    assert await inbox.get() == WatchEvent(WatchKind.CHANGED, "/a")
    await session.children("/a", inbox)
    await session.create("/a/b")
    assert await inbox.get() == WatchEvent(WatchKind.CHILDREN, "/a")
    await session.set("/a", b"2")
    await session.create("/a/c")
    await session.get("/a")
    assert inbox.empty()
    with pytest.raises(NoNode):
        await session.get("/missing", inbox)
    await session.create("/missing")
    await session.get("/missing")
    assert inbox.empty()


async def test_a_multi_is_done_whole(session: CoordinationSession) -> None:
    results = await session.multi(
        [
            CreateOp("/a", b"1"),
            CreateOp("/a/n_", b"", sequential=True),
            CheckOp("/a", 0),
            SetOp("/a", b"2", 0),
            CreateOp("/gone", b""),
            DeleteOp("/gone"),
        ]
    )
    stat = results[3]
    assert isinstance(stat, ZnodeStat)
    assert stat.version == 1
    assert results == ["/a", "/a/n_0000000000", None, stat, "/gone", None]
    assert (await session.get("/a"))[0] == b"2"


async def test_a_failed_multi_does_nothing_and_names_the_culprit(
    session: CoordinationSession,
) -> None:
    await session.create("/a")
    results = await session.multi(
        [CheckOp("/a", 0), CreateOp("/b", b""), SetOp("/a", b"", 7), CreateOp("/c", b"")]
    )
    assert [type(r) for r in results] == [RolledBack, RolledBack, BadVersion, RolledBack]
    assert [getattr(r, "path", None) for r in results] == ["/a", "/b", "/a", "/c"]
    assert await session.children("/") == ["a"]
    assert await session.multi([]) == []


async def test_requests_sent_in_one_turn_are_pipelined_in_order(
    session: CoordinationSession,
) -> None:
    await session.create("/p")
    await asyncio.gather(*(session.create(f"/p/{i}", str(i).encode()) for i in range(200)))
    found = await asyncio.gather(*(session.get(f"/p/{i}") for i in range(200)))
    assert [data for data, _ in found] == [str(i).encode() for i in range(200)]
    czxids = [stat.czxid for _, stat in found]
    assert czxids == sorted(czxids)


async def test_a_chroot_is_made_with_its_parents(
    shared_zookeeper: ZookeeperProcess, connect: str
) -> None:
    chroot = f"{connect}/deep/er"
    inner = await open_session(chroot)
    inbox = Inbox()
    await inner.exists("/x", inbox)
    assert (await inner.create("/x"))[0] == "/x"
    assert await inner.multi([CreateOp("/y", b"")]) == ["/y"]
    assert (await inbox.get()).path == "/x"
    outer = await open_session(connect)
    assert await outer.children("/deep/er") == ["x", "y"]
    await inner.close()
    await outer.close()


async def test_expiry_is_final(session: CoordinationSession, connect: str) -> None:
    victim = await open_session(connect)
    states = Inbox()
    victim.add_state_listener(states)
    fired = Inbox()
    await victim.create("/e", ephemeral=True)
    await victim.get("/e", fired)
    gone = Inbox()
    await session.exists("/e", gone)
    await expire(victim, connect)
    seen = [await states.get()]
    while seen[-1] is not SessionState.EXPIRED:
        seen.append(await states.get())
    assert SessionState.CONNECTED not in seen
    assert (await gone.get()).kind is WatchKind.DELETED
    for call in (
        victim.get("/e"),
        victim.create("/e", ephemeral=True),
        victim.multi([CreateOp("/e", b"")]),
    ):
        with pytest.raises(SessionExpired):
            await call
    await victim.close()
    assert states.empty()
    assert fired.empty()
    assert await session.exists("/e") is None


async def test_a_server_killed_and_started_again(own_zookeeper: ZookeeperProcess) -> None:
    session = await open_session(own_zookeeper.connect)
    states, watch = Inbox(), Inbox()
    session.add_state_listener(states)
    await session.create("/e", b"kept", ephemeral=True)
    await session.get("/e", watch)
    own_zookeeper.kill()
    assert await states.get() is SessionState.SUSPENDED
    with pytest.raises(ConnectionLost):
        await session.get("/e")
    assert watch.empty()
    await blocking(own_zookeeper.start)
    assert await states.get() is SessionState.CONNECTED
    assert await watch.get() == WatchEvent(WatchKind.CHANGED, "/e")
    data, stat = await session.get("/e")
    assert (data, stat.ephemeral_owner) == (b"kept", session.session_id)
    await session.close()


async def test_a_server_that_hangs_and_comes_back(own_zookeeper: ZookeeperProcess) -> None:
    session = await open_session(own_zookeeper.connect, 3000)
    states = Inbox()
    session.add_state_listener(states)
    own_zookeeper.pause()
    pending = asyncio.ensure_future(session.create("/a"))
    assert await states.get() is SessionState.SUSPENDED
    with pytest.raises(ConnectionLost):
        await pending
    own_zookeeper.resume()
    assert await states.get() in (SessionState.CONNECTED, SessionState.EXPIRED)
    await session.close()


async def test_no_server_is_a_clear_error() -> None:
    connect = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(ConnectionLost, match=f"no ZooKeeper server at {connect} responded"):
        await RealCoordination().open(connect, 10_000, 300)
