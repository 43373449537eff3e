"""Znodes of ACLs, and of the notifications that they have changed.

Names of resources stand in the paths as they are. ``/`` and what ZooKeeper does not allow in a path
cannot be stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeVar

from minikafka.core.security.acls import (
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.znodes.json_form import Fields, encode_json

ACL_VERSION: Final = 1
NOTICE_VERSION: Final = 1
_ROOTS: Final[Mapping[PatternType, str]] = MappingProxyType(
    {PatternType.LITERAL: paths.ACLS, PatternType.PREFIXED: paths.PREFIXED_ACLS}
)
# What ZooKeeper refuses in a path (its ``PathUtils``), and the separator.
_NOT_IN_PATHS = re.compile(r"[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")

C = TypeVar("C", bound=IntEnum)


def name_is_storable(name: str) -> bool:
    """Whether a resource of this name may have a znode."""
    return bool(name) and name not in (".", "..") and _NOT_IN_PATHS.search(name) is None


def acl_root(pattern_type: PatternType) -> str:
    """Return the path whose children are the resource types."""
    return _ROOTS[pattern_type]


def acl_path(pattern: ResourcePattern) -> str:
    root = _ROOTS[pattern.pattern_type]
    return f"{root}/{pattern.resource_type.pascal_name}/{pattern.name}"


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    rows = [
        {
            "principal": entry.principal,
            "permissionType": entry.permission.pascal_name,
            "host": entry.host,
            "operation": entry.operation.pascal_name,
        }
        for entry in sorted(entries)
    ]
    return encode_json({"acls": rows, "version": ACL_VERSION})


def decode_acls(path: str, data: bytes) -> frozenset[AclEntry]:
    """Return the entries. As in Kafka, an operation or permission that is not known is UNKNOWN, and
    matches nothing. Raises ``MalformedZnode``."""
    if not data:
        return frozenset()
    fields = Fields(path, data)
    version = fields.integer("version")
    if version != ACL_VERSION:
        raise fields.broken(f"version {version} is not supported")
    return frozenset(_entry(row) for row in fields.objects("acls"))


def _entry(row: Fields) -> AclEntry:
    principal = row.text("principal")
    if ":" not in principal:
        raise row.broken(f"principal {principal!r} is not type:name")
    return AclEntry(
        principal,
        row.text("host"),
        _named(AclOperation, row.text("operation")),
        _named(PermissionType, row.text("permissionType")),
    )


def _named(kind: type[C], text: str) -> C:
    """Return the code of this name, in any case and without underscores; UNKNOWN if there is
    none."""
    wanted = text.lower()
    names = {name.lower().replace("_", ""): name for name in kind.__members__}
    return kind[names.get(wanted, "UNKNOWN")]


def resource_type_of(name: str) -> AclResourceType | None:
    """Return the type whose patterns are the children of a znode; None for any other name."""
    found = {kind.pascal_name: kind for kind in AclResourceType if kind.is_definite}
    return found.get(name)


def notice_prefix(pattern_type: PatternType) -> str:
    """Return the path of the sequential znode that notifies of a change."""
    if pattern_type is PatternType.LITERAL:
        return paths.ACL_CHANGE_PREFIX
    return paths.PREFIXED_ACL_CHANGE_PREFIX


def encode_notice(pattern: ResourcePattern) -> bytes:
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{pattern.resource_type.name}:{pattern.name}".encode()
    return encode_json(
        {
            "version": NOTICE_VERSION,
            "resourceType": pattern.resource_type.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_notice(path: str, data: bytes) -> ResourcePattern:
    """Return the pattern whose ACLs have changed; ``path`` says in which form. Raises
    ``MalformedZnode``."""
    if path.startswith(f"{paths.ACL_CHANGES}/"):
        kind, colon, name = data.decode("utf-8", "replace").partition(":")
        pattern_name = PatternType.LITERAL.name
        if not colon:
            raise MalformedZnode(path, data, "not type:name")
    else:
        fields = Fields(path, data)
        version = fields.integer("version")
        if version > NOTICE_VERSION:
            raise fields.broken(f"version {version} is not supported")
        kind, name = fields.text("resourceType"), fields.text("name")
        pattern_name = fields.text("patternType")
    types, patterns = AclResourceType.__members__, PatternType.__members__
    if kind.upper() not in types or not types[kind.upper()].is_definite:
        raise MalformedZnode(path, data, "not a resource type")
    if pattern_name.upper() not in patterns or not patterns[pattern_name.upper()].is_definite:
        raise MalformedZnode(path, data, "not a pattern type")
    if not name_is_storable(name):
        raise MalformedZnode(path, data, "not the name of a resource")
    return ResourcePattern(types[kind.upper()], name, patterns[pattern_name.upper()])
