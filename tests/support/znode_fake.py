"""A ZooKeeper in a dict for unit tests: sessions, one-shot watches, answers lost on demand."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from minikafka.kernel.ports import (
    BadVersion,
    ConnectionLost,
    CoordinationError,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
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


@dataclass
class Node:
    data: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    next_sequence: int = 0


@dataclass
class FakeZookeeper:
    """The tree, and the port. ``refuse`` opens fail first; ``forbidden`` paths are not written."""

    nodes: dict[str, Node] = field(default_factory=lambda: {"/": Node(b"", 0, 0)})
    zxid: int = 0
    sessions: list[FakeSession] = field(default_factory=list)
    refuse: int = 0
    forbidden: set[str] = field(default_factory=set)
    multis: list[int] = field(default_factory=list)  # how many operations each one had
    watches: list[tuple[str, WatchKind, Watcher]] = field(default_factory=list)

    async def open(
        self, connect: str, session_timeout_ms: int, connection_timeout_ms: int
    ) -> FakeSession:
        if self.refuse:
            self.refuse -= 1
            raise ConnectionLost(connect)
        session = FakeSession(self, len(self.sessions) + 1)
        self.sessions.append(session)
        return session

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        below = (p.removeprefix(prefix) for p in self.nodes if p != "/" and p.startswith(prefix))
        return sorted(name for name in below if "/" not in name)

    def stat(self, path: str) -> ZnodeStat:
        n = self.nodes[path]
        count = len(self.children(path))
        return ZnodeStat(n.czxid, n.mzxid, n.version, count, n.owner, 0, 0, count)

    def apply(self, op: CoordinationOp, session_id: int, events: list[WatchEvent]) -> OpResult:
        node = self.nodes.get(op.path)
        if op.path in self.forbidden:
            raise CoordinationError(f"no right to write {op.path}")
        if isinstance(op, CreateOp):
            return self._create(op, session_id, events)
        if node is None:
            raise NoNode(op.path)
        if op.version not in (-1, node.version):
            raise BadVersion(op.path)
        if isinstance(op, SetOp):
            node.data, node.version, node.mzxid = op.data, node.version + 1, self.zxid
            events.append(WatchEvent(WatchKind.CHANGED, op.path))
            return self.stat(op.path)
        if isinstance(op, DeleteOp):
            if self.children(op.path):
                raise NotEmpty(op.path)
            del self.nodes[op.path]
            events.append(WatchEvent(WatchKind.DELETED, op.path))
            events.append(WatchEvent(WatchKind.CHILDREN, parent(op.path)))
        return None

    def _create(self, op: CreateOp, session_id: int, events: list[WatchEvent]) -> str:
        above = self.nodes.get(parent(op.path))
        if above is None:
            raise NoNode(op.path)
        path = op.path
        if op.sequential:
            path = f"{path}{above.next_sequence:010d}"
            above.next_sequence += 1
        if path in self.nodes:
            raise NodeExists(path)
        owner = session_id if op.ephemeral else 0
        self.nodes[path] = Node(op.data, self.zxid, self.zxid, owner)
        events.append(WatchEvent(WatchKind.CREATED, path))
        events.append(WatchEvent(WatchKind.CHILDREN, parent(path)))
        return path

    def transact(self, ops: Sequence[CoordinationOp], session_id: int) -> list[OpResult]:
        saved = copy.deepcopy(self.nodes)
        self.zxid += 1
        events: list[WatchEvent] = []
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(self.apply(op, session_id, events))
            except CoordinationError as error:
                self.nodes = saved
                failed: list[OpResult] = [RolledBack(other.path) for other in ops]
                failed[index] = error
                return failed
        for event in events:
            self.tell(event)
        return results

    def another_client(self, *ops: CoordinationOp) -> Callable[[], None]:
        """A call that does ``ops`` behind everybody's back."""

        def act() -> None:
            self.transact(ops, 0)

        return act

    def tell(self, event: WatchEvent) -> None:
        kinds = {WatchKind.CHILDREN} if event.kind is WatchKind.CHILDREN else {WatchKind.CHANGED}
        if event.kind is WatchKind.DELETED:
            kinds.add(WatchKind.CHILDREN)
        hit = [w for w in self.watches if w[0] == event.path and w[1] in kinds]
        self.watches = [w for w in self.watches if w not in hit]
        for _, _, watcher in hit:
            watcher(event)

    def expire(self, session: FakeSession) -> None:
        for path in [p for p, n in self.nodes.items() if n.owner == session.session_id]:
            self.transact([DeleteOp(path)], 0)
        session.change(SessionState.EXPIRED)


@dataclass(eq=False)
class FakeSession:
    """``lose_answers``: that many multis are done and their answers lost; ``lose_requests``: that
    many never arrive. ``before_multis``: what happens before each of the next multis."""

    zookeeper: FakeZookeeper
    session_id: int
    state: SessionState = SessionState.CONNECTED
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

    async def _arrive(self) -> None:
        await asyncio.sleep(0)
        if self.state is SessionState.EXPIRED:
            raise SessionExpired
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLost
        if self.lose_requests:
            self.lose_requests -= 1
            raise ConnectionLost

    def _watch(self, path: str, kind: WatchKind, watcher: Watcher | None) -> None:
        if watcher is not None and (path, kind, watcher) not in self.zookeeper.watches:
            self.zookeeper.watches.append((path, kind, watcher))

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, ZnodeStat]:
        made = (await self.multi([CreateOp(path, data, ephemeral, sequential)]))[0]
        if isinstance(made, CoordinationError):
            raise made
        assert isinstance(made, str)
        return made, self.zookeeper.stat(made)

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        await self._arrive()
        if path not in self.zookeeper.nodes:
            raise NoNode(path)
        self._watch(path, WatchKind.CHANGED, watcher)
        return self.zookeeper.nodes[path].data, self.zookeeper.stat(path)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        await self._arrive()
        nodes = self.zookeeper.nodes
        return [(nodes[p].data, self.zookeeper.stat(p)) if p in nodes else None for p in paths]

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        await self._arrive()
        self._watch(path, WatchKind.CHANGED, watcher)
        return self.zookeeper.stat(path) if path in self.zookeeper.nodes else None

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        await self._arrive()
        if path not in self.zookeeper.nodes:
            raise NoNode(path)
        self._watch(path, WatchKind.CHILDREN, watcher)
        return self.zookeeper.children(path)

    async def set(self, path: str, data: bytes, version: int = -1) -> ZnodeStat:
        stat = (await self.multi([SetOp(path, data, version)]))[0]
        if isinstance(stat, CoordinationError):
            raise stat
        assert isinstance(stat, ZnodeStat)
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        error = (await self.multi([DeleteOp(path, version)]))[0]
        if isinstance(error, CoordinationError):
            raise error

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        await self._arrive()
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


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
