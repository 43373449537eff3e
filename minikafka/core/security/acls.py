"""ACLs: operations, resource patterns, entries, and the filters that select them.

The codes are those of Kafka's protocol. The names in znodes and in the audit log are those of
Kafka's ``SecurityUtils``: ``TransactionalId``, ``AlterConfigs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class _Code(IntEnum):
    """A code of the protocol that znodes and logs write in Pascal case. A number that is not known
    is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> _Code | None:
        return cls["UNKNOWN"] if isinstance(value, int) else None

    @property
    def pascal_name(self) -> str:
        return self.name.title().replace("_", "")

    @property
    def is_definite(self) -> bool:
        """Whether an entry or a pattern may have this code: it is not UNKNOWN, ANY or MATCH."""
        return self.name not in ("UNKNOWN", "ANY", "MATCH")


class AclResourceType(_Code):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the name of a pattern is compared. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """An operation; it is bit ``1 << code`` of a field of authorized operations (KIP-430)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class PermissionType(_Code):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES: Final = tuple(kind for kind in AclResourceType if kind.is_definite)
CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"
NO_ZNODE: Final = -1  # the version of a resource without ACLs

# The operations that a resource of each type has (Kafka's ``AclEntry.supportedOperations``).
SUPPORTED_OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        AclResourceType.TOPIC: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        AclResourceType.GROUP: (
            AclOperation.READ,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        AclResourceType.CLUSTER: (
            AclOperation.CREATE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
        ),
        AclResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE),
        AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
        AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
    }
)

_ALLOWING: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        AclOperation.DESCRIBE: (
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        ),
        AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    }
)


def allowing(operation: AclOperation) -> tuple[AclOperation, ...]:
    """Return the operations of which an Allow also allows ``operation``; ALL is not among them."""
    return _ALLOWING.get(operation) or (operation,)


def bit_field(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


class ResourcePattern(NamedTuple):
    """A resource, or with PREFIXED all resources whose names begin so."""

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        """Return the form of the audit log: ``Topic:LITERAL:flights``."""
        return f"{self.resource_type.pascal_name}:{self.pattern_type.name}:{self.name}"


CLUSTER: Final = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME)


class AclEntry(NamedTuple):
    """Who may, or must not, do what from where. ``principal`` is ``Type:name``; ``host`` is an
    address as Java writes it, or ``*``."""

    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType

    def __str__(self) -> str:
        return (
            f"{self.principal} has {self.permission.name} permission for operations: "
            f"{self.operation.name} from hosts: {self.host}"
        )


class AclBinding(NamedTuple):
    """An entry of a resource pattern."""

    pattern: ResourcePattern
    entry: AclEntry


class VersionedAcls(NamedTuple):
    """The entries of one resource pattern, and the version of their znode."""

    entries: frozenset[AclEntry]
    version: int


NO_ACLS: Final = VersionedAcls(frozenset(), NO_ZNODE)


class PatternFilter(NamedTuple):
    """Selects patterns. A ``name`` of None selects all names. With MATCH it selects the patterns
    that affect the resource ``name``."""

    resource_type: AclResourceType
    name: str | None
    pattern_type: PatternType

    def matches(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        kind = self.pattern_type
        if kind not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if kind is not PatternType.MATCH:
            return False
        if pattern.pattern_type is PatternType.LITERAL:
            return pattern.name == WILDCARD
        return self.name.startswith(pattern.name)

    def named(self) -> tuple[ResourcePattern, ...]:
        """Return the only patterns that can match; empty if the filter is not that definite."""
        if self.name is None or self.resource_type is AclResourceType.ANY:
            return ()
        kinds: tuple[PatternType, ...] = (self.pattern_type,)
        if self.pattern_type is PatternType.ANY:
            kinds = (PatternType.LITERAL, PatternType.PREFIXED)
        elif not self.pattern_type.is_definite:
            return ()
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in kinds)


class EntryFilter(NamedTuple):
    """Selects entries. None and ANY select all; ``*`` is compared as text."""

    principal: str | None
    host: str | None
    operation: AclOperation
    permission: PermissionType

    def matches(self, entry: AclEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (PermissionType.ANY, entry.permission)
        )


class AclFilter(NamedTuple):
    """Selects bindings."""

    pattern: PatternFilter
    entry: EntryFilter

    def matches(self, binding: AclBinding) -> bool:
        return self.pattern.matches(binding.pattern) and self.entry.matches(binding.entry)
