"""The ACLs that a broker knows, and the decisions that follow from them.

Kafka's ``AclAuthorizer`` decides in this order:

1. A super user may do everything.
2. The entries of all prefixed patterns that the name begins with, of the literal pattern ``*`` and
   of the literal name are collected. If there is none at all, for whomever,
   ``allow.everyone.if.no.acl.found`` decides.
3. If a Deny matches, the answer is no. Otherwise, if an Allow matches, it is yes. Otherwise it is
   no. Longer prefixes do not outrank shorter ones.

An entry matches if its principal is the client's or ``User:*``, its host is the client's or ``*``,
and its operation is the requested one or ALL. An Allow of READ, WRITE, DELETE or ALTER also allows
DESCRIBE, and an Allow of ALTER_CONFIGS also DESCRIBE_CONFIGS; a Deny implies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final, NamedTuple, TypeAlias

from minikafka.core.security.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
    VersionedAcls,
    allowing,
)
from minikafka.kernel.lazy_dataclass import dataclass

# Decisions are kept until an ACL changes, so many at most, for names that topics may have.
MAX_DECISIONS: Final = 20_000
LONGEST_KEPT_NAME: Final = 249


class Decision(NamedTuple):
    """``entry`` is the ACL that decides; None if none matches. ``found`` is false if the resource
    has no ACL at all."""

    allowed: bool
    entry: AclEntry | None = None
    found: bool = True


class Explanation(NamedTuple):
    """A decision with all bindings that match the client and the operation. Denies come first, and
    the first binding is the one that decides."""

    decision: Decision
    matching: tuple[AclBinding, ...]


@dataclass(frozen=True, slots=True)
class AclRules:
    """Kafka's ``super.users`` (``Type:name`` texts) and ``allow.everyone.if.no.acl.found``."""

    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False


class _ResourceAcls:
    """The entries of one pattern, by principal: a resource may have thousands of users."""

    __slots__ = ("by_principal", "pattern", "stored")

    def __init__(self, pattern: ResourcePattern, stored: VersionedAcls) -> None:
        self.pattern = pattern
        self.stored = stored
        self.by_principal: dict[str, list[AclEntry]] = {}
        for entry in sorted(stored.entries):
            self.by_principal.setdefault(entry.principal, []).append(entry)


@dataclass(slots=True)
class _TypeAcls:
    """The patterns of one resource type. ``lengths`` counts the prefixes of each length: a name is
    looked up once for each length that occurs, whatever the number of patterns."""

    literal: dict[str, _ResourceAcls] = field(default_factory=dict)
    prefixed: dict[str, _ResourceAcls] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)

    def affecting(self, name: str) -> Iterator[_ResourceAcls]:
        for length in self.lengths:
            if length <= len(name):
                found = self.prefixed.get(name[:length])
                if found is not None:
                    yield found
        found = self.literal.get(WILDCARD)
        if found is not None:
            yield found
        if name != WILDCARD:
            found = self.literal.get(name)
            if found is not None:
                yield found


# Principal, host, operation, permission, type of the resource and of the pattern.
_NamesKey: TypeAlias = tuple[str, str, AclOperation, PermissionType, AclResourceType, PatternType]


class AclCache:
    """All ACLs of a cluster. It has one writer, and changes one resource at a time."""

    def __init__(self, rules: AclRules) -> None:
        self.rules = rules
        self._types: dict[AclResourceType, _TypeAcls] = {
            kind: _TypeAcls() for kind in AclResourceType
        }
        # The names of the patterns that have an entry, for decisions about any resource of a type.
        self._names: dict[_NamesKey, set[str]] = {}
        self._decisions: dict[tuple[str, str, AclOperation, AclResourceType, str], Decision] = {}
        self._any: dict[tuple[str, str, AclOperation, AclResourceType], bool] = {}

    # ------------------------------------------------------------------------------------ contents

    def stored(self, pattern: ResourcePattern) -> VersionedAcls | None:
        """Return the entries of a pattern and their version; None if it has no entries here."""
        found = self._patterns(pattern).get(pattern.name)
        return None if found is None else found.stored

    def patterns(self) -> list[ResourcePattern]:
        """Return the patterns with entries, in Kafka's order of types and pattern types."""
        return [
            ResourcePattern(kind, name, pattern_type)
            for kind, acls in self._types.items()
            for pattern_type, names in (
                (PatternType.LITERAL, acls.literal),
                (PatternType.PREFIXED, acls.prefixed),
            )
            for name in sorted(names, reverse=True)
        ]

    def bindings(self, selected: AclFilter, pattern: ResourcePattern) -> list[AclBinding]:
        """Return the bindings of a pattern that the filter selects."""
        stored = self.stored(pattern)
        if stored is None or not selected.pattern.matches(pattern):
            return []
        entries = sorted(entry for entry in stored.entries if selected.entry.matches(entry))
        return [AclBinding(pattern, entry) for entry in entries]

    def put(self, pattern: ResourcePattern, acls: VersionedAcls) -> None:
        """Replace the entries of a pattern; without entries the pattern is removed."""
        assert pattern.pattern_type.is_definite, "filters are not stored"
        patterns = self._patterns(pattern)
        before = patterns.pop(pattern.name, None)
        if before is not None:
            self._forget_names(pattern, before.stored.entries)
            if pattern.pattern_type is PatternType.PREFIXED:
                self._count_length(pattern, -1)
        if acls.entries:
            patterns[pattern.name] = _ResourceAcls(pattern, acls)
            for entry in acls.entries:
                self._names.setdefault(_names_key(pattern, entry), set()).add(pattern.name)
            if pattern.pattern_type is PatternType.PREFIXED:
                self._count_length(pattern, 1)
        self._decisions.clear()
        self._any.clear()

    def _patterns(self, pattern: ResourcePattern) -> dict[str, _ResourceAcls]:
        acls = self._types[pattern.resource_type]
        return acls.literal if pattern.pattern_type is PatternType.LITERAL else acls.prefixed

    def _forget_names(self, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        for entry in entries:
            key = _names_key(pattern, entry)
            names = self._names[key]
            names.discard(pattern.name)
            if not names:
                del self._names[key]

    def _count_length(self, pattern: ResourcePattern, change: int) -> None:
        lengths = self._types[pattern.resource_type].lengths
        length = len(pattern.name)
        count = lengths.get(length, 0) + change
        if count:
            lengths[length] = count
        else:
            del lengths[length]

    # ----------------------------------------------------------------------------------- decisions

    def is_super_user(self, principal: str) -> bool:
        return principal in self.rules.super_users

    def decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> Decision:
        """Decide about one resource. Super users are not considered."""
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(principal, host, operation, resource_type, name)
            if len(name) <= LONGEST_KEPT_NAME:
                if len(self._decisions) >= MAX_DECISIONS:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def _decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> Decision:
        allow: AclEntry | None = None
        for binding in self._matching(principal, host, operation, resource_type, name):
            if binding.entry.permission is PermissionType.DENY:
                return Decision(False, binding.entry)
            allow = allow or binding.entry
        if allow is None and next(self._types[resource_type].affecting(name), None) is None:
            return Decision(self.rules.allow_everyone, found=False)
        return Decision(allow is not None, allow)

    def explain(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> Explanation:
        """Decide like ``decide``, and return the bindings from which the decision follows."""
        question = (principal, host, operation, resource_type, name)
        matching = sorted(
            self._matching(*question),
            key=lambda binding: binding.entry.permission is not PermissionType.DENY,
        )
        return Explanation(self._decide(*question), tuple(matching))

    def _matching(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> Iterator[AclBinding]:
        """Yield the Denies and Allows that match the client and the operation."""
        allowed_by = (AclOperation.ALL, *allowing(operation))
        for acls in self._types[resource_type].affecting(name):
            for who in dict.fromkeys((principal, WILDCARD_PRINCIPAL)):
                for entry in acls.by_principal.get(who, ()):
                    if entry.host not in (host, WILDCARD):
                        continue
                    if entry.permission is PermissionType.DENY:
                        matches = entry.operation in (operation, AclOperation.ALL)
                    else:
                        is_allow = entry.permission is PermissionType.ALLOW
                        matches = is_allow and entry.operation in allowed_by
                    if matches:
                        yield AclBinding(acls.pattern, entry)

    def decide_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether the principal may perform ``operation`` on some resource of the type
        (KIP-679). Implied operations do not count. Super users are not considered."""
        key = (principal, host, operation, resource_type)
        decision = self._any.get(key)
        if decision is None:
            if len(self._any) >= MAX_DECISIONS:
                self._any.clear()
            decision = self._any[key] = self._decide_any(*key)
        return decision

    def _decide_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        def names(permission: PermissionType, pattern_type: PatternType) -> list[set[str]]:
            return [
                found
                for who in (principal, WILDCARD_PRINCIPAL)
                for where in (host, WILDCARD)
                for what in (operation, AclOperation.ALL)
                if (
                    found := self._names.get(
                        (who, where, what, permission, resource_type, pattern_type)
                    )
                )
            ]

        denied = names(PermissionType.DENY, PatternType.LITERAL)
        if any(WILDCARD in found for found in denied):
            return False
        if self.rules.allow_everyone:
            return True
        denied_prefixes = names(PermissionType.DENY, PatternType.PREFIXED)

        def is_covered(name: str) -> bool:
            return any(
                name[:length] in found
                for found in denied_prefixes
                for length in range(1, len(name) + 1)
            )

        prefixes = names(PermissionType.ALLOW, PatternType.PREFIXED)
        if any(not is_covered(prefix) for found in prefixes for prefix in found):
            return True
        return any(
            name == WILDCARD
            or (not any(name in refused for refused in denied) and not is_covered(name))
            for found in names(PermissionType.ALLOW, PatternType.LITERAL)
            for name in found
        )


def _names_key(pattern: ResourcePattern, entry: AclEntry) -> _NamesKey:
    return (
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
        pattern.resource_type,
        pattern.pattern_type,
    )
