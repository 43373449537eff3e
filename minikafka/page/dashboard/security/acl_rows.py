"""ACLs as the page lists them, and the explanation of what they decide. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from minikafka.core.security.acl_cache import AclCache, AclRules, Explanation
from minikafka.core.security.acls import (
    CLUSTER_NAME,
    NO_ZNODE,
    SUPPORTED_OPERATIONS,
    AclBinding,
    AclEntry,
    AclOperation,
    AclResourceType,
    PermissionType,
    ResourcePattern,
    VersionedAcls,
)
from minikafka.kernel.principals import parse_principal

# The resources by the names of the options of `minikafka acls`.
RESOURCES: Final[Mapping[str, AclResourceType]] = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "cluster": AclResourceType.CLUSTER,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
    "user_principal": AclResourceType.USER,
}
_NAMES: Final = {kind: name for name, kind in RESOURCES.items()}


class Question(NamedTuple):
    """May ``principal`` (``Type:name``), coming from the address ``host``, do ``operation`` to the
    resource?"""

    principal: str
    host: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str


class Settings(NamedTuple):
    """Whether the broker's configuration names ``super.users`` and
    ``allow.everyone.if.no.acl.found``, whose values no response has; None: unknown."""

    super_users: bool | None = None
    allow_everyone: bool | None = None


def parse_question(given: Mapping[str, str]) -> Question:
    """Raises ValueError with a sentence."""
    resource = given.get("resource", "")
    kind = RESOURCES.get(resource)
    if kind is None:
        raise ValueError(f"resource needs one of {', '.join(RESOURCES)}.")
    operations = {each.pascal_name: each for each in SUPPORTED_OPERATIONS[kind]}
    operation = operations.get(given.get("operation", ""))
    if operation is None:
        raise ValueError(f"The operations of a {resource} are {', '.join(operations)}.")
    try:
        principal = str(parse_principal(given.get("principal", "").strip()))
    except ValueError:
        raise ValueError("principal needs TYPE:NAME, such as User:alice.") from None
    name = CLUSTER_NAME if kind is AclResourceType.CLUSTER else given.get("name", "").strip()
    if not name:
        raise ValueError(f"name the {resource.replace('_', ' ')}.")
    host = given.get("host", "").strip()
    if not host:
        raise ValueError("host needs the address from which the client connects.")
    return Question(principal, host, operation, kind, name)


def explained(bindings: Iterable[AclBinding], question: Question) -> Explanation:
    """Decide a question by the bindings as the broker's authorizer does, except for super users
    and for a resource without ACLs, which both are up to the brokers' settings."""
    cache = AclCache(AclRules())
    by_pattern: dict[ResourcePattern, set[AclEntry]] = {}
    for pattern, entry in bindings:
        by_pattern.setdefault(pattern, set()).add(entry)
    for pattern, entries in by_pattern.items():
        cache.put(pattern, VersionedAcls(frozenset(entries), NO_ZNODE))
    return cache.explain(*question)


def verdict(bindings: Iterable[AclBinding], question: Question, known: Settings) -> dict[str, Any]:
    """Return the answer for the page: ``allowed`` is None if a setting decides that cannot be read.
    ``rules`` are the ACLs that match, the deciding one first."""
    found = explained(bindings, question)
    allowed: bool | None = found.decision.allowed
    if not found.decision.found and known.allow_everyone is not False:
        allowed = None
    rows = [acl_row(binding) for binding in found.matching]
    return {
        "allowed": allowed,
        "why": _why(found, question, known),
        "rules": rows,
        "notes": _notes(known, allowed),
    }


def _why(found: Explanation, question: Question, known: Settings) -> str:
    what = f"{_NAMES[question.resource_type].replace('_', ' ')} {question.name}"
    if found.matching:
        pattern, entry = found.matching[0]
        rule = f"the rule on {resource_text(pattern)}"
        if entry.permission is PermissionType.DENY:
            return f"A Deny outranks every Allow, and {rule} denies it."
        implied = entry.operation not in (question.operation, AclOperation.ALL)
        implying = f" {question.operation.pascal_name} is implied." if implied else ""
        return f"No Deny matches, and {rule} allows {entry.operation.pascal_name}.{implying}"
    if found.decision.found:
        return f"There are rules on {what}, but none of them is for this client and operation."
    if known.allow_everyone is False:
        return (
            f"No rule is on {what}, and allow.everyone.if.no.acl.found is not set: its default "
            "refuses everybody."
        )
    return (
        f"No rule is on {what}: allow.everyone.if.no.acl.found decides, whose value brokers do not "
        "tell. Its default refuses everybody."
    )


def _notes(known: Settings, allowed: bool | None) -> list[str]:
    if allowed is True or known.super_users is False:
        return []
    told = "The setting is there, but brokers do not tell its value."
    unknown = "Over the protocol it is not known who they are."
    return [
        "super.users are allowed everything, whatever the rules say. "
        + (told if known.super_users else unknown)
    ]


def acl_row(binding: AclBinding) -> dict[str, str]:
    pattern, entry = binding
    kind = pattern.resource_type
    return {
        "resource": _NAMES.get(kind, kind.name.lower()),
        "name": pattern.name,
        "pattern": pattern.pattern_type.name.lower(),
        "permission": entry.permission.name.lower(),
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.pascal_name,
    }


def resource_text(pattern: ResourcePattern) -> str:
    kind = _NAMES.get(pattern.resource_type, pattern.resource_type.name.lower())
    if pattern.resource_type is AclResourceType.CLUSTER:
        return "the cluster"
    how = "prefix " if pattern.pattern_type.name == "PREFIXED" else ""
    return f"{kind.replace('_', ' ')} {how}{pattern.name}"


def selected(
    bindings: Iterable[AclBinding], principal: str, resource: str, name: str
) -> list[AclBinding]:
    """Return, sorted, the bindings whose principal and resource name contain these texts, in any
    case. ``resource`` names a type; empty: all."""
    kind = RESOURCES.get(resource)
    whose, what = principal.strip().lower(), name.strip().lower()
    return sorted(
        binding
        for binding in bindings
        if (kind is None or binding.pattern.resource_type is kind)
        and whose in binding.entry.principal.lower()
        and what in binding.pattern.name.lower()
    )
