"""Znodes in memory with sessions, watches by session, a trace of calls, and faults on demand."""

from __future__ import annotations

import asyncio
import posixpath
from dataclasses import dataclass

from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    CoordinationError,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
    RolledBack,
    SessionExpired,
    SessionState,
    WatchEvent,
    WatchKind,
    ZnodeStat,
)


@dataclass
class Znode:
    data: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    cversion: int = 0
    sequence: int = 0


class Tree:
    """Znodes, watches, sessions. ``census`` counts armed watches per session."""

    def __init__(self) -> None:
        self.nodes = {"/": Znode(b"", 0, 0)}
        self.zxid = 0
        self.sessions: dict[int, Session] = {}
        self.data_watches: dict[tuple[int, str], list] = {}
        self.child_watches: dict[tuple[int, str], list] = {}

    def open(self):
        session = Session(self, 0x100 + len(self.sessions))
        self.sessions[session.session_id] = session
        return session

    def expire(self, session_id: int) -> None:
        """The session is over for the servers and for its owner."""
        self.forget(session_id)
        self.sessions[session_id].state = SessionState.EXPIRED

    def forget(self, session_id: int) -> None:
        """The servers expire a session whose owner does not know yet."""
        for path in sorted(self.nodes):
            if self.nodes[path].owner == session_id:
                self.delete(path)
        for watches in (self.data_watches, self.child_watches):
            for key in [k for k in watches if k[0] == session_id]:
                del watches[key]

    def census(self, session_id: int):
        paths = [
            p for w in (self.data_watches, self.child_watches) for s, p in w if s == session_id
        ]
        return sorted(paths)

    def stat(self, path):
        n = self.nodes[path]
        children = sum(posixpath.dirname(p) == path and p != "/" for p in self.nodes)
        return ZnodeStat(n.czxid, n.mzxid, n.version, n.cversion, n.owner, 0, 0, children)

    def fire(self, path, kind) -> None:
        parent = posixpath.dirname(path)
        hits = [(self.data_watches, path, kind)]
        if kind is not WatchKind.CHANGED:
            hits.append((self.child_watches, parent, WatchKind.CHILDREN))
        loop = asyncio.get_running_loop()
        for watches, at, what in hits:
            for key in [k for k in watches if k[1] == at]:
                for watcher in watches.pop(key):
                    loop.call_soon(watcher, WatchEvent(what, at))

    def create(self, path, data: bytes, owner=0, sequential: bool = False):
        parent = posixpath.dirname(path)
        if parent not in self.nodes:
            raise NoNode(path)
        if sequential:
            path = f"{path}{self.nodes[parent].sequence:010d}"
            self.nodes[parent].sequence += 1
        if path in self.nodes:
            raise NodeExists(path)
        self.zxid += 1
        self.nodes[path] = Znode(data, self.zxid, self.zxid, owner)
        self.nodes[parent].cversion += 1
        self.fire(path, WatchKind.CREATED)
        return path

    def check(self, path, version: int) -> None:
        if path not in self.nodes:
            raise NoNode(path)
        if version not in (-1, self.nodes[path].version):
            raise BadVersion(path)

    def set(self, path, data: bytes, version: int = -1):
        self.check(path, version)
        self.zxid += 1
        node = self.nodes[path]
        node.data, node.mzxid, node.version = data, self.zxid, node.version + 1
        self.fire(path, WatchKind.CHANGED)
        return self.stat(path)

    def delete(self, path, version: int = -1) -> None:
        self.check(path, version)
        if any(p.startswith(path + "/") for p in self.nodes):
            raise NotEmpty(path)
        self.zxid += 1
        del self.nodes[path]
        self.nodes[posixpath.dirname(path)].cversion += 1
        self.fire(path, WatchKind.DELETED)

    def delete_tree(self, root) -> None:
        for path in sorted(self.nodes, reverse=True):
            if path == root or path.startswith(root + "/"):
                self.delete(path)


class Session:
    """``calls`` is the trace of what was asked; ``fail`` maps a path to an error, once."""

    def __init__(self, tree, session_id: int) -> None:
        self.tree = tree
        self.session_id = session_id
        self.state = SessionState.CONNECTED
        self.calls: list[tuple[str, str]] = []
        self.fail: dict[tuple[str, str], Exception] = {}

    def add_state_listener(self, listener) -> None:
        pass

    async def _turn(self, call, path) -> None:
        await asyncio.sleep(0)
        if self.state is SessionState.EXPIRED:
            raise SessionExpired(path)
        self.calls.append((call, path))
        if (call, path) in self.fail:
            raise self.fail.pop((call, path))

    def _watch(self, watches, path, watcher) -> None:
        if watcher is not None:
            armed = watches.setdefault((self.session_id, path), [])
            if watcher not in armed:
                armed.append(watcher)

    async def get(self, path, watcher=None):
        await self._turn("get", path)
        if path not in self.tree.nodes:
            raise NoNode(path)
        self._watch(self.tree.data_watches, path, watcher)
        return self.tree.nodes[path].data, self.tree.stat(path)

    async def get_many(self, paths):
        for path in paths:
            await self._turn("get", path)
        nodes = self.tree.nodes
        return [(nodes[p].data, self.tree.stat(p)) if p in nodes else None for p in paths]

    async def exists(self, path, watcher=None):
        await self._turn("exists", path)
        self._watch(self.tree.data_watches, path, watcher)
        return self.tree.stat(path) if path in self.tree.nodes else None

    async def children(self, path, watcher=None):
        await self._turn("children", path)
        if path not in self.tree.nodes:
            raise NoNode(path)
        self._watch(self.tree.child_watches, path, watcher)
        return sorted(
            posixpath.basename(p)
            for p in self.tree.nodes
            if p != "/" and posixpath.dirname(p) == path
        )

    async def create(
        self, path, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ):
        await self._turn("create", path)
        made = self.tree.create(path, data, self.session_id if ephemeral else 0, sequential)
        return made, self.tree.stat(made)

    async def set(self, path, data: bytes, version: int = -1):
        await self._turn("set", path)
        return self.tree.set(path, data, version)

    async def delete(self, path, version: int = -1) -> None:
        await self._turn("delete", path)
        self.tree.delete(path, version)

    async def multi(self, ops):
        for op in ops:
            await self._turn("multi", op.path)
        saved = {p: Znode(**vars(n)) for p, n in self.tree.nodes.items()}
        fired, self.tree.fire, real = [], lambda *a: fired.append(a), self.tree.fire
        results = []
        try:
            for op in ops:
                results.append(self._do(op))
        except CoordinationError as error:
            self.tree.nodes = saved
            place = len(results)
            return [error if i == place else RolledBack(o.path) for i, o in enumerate(ops)]
        finally:
            self.tree.fire = real
        for event in fired:
            real(*event)
        return results

    def _do(self, op):
        if isinstance(op, CreateOp):
            owner = self.session_id if op.ephemeral else 0
            return self.tree.create(op.path, op.data, owner, op.sequential)
        if isinstance(op, DeleteOp):
            return self.tree.delete(op.path, op.version)
        if isinstance(op, CheckOp):
            return self.tree.check(op.path, op.version)
        return self.tree.set(op.path, op.data, op.version)

    async def close(self) -> None:
        self.tree.expire(self.session_id)
