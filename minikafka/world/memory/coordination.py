"""ZooKeeper in the process of its clients: sessions on a znode tree, without connections.

A session ends when its client closes it or a test expires it. ``stop`` suspends all sessions, as if
no server could be reached.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from minikafka.kernel.ports import (
    ConnectionLost,
    CoordinationError,
    CoordinationOp,
    CoordinationSession,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    OpResult,
    SessionExpired,
    SessionState,
    SetOp,
    StateListener,
    Watcher,
    WatchEvent,
    WatchKind,
    ZnodeStat,
    ZookeeperLoginFailed,
    require_path,
)
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity, ZnodeAcl
from minikafka.world.memory.znode_tree import ANYBODY, TRIGGERED_WATCHES, Author, ZnodeTree

T = TypeVar("T")

FIRST_SESSION_ID = 0x1_0000_0000_0000

_Watch = tuple[WatchKind, str]


class MemoryZookeeper:
    """The server, and the port Coordination of all its clients, on one event loop."""

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        self.users: dict[str, str] = {}  # who may log in, with their passwords
        self._running = asyncio.Event()
        self._running.set()
        self.sessions: dict[int, MemorySession] = {}
        self._watchers: dict[_Watch, dict[tuple[MemorySession, Watcher], None]] = {}
        self._next_session_id = FIRST_SESSION_ID

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        """There are no certificates of clients."""
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await self._running.wait()
        except TimeoutError:
            raise ConnectionLost(
                f"no ZooKeeper server responded within {connection_timeout_ms} ms"
            ) from None
        login = security.login
        if login is not None and self.users.get(login.username) != login.password:
            raise ZookeeperLoginFailed(
                f"the SASL login of {login.username} at ZooKeeper has failed"
            )
        self.tree.new_session()
        session = MemorySession(self, self._next_session_id, security)
        self._next_session_id += 1
        self.sessions[session.session_id] = session
        if chroot := connect.partition("/")[2].strip("/"):
            await session.enter(f"/{chroot}")
        return session

    # -------------------------------------------------------------------------------- faults

    def stop(self) -> None:
        """Suspend all sessions. Watches are kept, but no events arrive."""
        self._running.clear()
        for session in self.sessions.values():
            session.change_state(SessionState.SUSPENDED)

    def start(self) -> None:
        """Connect all sessions again. Every watcher is called, since its znode may have changed."""
        self._running.set()
        watchers, self._watchers = self._watchers, {}
        for session in self.sessions.values():
            session.change_state(SessionState.CONNECTED)
        loop = asyncio.get_running_loop()
        for (kind, path), waiting in watchers.items():
            for session, watcher in waiting:
                loop.call_soon(session.notify, watcher, WatchEvent(kind, path))

    def expire(self, session_id: int) -> None:
        """Expire a session now, as if nothing had been heard of its client."""
        session = self.sessions.get(session_id)
        if session is not None:
            self.end(session)
            session.change_state(SessionState.EXPIRED)

    def suspend(self, session_id: int) -> None:
        """Cut off one session. Its watches are kept, but none of them is called."""
        session = self.sessions.get(session_id)
        if session is not None:
            session.change_state(SessionState.SUSPENDED)

    def lose(self, session_id: int) -> None:
        """End a session that is cut off, as after its time-out. Its client learns it later."""
        session = self.sessions.get(session_id)
        if session is not None:
            self.end(session)

    def resume(self, session: CoordinationSession) -> bool:
        """Connect one session again. If it has ended, it expires, and the result is False;
        otherwise its watchers are called, since their znodes may have changed."""
        found = self.sessions.get(session.session_id)
        if found is None:
            if isinstance(session, MemorySession):
                session.change_state(SessionState.EXPIRED)
            return False
        found.change_state(SessionState.CONNECTED)
        loop = asyncio.get_running_loop()
        for (kind, path), waiting in list(self._watchers.items()):
            for owner, watcher in [each for each in waiting if each[0] is found]:
                del waiting[owner, watcher]
                loop.call_soon(owner.notify, watcher, WatchEvent(kind, path))
        return True

    # ------------------------------------------------------------------------------ for sessions

    def end(self, session: MemorySession) -> None:
        """Remove a session with its watches and its ephemeral znodes."""
        if self.sessions.pop(session.session_id, None) is None:
            return
        for key, waiting in list(self._watchers.items()):
            kept = {each: None for each in waiting if each[0] is not session}
            if kept:
                self._watchers[key] = kept
            else:
                del self._watchers[key]
        self._trigger(self.tree.end_session(session.session_id))

    def watch(self, session: MemorySession, kind: WatchKind, path: str, watcher: Watcher) -> None:
        self._watchers.setdefault((kind, path), {})[session, watcher] = None

    def write(self, ops: Sequence[CoordinationOp], author: Author) -> list[OpResult]:
        outcome = self.tree.apply(ops, author, time.time_ns() // 1_000_000)
        self._trigger(outcome.events)
        return outcome.results

    def _trigger(self, events: Sequence[WatchEvent]) -> None:
        """Call watchers in the next turn, in the order of the events: after the call that wrote,
        before the response to any later read."""
        for event in events:
            notified: dict[tuple[MemorySession, Watcher], None] = {}
            for kind in TRIGGERED_WATCHES[event.kind]:
                key = kind, event.path
                for each in self._watchers.pop(key, {}):
                    if each[0].state is SessionState.SUSPENDED and self._running.is_set():
                        self._watchers.setdefault(key, {})[each] = None  # ``resume`` calls it
                    else:
                        notified[each] = None
            for session, watcher in notified:
                asyncio.get_running_loop().call_soon(session.notify, watcher, event)


class MemorySession:
    """See ``kernel.ports.CoordinationSession``."""

    def __init__(
        self, zookeeper: MemoryZookeeper, session_id: int, security: CoordinationSecurity
    ) -> None:
        self._zookeeper = zookeeper
        self._session_id = session_id
        self._acl_of = security.acl_of
        login = security.login
        self._identities = (ANYBODY,) if login is None else (ANYBODY, ("sasl", login.username))
        self._state = SessionState.CONNECTED
        self._listeners: list[StateListener] = []
        self._chroot = ""

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    def add_state_listener(self, listener: StateListener) -> None:
        self._listeners.append(listener)

    def change_state(self, state: SessionState) -> None:
        if self._state in (state, SessionState.EXPIRED):
            return
        self._state = state
        for listener in list(self._listeners):
            listener(state)

    def notify(self, watcher: Watcher, event: WatchEvent) -> None:
        if self._state is not SessionState.EXPIRED:
            watcher(WatchEvent(event.kind, self._without_chroot(event.path)))

    async def enter(self, chroot: str) -> None:
        """Create the chroot if it is missing; later paths are relative to it."""
        names = [] if await self.exists(chroot) is not None else chroot.strip("/").split("/")
        path = ""
        for name in names:
            path = f"{path}/{name}"
            try:
                await self.create(path)
            except NodeExists:
                continue
        self._chroot = chroot

    # ------------------------------------------------------------------------------ operations

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, ZnodeStat]:
        created = await self._write(CreateOp(path, data, ephemeral, sequential))
        assert isinstance(created, str)
        stat = self._zookeeper.tree.exists(self._with_chroot(created))
        if stat is None:
            raise NoNode(created)
        return created, stat

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        absolute = await self._arrive(path)
        found = self._named(path, lambda: self._zookeeper.tree.get(absolute, self._identities))
        self._watch(WatchKind.CHANGED, absolute, watcher)
        return found

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        if not paths:
            return []
        absolute = [self._with_chroot(path) for path in paths]
        await self._arrive(paths[0])
        tree = self._zookeeper.tree
        return [
            self._named(path, partial(tree.get, found, self._identities))
            if tree.exists(found)
            else None
            for path, found in zip(paths, absolute, strict=True)
        ]

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        absolute = await self._arrive(path)
        tree = self._zookeeper.tree
        found = self._named(path, lambda: tree.exists(absolute, self._identities))
        self._watch(WatchKind.CHANGED, absolute, watcher)
        return found

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        absolute = await self._arrive(path)
        found = self._named(path, lambda: self._zookeeper.tree.children(absolute, self._identities))
        self._watch(WatchKind.CHILDREN, absolute, watcher)
        return found

    async def set(self, path: str, data: bytes, version: int = -1) -> ZnodeStat:
        stat = await self._write(SetOp(path, data, version))
        assert isinstance(stat, ZnodeStat)
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        await self._write(DeleteOp(path, version))

    async def get_acl(self, path: str) -> ZnodeAcl:
        absolute = await self._arrive(path)
        tree = self._zookeeper.tree
        return self._named(path, lambda: tree.get_acl(absolute, self._identities))

    async def set_acl(self, path: str, acl: ZnodeAcl) -> None:
        absolute = await self._arrive(path)
        tree = self._zookeeper.tree
        self._named(path, lambda: tree.set_acl(absolute, acl, self._identities))

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        if not ops:
            return []
        absolute = [replace(op, path=self._with_chroot(op.path)) for op in ops]
        await self._arrive(ops[0].path)
        created = [at for at, op in enumerate(ops) if isinstance(op, CreateOp)]
        acls = {at: self._acl_of(ops[at].path) for at in created}
        author = Author(self._session_id, self._identities, acls)
        results = self._zookeeper.write(absolute, author)
        return [self._result(op, result) for op, result in zip(ops, results, strict=True)]

    async def close(self) -> None:
        """End the session."""
        if self._state is not SessionState.EXPIRED:
            self._zookeeper.end(self)
            self.change_state(SessionState.EXPIRED)

    # --------------------------------------------------------------------------------- details

    async def _write(self, op: CoordinationOp) -> OpResult:
        (result,) = await self.multi([op])
        if isinstance(result, CoordinationError):
            raise result
        return result

    def _result(self, op: CoordinationOp, result: OpResult) -> OpResult:
        if isinstance(result, CoordinationError):
            return type(result)(op.path)
        return self._without_chroot(result) if isinstance(result, str) else result

    async def _arrive(self, path: str) -> str:
        """Wait for a turn of the loop, and return the path in the tree. Raises BadPath,
        SessionExpired, ConnectionLost."""
        absolute = self._with_chroot(path)
        self._check(path)
        await asyncio.sleep(0)
        self._check(path)
        return absolute

    def _check(self, path: str) -> None:
        if self._state is SessionState.EXPIRED:
            raise SessionExpired(path)
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost(path)

    def _named(self, path: str, read: Callable[[], T]) -> T:
        """Read; an error names the path as the client does."""
        try:
            return read()
        except CoordinationError as error:
            raise type(error)(path) from None

    def _watch(self, kind: WatchKind, path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            self._zookeeper.watch(self, kind, path, watcher)

    def _with_chroot(self, path: str) -> str:
        require_path(path)
        if path == "/":
            return self._chroot or "/"
        return self._chroot + path

    def _without_chroot(self, path: str) -> str:
        return path.removeprefix(self._chroot) or "/"
