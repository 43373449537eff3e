"""ZooKeeper sessions that work directly on the simulated znode tree, with faults on demand.

Unit tests run on asyncio's own loop and count single turns, so they cannot use ``SimZookeeper``,
whose messages travel over simulated links in simulated time. The tree is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from minikafka.kernel.ports import (
    ConnectionLost,
    CoordinationError,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NoNode,
    OpResult,
    RolledBack,
    SessionExpired,
    SessionState,
    SetOp,
    StateListener,
    Watcher,
    WatchEvent,
    WatchKind,
    ZnodeStat,
)
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity, ZnodeAcl
from minikafka.world.memory.znode_tree import TRIGGERED_WATCHES, Author, Znode, ZnodeTree

FIRST_SESSION_ID = 1
NOBODY = 0  # the session id of writes by another client


class DirectZookeeper:
    """The server and the port. The next ``refuse`` opens fail; ``forbidden`` paths cannot be
    written; ``multis`` lists the number of operations of each transaction. ``event_listeners`` are
    called with every event, watched or not, before its watchers."""

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        self.sessions: list[DirectSession] = []
        self.refuse = 0
        self.forbidden: set[str] = set()
        self.multis: list[int] = []
        self.event_listeners: list[Callable[[WatchEvent], None]] = []
        self._watches: list[tuple[DirectSession, WatchKind, str, Watcher]] = []

    @property
    def nodes(self) -> Mapping[str, Znode]:
        return self.tree.nodes

    @property
    def zxid(self) -> int:
        return self.tree.zxid

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> DirectSession:
        assert security is UNSECURED, "all znodes are open to all clients here"
        if self.refuse:
            self.refuse -= 1
            raise ConnectionLost(connect)
        return self.new_session()

    def new_session(self) -> DirectSession:
        self.tree.new_session()
        session = DirectSession(self, FIRST_SESSION_ID + len(self.sessions))
        self.sessions.append(session)
        return session

    # ------------------------------------------------------------------------------- expiry

    def expire(self, session: DirectSession) -> None:
        """End the session on the server and notify its owner."""
        self.expire_unnoticed(session)
        session.change(SessionState.EXPIRED)

    def expire_unnoticed(self, session: DirectSession) -> None:
        """End the session on the server without notifying its owner."""
        events = self.tree.end_session(session.session_id)
        self._watches = [watch for watch in self._watches if watch[0] is not session]
        self._fire_all(events)

    # ------------------------------------------------------------------- writes by another client

    def create(self, path: str, data: bytes = b"", *, sequential: bool = False) -> None:
        self._write(CreateOp(path, data, sequential=sequential))

    def set(self, path: str, data: bytes) -> None:
        self._write(SetOp(path, data))

    def delete(self, path: str) -> None:
        self._write(DeleteOp(path))

    def delete_tree(self, root: str) -> None:
        for path in sorted(self.nodes, reverse=True):
            if path == root or path.startswith(root + "/"):
                self.delete(path)

    def another_client(self, *ops: CoordinationOp) -> Callable[[], None]:
        """Return a call that writes ``ops`` as one transaction of another client."""

        def act() -> None:
            self.transact(ops, NOBODY)

        return act

    def _write(self, op: CoordinationOp) -> None:
        (result,) = self.transact([op], NOBODY)
        if isinstance(result, CoordinationError):
            raise result

    # --------------------------------------------------------------------- transactions, watches

    def transact(self, ops: Sequence[CoordinationOp], session_id: int) -> list[OpResult]:
        for forbidden in ops:
            if forbidden.path in self.forbidden:
                error = CoordinationError(f"no right to write {forbidden.path}")
                return [error if op is forbidden else RolledBack(op.path) for op in ops]
        outcome = self.tree.apply(ops, Author(session_id), wall_ms=0)
        self._fire_all(outcome.events)
        return outcome.results

    def watch(self, session: DirectSession, kind: WatchKind, path: str, watcher: Watcher) -> None:
        if (session, kind, path, watcher) not in self._watches:
            self._watches.append((session, kind, path, watcher))

    def watched(self, session: DirectSession) -> list[str]:
        """The paths on which the session has watches, once for each watch, sorted."""
        return sorted(path for owner, _, path, _ in self._watches if owner is session)

    def lose_data_watch(self, session: DirectSession, path: str) -> None:
        """Drop the session's watches on the data of ``path``, as a faulty server would."""
        lost = [w for w in self._watches if w[:3] == (session, WatchKind.CHANGED, path)]
        assert lost
        self._watches = [watch for watch in self._watches if watch not in lost]

    def _fire_all(self, events: Sequence[WatchEvent]) -> None:
        for event in events:
            self._fire(event)

    def _fire(self, event: WatchEvent) -> None:
        for listener in list(self.event_listeners):
            listener(event)
        kinds = TRIGGERED_WATCHES[event.kind]
        hit = [watch for watch in self._watches if watch[2] == event.path and watch[1] in kinds]
        if not hit:
            return
        self._watches = [watch for watch in self._watches if watch not in hit]
        loop = asyncio.get_running_loop()
        for *_, watcher in hit:
            loop.call_soon(watcher, event)


@dataclass(eq=False)
class DirectSession:
    """A session. ``calls`` lists (call, path), for a multi one for each operation.

    Faults: ``fail`` raises once for a (call, path); ``lose_answers`` multis are done without a
    response; ``lose_requests`` calls never arrive; ``before_multis`` act before the next multis.
    """

    zookeeper: DirectZookeeper
    session_id: int
    state: SessionState = SessionState.CONNECTED
    calls: list[tuple[str, str]] = field(default_factory=list)
    fail: dict[tuple[str, str], Exception] = field(default_factory=dict)
    lose_answers: int = 0
    lose_requests: int = 0
    before_multis: list[Callable[[], None]] = field(default_factory=list)
    listeners: list[StateListener] = field(default_factory=list)

    def add_state_listener(self, listener: StateListener) -> None:
        self.listeners.append(listener)

    def change(self, state: SessionState) -> None:
        if self.state not in (state, SessionState.EXPIRED):
            self.state = state
            for listener in list(self.listeners):
                listener(state)

    async def _arrive(self, call: str, *paths: str) -> None:
        await asyncio.sleep(0)
        if self.state is SessionState.EXPIRED:
            raise SessionExpired
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLost
        if self.lose_requests:
            self.lose_requests -= 1
            raise ConnectionLost
        for path in paths:
            self.calls.append((call, path))
            if (call, path) in self.fail:
                raise self.fail.pop((call, path))

    def _watch(self, kind: WatchKind, path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            self.zookeeper.watch(self, kind, path, watcher)

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        await self._arrive("get", path)
        found = self.zookeeper.tree.get(path)
        self._watch(WatchKind.CHANGED, path, watcher)
        return found

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        await self._arrive("get", *paths)
        tree = self.zookeeper.tree
        return [tree.get(path) if tree.exists(path) else None for path in paths]

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        await self._arrive("exists", path)
        self._watch(WatchKind.CHANGED, path, watcher)
        return self.zookeeper.tree.exists(path)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        await self._arrive("children", path)
        found = self.zookeeper.tree.children(path)
        self._watch(WatchKind.CHILDREN, path, watcher)
        return found

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, ZnodeStat]:
        made = await self._write("create", CreateOp(path, data, ephemeral, sequential))
        assert isinstance(made, str)
        stat = self.zookeeper.tree.exists(made)
        if stat is None:
            raise NoNode(made)
        return made, stat

    async def set(self, path: str, data: bytes, version: int = -1) -> ZnodeStat:
        stat = await self._write("set", SetOp(path, data, version))
        assert isinstance(stat, ZnodeStat)
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        await self._write("delete", DeleteOp(path, version))

    async def _write(self, call: str, op: CoordinationOp) -> OpResult:
        (result,) = await self._transact(call, [op])
        if isinstance(result, CoordinationError):
            raise result
        return result

    async def get_acl(self, path: str) -> ZnodeAcl:
        raise NotImplementedError

    async def set_acl(self, path: str, acl: ZnodeAcl) -> None:
        raise NotImplementedError

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        return await self._transact("multi", ops)

    async def _transact(self, call: str, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        await self._arrive(call, *(op.path for op in ops))
        if self.before_multis:
            self.before_multis.pop(0)()
        self.zookeeper.multis.append(len(ops))
        results = self.zookeeper.transact(ops, self.session_id)
        if self.lose_answers:
            self.lose_answers -= 1
            raise ConnectionLost
        return results

    async def close(self) -> None:
        if self.state is not SessionState.EXPIRED:
            self.zookeeper.expire(self)
