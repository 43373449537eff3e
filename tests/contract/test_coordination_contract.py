"""The Coordination port: the same bodies with a real ZooKeeper, the simulated one, and the one in
memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pytest
from kazoo.client import KazooClient

from minikafka.cli.processes.zookeeper_security import server_security, write_users
from minikafka.kernel.ports import (
    BadPath,
    BadVersion,
    CheckOp,
    ConnectionLost,
    CoordinationError,
    CoordinationSession,
    CreateOp,
    DeleteOp,
    InvalidAcl,
    NoAuth,
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
    ZookeeperLoginFailed,
)
from minikafka.kernel.zookeeper_security import (
    ANYONE_ALL,
    ANYONE_READ,
    CREATOR_ALL,
    UNSECURED,
    CoordinationSecurity,
    DigestLogin,
    Permission,
    ZnodeAcl,
    ZnodeAclEntry,
)
from minikafka.server.zookeeper.requests import Requests, raise_error
from minikafka.world.memory.coordination import MemoryZookeeper
from minikafka.world.real.loop import run as run_real
from minikafka.world.real.zookeeper import RealCoordination
from minikafka.world.real.zookeeper_multi_read import MultiRead
from minikafka.world.sim.world import SimWorld
from tests.support.world.inbox import Inbox
from tests.support.zookeeper.process import ZookeeperProcess, running_zookeeper

PATIENCE_S = 20
USERS = {"kafka": 'of "kafka"\\', "alice": "of-alice"}


class Lab(Protocol):
    """A world with a ZooKeeper in it that the body may stop and start."""

    async def open(
        self,
        chroot: str = "",
        timeout_ms: int = 10_000,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession: ...

    async def expire(self, session: Any) -> None: ...

    async def stop(self) -> None: ...

    async def start(self) -> None: ...


class RealLab:
    def __init__(self, server: ZookeeperProcess) -> None:
        self._server = server
        self._root = f"/tests/{uuid.uuid4().hex}"

    async def open(
        self,
        chroot: str = "",
        timeout_ms: int = 10_000,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        connect = f"{self._server.connect}{self._root}{chroot}"
        return await RealCoordination().open(connect, timeout_ms, 10_000, security)

    async def expire(self, session: Any) -> None:
        """Take the session over with a second client and close it there."""
        client = KazooClient(self._server.connect, client_id=session._client.client_id)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, client.start)
        await loop.run_in_executor(None, client.stop)
        client.close()

    async def stop(self) -> None:
        self._server.kill()

    async def start(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._server.start)


class SimLab:
    def __init__(self, world: SimWorld) -> None:
        self._world = world
        world.zookeeper.users |= USERS

    async def open(
        self,
        chroot: str = "",
        timeout_ms: int = 10_000,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        coordination = self._world.host("client").world.coordination
        return await coordination.open(f"any:2181/tests{chroot}", timeout_ms, 10_000, security)

    async def expire(self, session: Any) -> None:
        self._world.zookeeper.expire(session.session_id)

    async def stop(self) -> None:
        self._world.zookeeper.stop()

    async def start(self) -> None:
        self._world.zookeeper.start()


class MemoryLab:
    def __init__(self) -> None:
        self._zookeeper = MemoryZookeeper()
        self._zookeeper.users |= USERS

    async def open(
        self,
        chroot: str = "",
        timeout_ms: int = 10_000,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        connect = f"any:2181/tests{chroot}"
        return await self._zookeeper.open(connect, timeout_ms, 1_000, security)

    async def expire(self, session: Any) -> None:
        self._zookeeper.expire(session.session_id)

    async def stop(self) -> None:
        self._zookeeper.stop()

    async def start(self) -> None:
        self._zookeeper.start()


Body: TypeAlias = Callable[[Lab], Coroutine[Any, Any, None]]
Play: TypeAlias = Callable[[Body], None]


@pytest.fixture(scope="module")
def real_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperProcess]:
    directory: Path = tmp_path_factory.mktemp("credentials")
    write_users(directory, USERS)
    with running_zookeeper(security=server_security(directory)) as server:
        yield server


@pytest.fixture(params=["sim", "memory", pytest.param("real", marks=pytest.mark.cluster)])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a body in one of the worlds."""
    if request.param == "memory":
        return lambda body: run_real(body(MemoryLab()))
    if request.param == "sim":

        def play_sim(body: Body) -> None:
            for seed in range(5):
                world = SimWorld(seed)
                world.run(body(SimLab(world)), limit_s=600)

        return play_sim
    server = request.getfixturevalue("real_zookeeper")
    return lambda body: run_real(body(RealLab(server)))


@pytest.mark.mission("IN-4")
def test_nodes_are_made_read_written_and_deleted(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session = await lab.open()
        path, made = await session.create("/a", b"one")
        assert (path, await session.get("/a")) == ("/a", (b"one", made))
        assert (made.version, made.cversion, made.ephemeral_owner) == (0, 0, 0)
        changed = await session.set("/a", b"two", 0)
        assert (changed.version, changed.czxid) == (1, made.czxid)
        assert changed.mzxid > made.mzxid == made.czxid
        assert await session.exists("/b") is None
        await session.create("/a/c")
        assert await session.get("/a/c") == (b"", await session.exists("/a/c"))
        assert await session.children("/a") == ["c"]
        with pytest.raises(NotEmpty):
            await session.delete("/a")
        await session.delete("/a/c")
        stat = await session.exists("/a")
        assert stat is not None
        assert (stat.cversion, stat.num_children) == (2, 0)
        await session.delete("/a", 1)
        assert await session.children("/") == []
        await session.close()

    play(body)


def test_errors_name_the_path(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session = await lab.open()
        await session.create("/a")
        await session.create("/e", ephemeral=True)
        calls: list[tuple[Coroutine[Any, Any, object], type[CoordinationError], str]] = [
            (session.create("/a"), NodeExists, "/a"),
            (session.create("/x/y"), NoNode, "/x/y"),
            (session.create("/e/y"), CoordinationError, ""),
            (session.set("/a", b"", 5), BadVersion, "/a"),
            (session.delete("/a", 5), BadVersion, "/a"),
            (session.delete("/x"), NoNode, "/x"),
            (session.get("/x"), NoNode, "/x"),
            (session.children("/x"), NoNode, "/x"),
            (session.set("/x", b""), NoNode, "/x"),
        ]
        for call, error, path in calls:
            with pytest.raises(error) as caught:
                await call
            assert type(caught.value) is error
            assert not path or caught.value.path == path
        await session.close()

    play(body)


def test_sequential_nodes_count_up_whatever_is_deleted(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session = await lab.open()
        paths = [(await session.create("/n_", sequential=True))[0] for _ in range(2)]
        await session.delete(paths[0])
        await session.create("/plain")
        paths.append((await session.create("/m_", sequential=True))[0])
        assert paths == ["/n_0000000000", "/n_0000000001", "/m_0000000003"]
        await session.close()

    play(body)


def test_ephemeral_nodes_go_with_their_session(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session, other = await lab.open(), await lab.open()
        _, stat = await other.create("/mine", ephemeral=True)
        assert stat.ephemeral_owner == other.session_id != 0
        gone, fewer = Inbox(), Inbox()
        assert await session.exists("/mine", gone) == stat
        assert await session.children("/", fewer) == ["mine"]
        await other.close()
        assert await gone.get() == WatchEvent(WatchKind.DELETED, "/mine")
        assert await fewer.get() == WatchEvent(WatchKind.CHILDREN, "/")
        assert other.state is SessionState.EXPIRED
        with pytest.raises(SessionExpired):
            await other.get("/mine")
        await session.close()

    play(body)


def test_watches_fire_once_and_name_their_event(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session, inbox = await lab.open(), Inbox()
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
        with pytest.raises(NoNode):
            await session.get("/missing", inbox)
        await session.create("/missing")
        await session.get("/missing")
        assert inbox.empty()
        await session.close()

    play(body)


def test_a_multi_is_done_whole(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session = await lab.open()
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
        assert (stat.version, stat.mzxid) == (1, stat.czxid)
        assert results == ["/a", "/a/n_0000000000", None, stat, "/gone", None]
        assert (await session.get("/a"))[0] == b"2"
        assert await session.multi([CreateOp("/one", b"")]) == ["/one"]
        assert await session.multi([]) == []
        await session.close()

    play(body)


def test_a_failed_multi_does_nothing_and_names_the_culprit(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session, inbox = await lab.open(), Inbox()
        await session.create("/a")
        before = await session.exists("/")
        await session.exists("/b", inbox)
        results = await session.multi(
            [CheckOp("/a", 0), CreateOp("/b", b""), SetOp("/a", b"", 7), CreateOp("/c", b"")]
        )
        assert [type(r) for r in results] == [RolledBack, RolledBack, BadVersion, RolledBack]
        assert [getattr(r, "path", None) for r in results] == ["/a", "/b", "/a", "/c"]
        assert await session.children("/") == ["a"]
        assert await session.exists("/") == before
        (result,) = await session.multi([DeleteOp("/none")])
        assert type(result) is NoNode
        assert inbox.empty()
        await session.close()

    play(body)


def test_concurrent_requests_are_processed_in_order(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session = await lab.open()
        await session.create("/p")
        await asyncio.gather(*(session.create(f"/p/{i}", str(i).encode()) for i in range(50)))
        found = await asyncio.gather(*(session.get(f"/p/{i}") for i in range(50)))
        assert [data for data, _ in found] == [str(i).encode() for i in range(50)]
        czxids = [stat.czxid for _, stat in found]
        assert czxids == sorted(czxids)
        await session.close()

    play(body)


def test_many_nodes_are_read_in_one_request(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(lab: Lab) -> None:
        session = await lab.open("/deep")
        assert await session.get_many([]) == []
        wanted = [f"/{i}" for i in range(300)]
        await session.multi([CreateOp(path, path.encode()) for path in wanted[::2]])
        await session.create("/empty")
        for _ in range(2):
            found = await session.get_many([*wanted, "/empty", "/1/none"])
            assert [node and node[0] for node in found[:300:2]] == [p.encode() for p in wanted[::2]]
            assert found[1:300:2] == [None] * 150
            assert found[300:] == [await session.get("/empty"), None]
            # A server that does not know this request hangs up; then they are read one by one.
            monkeypatch.setattr(MultiRead, "type", 99)
            await Requests(session).get_all(wanted)
        await session.close()
        with pytest.raises(SessionExpired):
            await session.get_many(wanted)

    play(body)


def test_a_chroot_is_made_with_its_parents_and_unseen_from_inside(play: Play) -> None:
    async def body(lab: Lab) -> None:
        inner, outer, inbox = await lab.open("/deep/er"), await lab.open(), Inbox()
        await inner.exists("/x", inbox)
        assert (await inner.create("/x"))[0] == "/x"
        assert await inner.multi([CreateOp("/y", b""), CreateOp("/y/z", b"")]) == ["/y", "/y/z"]
        assert (await inbox.get()).path == "/x"
        assert await inner.children("/") == ["x", "y"]
        assert await outer.children("/deep/er") == ["x", "y"]
        await inner.close()
        await outer.close()

    play(body)


def test_expiry_is_final(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session, victim = await lab.open(), await lab.open()
        states, fired, gone = Inbox(), Inbox(), Inbox()
        victim.add_state_listener(states)
        await victim.create("/e", ephemeral=True)
        await victim.get("/e", fired)
        await session.exists("/e", gone)
        await lab.expire(victim)
        seen = [await states.get()]
        while seen[-1] is not SessionState.EXPIRED:
            seen.append(await states.get())
        assert SessionState.CONNECTED not in seen
        assert (await gone.get()).kind is WatchKind.DELETED
        for call in (victim.get("/e"), victim.multi([CreateOp("/e", b"")])):
            with pytest.raises(SessionExpired):
                await call
        await victim.close()
        assert states.empty()
        assert fired.empty()
        assert await session.exists("/e") is None
        await session.close()

    play(body)


def test_a_server_stopped_and_started_again(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session, states, watch = await lab.open(), Inbox(), Inbox()
        session.add_state_listener(states)
        await session.create("/e", b"kept", ephemeral=True)
        await session.get("/e", watch)
        await lab.stop()
        assert await states.get() is SessionState.SUSPENDED
        with pytest.raises(ConnectionLost):
            await session.get("/e")
        assert watch.empty()
        await lab.start()
        assert await states.get() is SessionState.CONNECTED
        assert await watch.get() == WatchEvent(WatchKind.CHANGED, "/e")
        data, stat = await session.get("/e")
        assert (data, stat.ephemeral_owner) == (b"kept", session.session_id)
        await session.close()

    play(body)


def test_no_server_is_connection_lost(play: Play) -> None:
    async def body(lab: Lab) -> None:
        await (await lab.open()).close()
        await lab.stop()
        with pytest.raises(ConnectionLost, match=r"responded within \d+ ms"):
            await lab.open()
        await lab.start()
        await (await lab.open()).close()

    play(body)


@pytest.mark.mission("DOOR-2")
@pytest.mark.parametrize(
    "path",
    [
        "/a/..", "/a/.", "/./a", "/..", "/a/../b", "", "a", "/a/", "/a//b", "//", "/a\0", "/a\x1f",
        "/\ud800", "/\ue000", "/\uffff", "/a\n",
    ],
)  # fmt: skip
def test_bad_paths_are_refused(play: Play, path: str) -> None:
    """Clients choose names that become paths. Kazoo would raise ValueError, or strip the path, or
    fail in its own thread."""

    async def body(lab: Lab) -> None:
        session = await lab.open()
        await session.create("/a")
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: session.create(path),
            lambda: session.get(path),
            lambda: session.get_many(["/a", path]),
            lambda: session.exists(path),
            lambda: session.children(path),
            lambda: session.set(path, b""),
            lambda: session.delete(path),
            lambda: session.multi([CheckOp("/a", 0), CreateOp(path, b"")]),
            lambda: session.multi([CheckOp("/a", 0), SetOp(path, b"")]),
        ]
        for call in calls:
            with pytest.raises(BadPath):
                await call()
        assert await session.get("/a") == (b"", await session.exists("/a"))
        await session.create("/a/.b")
        assert await session.children("/a") == [".b"]
        await session.close()

    play(body)


@pytest.mark.mission("DOOR-2")
@pytest.mark.parametrize("version", [2**31, -(2**31) - 1, 2**70])
def test_an_impossible_version_is_a_bad_version(play: Play, version: int) -> None:
    """Kazoo's thread would end while it encodes the request."""

    async def body(lab: Lab) -> None:
        session = await lab.open()
        await session.create("/a")
        with pytest.raises(BadVersion):
            await session.set("/a", b"", version)
        with pytest.raises(BadVersion):
            await session.delete("/a", version)
        for op in (SetOp("/a", b"", version), DeleteOp("/a", version), CheckOp("/a", version)):
            with pytest.raises(BadVersion):
                raise_error(await session.multi([op]))
        assert await session.children("/") == ["a"]
        await session.close()

    play(body)


@pytest.mark.mission("DOOR-2")
async def test_arguments_refused_by_kazoo_are_an_error_of_the_port(
    real_zookeeper: ZookeeperProcess,
) -> None:
    lab = RealLab(real_zookeeper)
    session: Any = await lab.open()
    await session.create("/a")
    with pytest.raises(CoordinationError, match="TypeError"):
        await session.set("/a", "text")
    assert not session._waiting
    assert (await session.get("/a"))[0] == b""
    await session.close()


# -------------------------------------------------------------------------------------- security


def private_below_secrets(path: str) -> ZnodeAcl:
    """The creator may do everything, everybody may read what is not below /secrets."""
    return CREATOR_ALL if path.startswith("/secrets") else CREATOR_ALL + ANYONE_READ


def as_user(name: str, password: str | None = None) -> CoordinationSecurity:
    login = DigestLogin(name, USERS[name] if password is None else password)
    return CoordinationSecurity(login=login, acl_of=private_below_secrets)


OF_KAFKA = ZnodeAclEntry(Permission.ALL, "sasl", "kafka")


async def denied(*calls: Coroutine[Any, Any, object]) -> None:
    for call in calls:
        with pytest.raises(NoAuth):
            await call


@pytest.mark.mission("SEC-153")
def test_znodes_get_the_acls_of_the_session(play: Play) -> None:
    async def body(lab: Lab) -> None:
        await (await lab.open()).create("/open")
        session = await lab.open(security=as_user("kafka"))
        await session.create("/own", b"x")
        await session.multi([CreateOp("/secrets", b""), CreateOp("/secrets/a-", b"", False, True)])
        await session.create("/own/gone", ephemeral=True)
        assert await session.get_acl("/open") == ANYONE_ALL
        assert await session.get_acl("/own") == (OF_KAFKA, *ANYONE_READ)
        assert await session.get_acl("/own/gone") == (OF_KAFKA, *ANYONE_READ)
        assert await session.get_acl("/secrets") == (OF_KAFKA,)
        assert await session.get_acl("/secrets/a-0000000000") == (OF_KAFKA,)
        with pytest.raises(NoNode):
            await session.get_acl("/missing")

    play(body)


@pytest.mark.mission("SEC-153")
@pytest.mark.parametrize("security", [UNSECURED, as_user("alice")], ids=["nobody", "alice"])
def test_an_acl_limits_other_clients(play: Play, security: CoordinationSecurity) -> None:
    async def body(lab: Lab) -> None:
        owner = await lab.open(security=as_user("kafka"))
        await owner.create("/own", b"x")
        await owner.create("/own/child")
        await owner.create("/secrets", b"x")
        other = await lab.open(security=security)
        assert (await other.get("/own"))[0] == b"x"
        assert await other.children("/own") == ["child"]
        await denied(
            other.get("/secrets"),
            other.children("/secrets"),
            other.get_many(["/own", "/secrets"]),
            other.get_acl("/secrets"),
            other.set_acl("/own", ANYONE_ALL),
            other.set("/own", b"y"),
            other.create("/own/mine"),
            other.delete("/own/child"),
        )
        result = await other.multi([SetOp("/own", b"y"), CheckOp("/own", 0)])
        assert [type(each) for each in result] == [NoAuth, RolledBack]
        with pytest.raises(NoAuth):
            raise_error((await Requests(other).multi([DeleteOp("/own/child")])).results)
        assert (await owner.get("/own"))[0] == b"x"

    play(body)


@pytest.mark.mission("SEC-153")
def test_an_acl_can_be_replaced_by_its_owner(play: Play) -> None:
    async def body(lab: Lab) -> None:
        owner = await lab.open(security=as_user("kafka"))
        await owner.create("/secrets", b"x")
        await owner.set_acl("/secrets", ANYONE_ALL)
        other = await lab.open()
        assert await other.get_acl("/secrets") == ANYONE_ALL
        assert (await other.get("/secrets"))[0] == b"x"
        with pytest.raises(InvalidAcl):
            await other.set_acl("/secrets", CREATOR_ALL)
        with pytest.raises(NoNode):
            await owner.set_acl("/missing", ANYONE_ALL)

    play(body)


@pytest.mark.mission("SEC-153")
def test_an_anonymous_client_cannot_own_znodes(play: Play) -> None:
    async def body(lab: Lab) -> None:
        await lab.open()
        session = await lab.open(security=CoordinationSecurity(acl_of=private_below_secrets))
        with pytest.raises(InvalidAcl):
            await session.create("/own")
        result = await session.multi([CreateOp("/own", b"")])
        assert [type(each) for each in result] == [InvalidAcl]

    play(body)


@pytest.mark.mission("SEC-153")
@pytest.mark.parametrize("name", ["kafka", "alice"])
def test_a_login_with_a_wrong_password_opens_no_session(play: Play, name: str) -> None:
    async def body(lab: Lab) -> None:
        with pytest.raises(
            ZookeeperLoginFailed, match=f"the SASL login of {name} at ZooKeeper has failed"
        ):
            await lab.open(security=as_user(name, "wrong"))

    play(body)


@pytest.mark.mission("SEC-153")
def test_a_session_logs_in_again_after_a_lost_connection(play: Play) -> None:
    async def body(lab: Lab) -> None:
        session = await lab.open(timeout_ms=30_000, security=as_user("kafka"))
        await session.create("/secrets")
        states = Inbox()
        session.add_state_listener(states)
        await lab.stop()
        assert await states.get() is SessionState.SUSPENDED
        await lab.start()
        assert await states.get() is SessionState.CONNECTED
        await session.set("/secrets", b"again")
        assert (await session.get("/secrets"))[0] == b"again"

    play(body)
