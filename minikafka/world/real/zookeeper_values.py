"""Translation between kazoo's values and errors and those of the Coordination port."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kazoo import exceptions
from kazoo.protocol.serialization import SetData
from kazoo.protocol.states import EventType, KazooState
from kazoo.security import ACL, Id

from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    ConnectionLost,
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
    SessionExpired,
    SessionState,
    WatchKind,
    ZnodeStat,
)
from minikafka.kernel.zookeeper_security import Permission, ZnodeAcl, ZnodeAclEntry


class Unimplemented(CoordinationError):
    """The server is too old to support the operation."""


STATES: Mapping[str, SessionState] = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}

WATCH_KINDS: Mapping[str, WatchKind] = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}

ERRORS: Sequence[tuple[type[Exception], type[CoordinationError]]] = (
    (exceptions.NoNodeError, NoNode),
    (exceptions.NodeExistsError, NodeExists),
    (exceptions.BadVersionError, BadVersion),
    (exceptions.NotEmptyError, NotEmpty),
    (exceptions.NoAuthError, NoAuth),
    (exceptions.InvalidACLError, InvalidAcl),
    (exceptions.RolledBackError, RolledBack),
    (exceptions.RuntimeInconsistency, RolledBack),
    (exceptions.SessionExpiredError, SessionExpired),
    (exceptions.ConnectionLoss, ConnectionLost),
    (exceptions.OperationTimeoutError, ConnectionLost),
    (exceptions.RequestTimeoutError, ConnectionLost),
    (exceptions.SessionMovedError, ConnectionLost),
    (exceptions.UnimplementedError, Unimplemented),
)


def port_error(error: Exception, path: str) -> CoordinationError:
    """Translate an error of kazoo. One without a class in the port becomes a plain
    ``CoordinationError``."""
    for theirs, ours in ERRORS:
        if isinstance(error, theirs):
            return ours(path)
    return CoordinationError(f"{path}: {error!r}")


def port_stat(stat: Any) -> ZnodeStat:
    return ZnodeStat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        num_children=stat.numChildren,
    )


def read_results(
    paths: Sequence[str], results: Sequence[Any]
) -> list[tuple[bytes, ZnodeStat] | None]:
    """Return one result of a read, None if the znode does not exist. Raises any other
    ``CoordinationError``."""
    return [_read_result(path, result) for path, result in zip(paths, results, strict=True)]


def _read_result(path: str, result: Any) -> tuple[bytes, ZnodeStat] | None:
    if isinstance(result, exceptions.NoNodeError):
        return None
    if isinstance(result, Exception):
        raise port_error(result, path)
    data, stat = result
    return data or b"", port_stat(stat)


@lru_cache(maxsize=16)  # a broker uses three
def kazoo_acl(acl: ZnodeAcl) -> list[ACL]:
    return [ACL(int(e.permissions), Id(e.scheme, e.identity)) for e in acl]


def port_acl(acl: Sequence[ACL]) -> ZnodeAcl:
    return tuple(ZnodeAclEntry(Permission(e.perms), e.id.scheme, e.id.id) for e in acl)


def add_operation(transaction: Any, op: CoordinationOp, acl_of: Callable[[str], ZnodeAcl]) -> None:
    """Add an operation to a kazoo transaction. Sets bypass kazoo's own method, which normalizes the
    path again: a dead broker causes thousands of sets, and that would cost more than the rest."""
    if isinstance(op, CreateOp):
        acl = kazoo_acl(acl_of(op.path))
        transaction.create(op.path, op.data, acl, op.ephemeral, op.sequential)
        if not op.data:  # null, as Java's clients make bare nodes
            transaction.operations[-1] = transaction.operations[-1]._replace(data=None)
    elif isinstance(op, DeleteOp):
        transaction.delete(op.path, op.version)
    elif isinstance(op, CheckOp):
        transaction.check(op.path, op.version)
    else:
        path = transaction.client.chroot + op.path
        transaction.operations.append(SetData(path, op.data, op.version))


def op_results(ops: Sequence[CoordinationOp], results: Sequence[Any]) -> list[OpResult]:
    return [_op_result(op, result) for op, result in zip(ops, results, strict=True)]


def _op_result(op: CoordinationOp, result: Any) -> OpResult:
    if isinstance(result, Exception):
        return port_error(result, op.path)
    if isinstance(op, CreateOp):
        path: str = result
        return path
    if isinstance(op, DeleteOp | CheckOp):
        return None
    return port_stat(result)
