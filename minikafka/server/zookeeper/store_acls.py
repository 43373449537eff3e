"""Znodes of ACLs (Kafka's ``ZkAclStore``): reads, conditional writes, change notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.core.security.acls import (
    NO_ACLS,
    NO_ZNODE,
    RESOURCE_TYPES,
    PatternType,
    ResourcePattern,
    VersionedAcls,
)
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    BadVersion,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    SetOp,
    Watcher,
    ZnodeStat,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode, Requests, raise_error
from minikafka.server.zookeeper.znodes.acls import (
    acl_path,
    acl_root,
    decode_acls,
    decode_notice,
    encode_acls,
    encode_notice,
    notice_prefix,
    resource_type_of,
)

STORED_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_CHANGE_ROOTS: Final = (paths.ACL_CHANGES, paths.PREFIXED_ACL_CHANGES)


@dataclass(frozen=True, slots=True)
class AclNotice:
    """A change notification, by its path. ``pattern`` is None if it cannot be decoded."""

    name: str
    pattern: ResourcePattern | None
    created_ms: int


class ZkAclStore:
    """Reads and writes of ACLs. Any broker writes them; the version of a resource's znode decides
    between two that write at the same time."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def create_acl_paths(self) -> None:
        """Create the roots, and a znode for each resource type."""
        for root in _CHANGE_ROOTS:
            await self._requests.create_if_missing(root)
        for pattern_type in STORED_PATTERN_TYPES:
            for kind in RESOURCE_TYPES:
                path = f"{acl_root(pattern_type)}/{kind.pascal_name}"
                await self._requests.create_if_missing(path)

    async def acl_patterns(self) -> list[ResourcePattern]:
        """Return the patterns that have a znode. Types that are not known are left out."""
        found = []
        for pattern_type in STORED_PATTERN_TYPES:
            root = acl_root(pattern_type)
            for type_name in await self._requests.children(root):
                kind = resource_type_of(type_name)
                if kind is None:
                    event_log("authorizer").warning("resource_type_ignored", name=type_name)
                    continue
                names = await self._requests.children(f"{root}/{type_name}")
                found += [ResourcePattern(kind, name, pattern_type) for name in names]
        return found

    async def acls(self, patterns: Sequence[ResourcePattern]) -> list[VersionedAcls | None]:
        """Return the entries of each pattern, in order; None for a znode that cannot be decoded,
        which is logged."""
        found: list[VersionedAcls | None] = []
        async for pattern, node in self._requests.each(patterns, acl_path):
            if node is None:
                found.append(NO_ACLS)
                continue
            try:
                entries = decode_acls(acl_path(pattern), node[0])
            except MalformedZnode as error:
                event_log("authorizer").error(
                    "acls_not_read", resource=str(pattern), error=str(error)
                )
                found.append(None)
            else:
                found.append(VersionedAcls(entries, node[1].version))
        return found

    async def change_acls(
        self, pattern: ResourcePattern, acls: VersionedAcls, is_change: bool
    ) -> VersionedAcls:
        """Write the entries of a pattern over those of the version in ``acls``, and return them
        with their new version. Without entries the znode is deleted. If the entries ``is_change``
        differ from the stored ones, all brokers are notified, in the same multi. Raises
        BadVersion."""
        path, data = acl_path(pattern), encode_acls(acls.entries)
        ops: list[CoordinationOp] = []
        if acls.entries and acls.version == NO_ZNODE:
            ops.append(CreateOp(path, data))
        elif acls.entries:
            ops.append(SetOp(path, data, acls.version))
        elif acls.version != NO_ZNODE:
            ops.append(DeleteOp(path, acls.version))
        if is_change:
            prefix = notice_prefix(pattern.pattern_type)
            ops.append(CreateOp(prefix, encode_notice(pattern), sequential=True))
        if not ops:
            return NO_ACLS
        outcome = await self._requests.multi(ops)
        if isinstance(outcome.error, NoNode) and isinstance(ops[0], CreateOp):
            await self.create_acl_paths()  # somebody has deleted them
            outcome = await self._requests.multi(ops)
        if isinstance(outcome.error, NodeExists | NoNode):
            raise BadVersion(path)
        raise_error(outcome.results)
        if not acls.entries:
            return NO_ACLS
        written = outcome.results[0]
        return VersionedAcls(acls.entries, written.version if isinstance(written, ZnodeStat) else 0)

    async def acl_changes(self, watcher: Watcher | None = None) -> list[str]:
        """Return the paths of the change notifications of both kinds, each kind in its order."""
        found = []
        for root in _CHANGE_ROOTS:
            found += [f"{root}/{name}" for name in await self._requests.children(root, watcher)]
        return found

    async def acl_change_notices(self, names: Sequence[str]) -> list[AclNotice]:
        """Read these change notifications, in order; deleted ones are left out."""
        notices = []
        async for name, node in self._requests.each(names, str):
            if node is not None:
                notices.append(AclNotice(name, _noticed(name, node[0]), node[1].ctime_ms))
        return notices

    async def delete_acl_changes(self, names: Sequence[str]) -> None:
        """Delete old change notifications. Every broker does so, and some may be gone already."""
        await self._requests.delete_existing(names)


def _noticed(path: str, data: bytes) -> ResourcePattern | None:
    try:
        return decode_notice(path, data)
    except MalformedZnode as error:
        event_log("authorizer").error("acl_notice_not_read", error=str(error))
        return None
