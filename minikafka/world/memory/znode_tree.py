"""A znode tree in memory: versions, ACLs, transactions, and the watch events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    CoordinationError,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    InvalidAcl,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    OpResult,
    RolledBack,
    SetOp,
    WatchEvent,
    WatchKind,
    ZnodeStat,
)
from minikafka.kernel.zookeeper_security import ANYONE_ALL, Permission, ZnodeAcl, ZnodeAclEntry

ANYBODY = ("world", "anyone")


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes: a session, and the identities (scheme and name) of its client. ``acls`` has the
    ACL of each znode that the author creates, by the position of the operation."""

    session_id: int
    identities: tuple[tuple[str, str], ...] = (ANYBODY,)
    acls: Mapping[int, ZnodeAcl] = field(default_factory=dict)


# The watches that an event triggers: CHANGED stands for watches on data and on existence.
TRIGGERED_WATCHES: Mapping[WatchKind, tuple[WatchKind, ...]] = {
    WatchKind.CREATED: (WatchKind.CHANGED,),
    WatchKind.CHANGED: (WatchKind.CHANGED,),
    WatchKind.DELETED: (WatchKind.CHANGED, WatchKind.CHILDREN),
    WatchKind.CHILDREN: (WatchKind.CHILDREN,),
}


@dataclass(slots=True)
class Znode:
    """A znode. ``creations`` counts the children created in it so far, which gives the numbers of
    sequential znodes."""

    data: bytes
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int = 0
    version: int = 0
    creations: int = 0
    acl: ZnodeAcl = ANYONE_ALL
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> ZnodeStat:
        """Return the stat that clients see. Its ``cversion`` also counts deleted children, as in
        ZooKeeper's StatPersisted."""
        return ZnodeStat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            version=self.version,
            cversion=2 * self.creations - len(self.children),
            ephemeral_owner=self.ephemeral_owner,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            num_children=len(self.children),
        )

    def copy(self) -> Znode:
        return Znode(
            self.data,
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.ephemeral_owner,
            self.version,
            self.creations,
            self.acl,
            dict(self.children),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one transaction: a result or an error for each operation, and the watch
    events in order.

    A ``CHILDREN`` event carries the parent's path. If any result is an error, nothing was changed.
    """

    results: list[OpResult]
    events: list[WatchEvent]

    @property
    def error(self) -> CoordinationError | None:
        """The error of the operation that made the transaction fail; None if it succeeded."""
        for result in self.results:
            if isinstance(result, CoordinationError) and not isinstance(result, RolledBack):
                return result
        return None


class ZnodeTree:
    """The state of the ensemble. Each transaction, failed ones too, takes the next ``zxid``."""

    def __init__(self) -> None:
        self.zxid = 0
        self._nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0, 0)}

    # -------------------------------------------------------------------------------- reading

    @property
    def nodes(self) -> Mapping[str, Znode]:
        """Every znode by its path, in the order of creation. Callers must not change them."""
        return self._nodes

    def get(
        self, path: str, identities: Sequence[tuple[str, str]] = (ANYBODY,)
    ) -> tuple[bytes, ZnodeStat]:
        """Return a znode's data and stat. Raises ``NoNode``, ``NoAuth``."""
        node = self._find(path)
        _check_access(path, node, Permission.READ, identities)
        return node.data, node.stat()

    def exists(
        self, path: str, identities: Sequence[tuple[str, str]] | None = None
    ) -> ZnodeStat | None:
        """Return a znode's stat, None if it does not exist. With ``identities`` raises ``NoAuth``,
        as ZooKeeper does since 3.9."""
        _check_path(path)
        node = self._nodes.get(path)
        if node is not None and identities is not None:
            _check_access(path, node, Permission.READ, identities)
        return None if node is None else node.stat()

    def children(self, path: str, identities: Sequence[tuple[str, str]] = (ANYBODY,)) -> list[str]:
        """Return the names of a znode's children, sorted. Raises ``NoNode``, ``NoAuth``."""
        node = self._find(path)
        _check_access(path, node, Permission.READ, identities)
        return sorted(node.children)

    def get_acl(self, path: str, identities: Sequence[tuple[str, str]] = (ANYBODY,)) -> ZnodeAcl:
        """Return a znode's ACL. Raises ``NoNode``, ``NoAuth``."""
        node = self._find(path)
        _check_access(path, node, Permission.READ | Permission.ADMIN, identities)
        return node.acl

    def set_acl(self, path: str, acl: ZnodeAcl, identities: Sequence[tuple[str, str]]) -> None:
        """Replace a znode's ACL. Raises ``NoNode``, ``NoAuth``, ``InvalidAcl``."""
        self.zxid += 1
        node = self._find(path)
        _check_access(path, node, Permission.ADMIN, identities)
        node.acl = _complete(path, acl, identities)

    def ephemerals(self, session_id: int) -> list[str]:
        """Return the paths of a session's ephemeral znodes, sorted."""
        nodes = self._nodes.items()
        return sorted(path for path, node in nodes if node.ephemeral_owner == session_id)

    def dump(self) -> list[tuple[str, bytes, int]]:
        """Return every path with its data and version, sorted."""
        return [(path, node.data, node.version) for path, node in sorted(self._nodes.items())]

    # -------------------------------------------------------------------------------- writing

    def new_session(self) -> int:
        """Take a zxid for a new session and return it: ZooKeeper logs sessions as transactions."""
        self.zxid += 1
        return self.zxid

    def apply(self, ops: Sequence[CoordinationOp], author: Author, wall_ms: int) -> Outcome:
        """Apply all operations as one transaction, or none of them."""
        self.zxid += 1
        undo: dict[str, Znode | None] = {}
        results: list[OpResult] = []
        events: list[WatchEvent] = []
        for position, op in enumerate(ops):
            try:
                results.append(self._apply_one(position, op, author, wall_ms, undo, events))
            except CoordinationError as error:
                self._roll_back(undo)
                # A result with a traceback and the frames in it would refer to each other.
                return Outcome(_failed(ops, position, error.with_traceback(None)), [])
        return Outcome(results, events)

    def end_session(self, session_id: int) -> list[WatchEvent]:
        """Remove the session's ephemeral znodes in one transaction; return the watch events."""
        self.zxid += 1
        events: list[WatchEvent] = []
        for path in self.ephemerals(session_id):
            self._delete(DeleteOp(path), {}, events)
        return events

    def _apply_one(
        self,
        position: int,
        op: CoordinationOp,
        author: Author,
        wall_ms: int,
        undo: dict[str, Znode | None],
        events: list[WatchEvent],
    ) -> OpResult:
        _check_path(op.path)
        match op:
            case CreateOp():
                return self._create(position, op, author, wall_ms, undo, events)
            case SetOp():
                self._check(op.path, Permission.WRITE, author)
                return self._set(op, wall_ms, undo, events)
            case DeleteOp():
                self._find(op.path)
                self._check(_split(op.path)[0], Permission.DELETE, author)
                self._delete(op, undo, events)
            case CheckOp():
                self._check(op.path, Permission.READ, author)
                _check_version(op.path, self._find(op.path), op.version)
        return None

    def _check(self, path: str, needed: Permission, author: Author) -> None:
        _check_access(path, self._find(path), needed, author.identities)

    def _create(
        self,
        position: int,
        op: CreateOp,
        author: Author,
        wall_ms: int,
        undo: dict[str, Znode | None],
        events: list[WatchEvent],
    ) -> str:
        acl = _complete(op.path, author.acls.get(position, ANYONE_ALL), author.identities)
        parent_path, name = _split(op.path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            raise NoNode(op.path)
        self._check(parent_path, Permission.CREATE, author)
        if op.sequential:
            name += f"{parent.creations:010d}"
        path = f"{parent_path.rstrip('/')}/{name}"
        if path in self._nodes:
            raise NodeExists(path)
        if parent.ephemeral_owner:
            raise CoordinationError(f"{path}: ephemeral nodes have no children")
        self._remember(parent_path, undo)
        self._remember(path, undo)
        owner = author.session_id if op.ephemeral else 0
        self._nodes[path] = Znode(op.data, self.zxid, self.zxid, wall_ms, wall_ms, owner, acl=acl)
        parent.creations += 1
        parent.children[name] = None
        events.append(WatchEvent(WatchKind.CREATED, path))
        events.append(WatchEvent(WatchKind.CHILDREN, parent_path))
        return path

    def _set(
        self, op: SetOp, wall_ms: int, undo: dict[str, Znode | None], events: list[WatchEvent]
    ) -> ZnodeStat:
        node = self._find(op.path)
        _check_version(op.path, node, op.version)
        self._remember(op.path, undo)
        node.data = op.data
        node.version += 1
        node.mzxid = self.zxid
        node.mtime_ms = wall_ms
        events.append(WatchEvent(WatchKind.CHANGED, op.path))
        return node.stat()

    def _delete(
        self, op: DeleteOp, undo: dict[str, Znode | None], events: list[WatchEvent]
    ) -> None:
        node = self._find(op.path)
        if op.path == "/":
            raise CoordinationError("/: the root stays")
        _check_version(op.path, node, op.version)
        if node.children:
            raise NotEmpty(op.path)
        parent_path, name = _split(op.path)
        self._remember(parent_path, undo)
        self._remember(op.path, undo)
        del self._nodes[op.path]
        del self._nodes[parent_path].children[name]
        events.append(WatchEvent(WatchKind.DELETED, op.path))
        events.append(WatchEvent(WatchKind.CHILDREN, parent_path))

    # ------------------------------------------------------------------------------- undoing

    def _remember(self, path: str, undo: dict[str, Znode | None]) -> None:
        if path not in undo:
            node = self._nodes.get(path)
            undo[path] = None if node is None else node.copy()

    def _roll_back(self, undo: dict[str, Znode | None]) -> None:
        for path, node in undo.items():
            if node is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = node

    def _find(self, path: str) -> Znode:
        _check_path(path)
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node


def _failed(
    ops: Sequence[CoordinationOp], failed_at: int, error: CoordinationError
) -> list[OpResult]:
    return [error if i == failed_at else RolledBack(op.path) for i, op in enumerate(ops)]


def _check_access(
    path: str, node: Znode, needed: Permission, identities: Sequence[tuple[str, str]]
) -> None:
    """Raise NoAuth unless an entry has one of the needed permissions for one of the identities."""
    if not any(
        entry.permissions & needed and (entry.scheme, entry.identity) in identities
        for entry in node.acl
    ):
        raise NoAuth(path)


def _complete(path: str, acl: ZnodeAcl, identities: Sequence[tuple[str, str]]) -> ZnodeAcl:
    """Put the identities in the place of the scheme ``auth``. Raises InvalidAcl if there are
    none."""
    known = [each for each in identities if each != ANYBODY]
    entries: list[ZnodeAclEntry] = []
    for entry in acl:
        if entry.scheme == "auth":
            if not known:
                raise InvalidAcl(path)
            entries += [ZnodeAclEntry(entry.permissions, *identity) for identity in known]
        else:
            entries.append(entry)
    return tuple(entries)


def _check_version(path: str, node: Znode, version: int) -> None:
    if version not in (-1, node.version):
        raise BadVersion(path)


def _check_path(path: str) -> None:
    if path == "/":
        return
    if not path.startswith("/") or path.endswith("/") or "//" in path or "\0" in path:
        raise CoordinationError(f"{path!r} is not a path")


def _split(path: str) -> tuple[str, str]:
    parent_path, _, name = path.rpartition("/")
    return parent_path or "/", name
