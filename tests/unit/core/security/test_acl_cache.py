"""Decisions by ACLs: Kafka's rules one by one, and random ACLs beside a plain model of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.security import acl_cache
from minikafka.core.security.acl_cache import AclCache, AclRules
from minikafka.core.security.acls import (
    NO_ACLS,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclResourceType,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
    VersionedAcls,
)

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
Op = AclOperation
HOST = "10.0.0.1"


def entry(
    permission: PermissionType, operation: AclOperation, principal: str = "bob", host: str = "*"
) -> AclEntry:
    return AclEntry(f"User:{principal}", host, operation, permission)


def cache_of(
    acls: Iterable[tuple[PatternType, str, AclEntry]], rules: AclRules | None = None
) -> AclCache:
    cache = AclCache(rules or AclRules())
    for kind, name, added in acls:
        pattern = ResourcePattern(TOPIC, name, kind)
        before = cache.stored(pattern) or NO_ACLS
        cache.put(pattern, VersionedAcls(before.entries | {added}, before.version + 1))
    return cache


def bob_may(cache: AclCache, operation: AclOperation, name: str = "ab", host: str = HOST) -> bool:
    return cache.decide("User:bob", host, operation, TOPIC, name).allowed


@pytest.mark.mission("SEC-132")
class TestKafkasRules:
    def test_a_deny_on_a_prefix_wins_over_an_allow_on_the_name(self) -> None:
        cache = cache_of(
            [(PREFIXED, "a", entry(DENY, Op.READ)), (LITERAL, "ab", entry(ALLOW, Op.READ))]
        )
        assert not bob_may(cache, Op.READ)
        assert not bob_may(cache, Op.READ, "ac"), "no Allow"

    def test_a_deny_of_read_leaves_describe(self) -> None:
        cache = cache_of(
            [(LITERAL, "ab", entry(ALLOW, Op.ALL)), (LITERAL, "ab", entry(DENY, Op.READ))]
        )
        assert [bob_may(cache, op) for op in (Op.READ, Op.WRITE, Op.DESCRIBE)] == [
            False,
            True,
            True,
        ]

    def test_allows_imply_describe_and_denies_imply_nothing(self) -> None:
        for operation in (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER, Op.DESCRIBE, Op.ALL):
            assert bob_may(cache_of([(LITERAL, "ab", entry(ALLOW, operation))]), Op.DESCRIBE)
        for operation in (Op.CREATE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS):
            assert not bob_may(cache_of([(LITERAL, "ab", entry(ALLOW, operation))]), Op.DESCRIBE)
        configs = cache_of([(LITERAL, "ab", entry(ALLOW, Op.ALTER_CONFIGS))])
        assert bob_may(configs, Op.DESCRIBE_CONFIGS)
        denied = cache_of(
            [(LITERAL, "ab", entry(ALLOW, Op.READ)), (LITERAL, "ab", entry(DENY, Op.DESCRIBE))]
        )
        assert bob_may(denied, Op.READ)
        assert not bob_may(denied, Op.DESCRIBE)

    @pytest.mark.parametrize("everyone", [False, True])
    def test_a_resource_without_acls_is_open_or_closed(self, everyone: bool) -> None:
        rules = AclRules(allow_everyone=everyone)
        assert bob_may(cache_of([], rules), Op.READ) is everyone
        of_another = [(LITERAL, "ab", entry(ALLOW, Op.READ, "eve"))]
        assert not bob_may(cache_of(of_another, rules), Op.READ)
        assert bob_may(cache_of(of_another, rules), Op.READ, "other") is everyone
        of_all_names = [(LITERAL, "*", entry(ALLOW, Op.READ, "eve"))]
        assert not bob_may(cache_of(of_all_names, rules), Op.READ, "other")

    def test_hosts_are_compared_as_text(self) -> None:
        cache = cache_of(
            [
                (LITERAL, "*", entry(ALLOW, Op.READ)),
                (LITERAL, "ab", entry(DENY, Op.ALL, host="127.0.0.1")),
                (LITERAL, "ab", entry(DENY, Op.ALL, "*", host="0:0:0:0:0:0:0:1")),
            ]
        )
        assert bob_may(cache, Op.READ)
        assert not bob_may(cache, Op.READ, host="127.0.0.1")
        assert not bob_may(cache, Op.READ, host="0:0:0:0:0:0:0:1")

    def test_a_star_in_a_prefix_is_only_a_star(self) -> None:
        cache = cache_of([(PREFIXED, "*", entry(ALLOW, Op.READ))])
        assert not bob_may(cache, Op.READ)
        assert bob_may(cache, Op.READ, "*b")

    def test_the_wildcard_is_of_type_user(self) -> None:
        cache = cache_of([(LITERAL, "ab", entry(ALLOW, Op.READ, "*"))])
        assert bob_may(cache, Op.READ)
        assert cache.decide("Role:x", HOST, Op.READ, TOPIC, "ab").allowed

    def test_unknown_operations_and_permissions_match_nothing_and_are_acls(self) -> None:
        cache = cache_of(
            [
                (LITERAL, "ab", entry(ALLOW, Op.UNKNOWN)),
                (LITERAL, "ab", entry(PermissionType.UNKNOWN, Op.ALL)),
            ],
            AclRules(allow_everyone=True),
        )
        assert not bob_may(cache, Op.READ)


def test_a_decision_is_not_kept_beyond_a_change() -> None:
    cache = cache_of([(LITERAL, "ab", entry(ALLOW, Op.READ))])
    assert bob_may(cache, Op.READ)
    assert cache.decide_any("User:bob", HOST, Op.READ, TOPIC)
    cache.put(ResourcePattern(TOPIC, "ab"), NO_ACLS)
    assert not bob_may(cache, Op.READ)
    assert not cache.decide_any("User:bob", HOST, Op.READ, TOPIC)
    assert cache.patterns() == []


def test_kept_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_cache, "MAX_DECISIONS", 8)
    cache = cache_of([(PREFIXED, "a", entry(ALLOW, Op.READ))])
    for number in range(100):
        assert bob_may(cache, Op.READ, f"a{number}")
        assert cache.decide_any(f"User:{number}", HOST, Op.READ, TOPIC) is False
    assert bob_may(cache, Op.READ, "a" * 40_000)
    assert len(cache._decisions) <= 8
    assert len(cache._any) <= 8
    assert max(len(key[-1]) for key in cache._decisions) <= acl_cache.LONGEST_KEPT_NAME


# ------------------------------------------------------------------------------- beside a model

NAMES = ["*", "a", "ab", "abc", "b", "ba"]
PRINCIPALS = ["User:bob", "User:eve", "User:*", "Role:bob"]
HOSTS = ["*", HOST, "10.0.0.2"]
OPERATIONS = [Op.ALL, Op.READ, Op.WRITE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS]
Acl = tuple[ResourcePattern, AclEntry]

acls = st.tuples(
    st.builds(
        ResourcePattern,
        st.sampled_from([TOPIC, GROUP]),
        st.sampled_from(NAMES),
        st.sampled_from([LITERAL, PREFIXED]),
    ),
    st.builds(
        AclEntry,
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from(OPERATIONS),
        st.sampled_from([ALLOW, DENY]),
    ),
)
questions = st.tuples(
    st.sampled_from([*PRINCIPALS, "User:new"]),
    st.sampled_from(HOSTS[1:]),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from([*NAMES, "abcd", "c"]),
)
Question = tuple[str, str, AclOperation, AclResourceType, str]


def affects(pattern: ResourcePattern, kind: AclResourceType, name: str) -> bool:
    if pattern.resource_type is not kind:
        return False
    if pattern.pattern_type is PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in ("*", name)


def model(stored: set[Acl], everyone: bool, question: Question) -> bool:
    principal, host, operation, kind, name = question
    relevant = [acl for pattern, acl in stored if affects(pattern, kind, name)]
    if not relevant:
        return everyone
    mine = [
        acl
        for acl in relevant
        if acl.principal in (principal, "User:*") and acl.host in (host, "*")
    ]
    implied = {
        Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER},
        Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS},
    }.get(operation, set())
    if any(acl.permission is DENY and acl.operation in (operation, Op.ALL) for acl in mine):
        return False
    return any(
        acl.permission is ALLOW and acl.operation in {operation, Op.ALL, *implied} for acl in mine
    )


def model_of_any(stored: set[Acl], everyone: bool, question: Question) -> bool:
    """Kafka's ``authorizeByResourceType``, read off its description: an Allow counts unless a Deny
    covers its whole pattern."""
    principal, host, operation, kind, _ = question
    mine = [
        (pattern, acl.permission)
        for pattern, acl in stored
        if pattern.resource_type is kind
        and acl.principal in (principal, "User:*")
        and acl.host in (host, "*")
        and acl.operation in (operation, Op.ALL)
    ]
    denied = [pattern for pattern, permission in mine if permission is DENY]
    if any(pattern[1:] == ("*", LITERAL) for pattern in denied):
        return False
    if everyone:
        return True

    def covered(pattern: ResourcePattern) -> bool:
        if pattern[1:] == ("*", LITERAL):
            return False
        prefixed = any(
            d.pattern_type is PREFIXED and pattern.name.startswith(d.name) for d in denied
        )
        return prefixed or (pattern.pattern_type is LITERAL and pattern in denied)

    return any(permission is ALLOW and not covered(pattern) for pattern, permission in mine)


@pytest.mark.mission("SEC-131")
@settings(max_examples=400, deadline=None)
@given(
    st.lists(acls, max_size=12),
    st.lists(st.one_of(acls, questions), min_size=1, max_size=25),
    st.booleans(),
)
def test_random_decisions_are_those_of_the_model(
    at_first: list[Acl], steps: list[Acl | Question], everyone: bool
) -> None:
    """ACLs come and go between questions: a step with an ACL adds it, or removes it if it is
    there."""
    cache = AclCache(AclRules(allow_everyone=everyone))
    stored: set[Acl] = set()

    def turn(pattern: ResourcePattern, added: AclEntry) -> None:
        stored.symmetric_difference_update({(pattern, added)})
        entries = frozenset(acl for where, acl in stored if where == pattern)
        cache.put(pattern, VersionedAcls(entries, 0))

    for pattern, added in at_first:
        turn(pattern, added)
    for step in steps:
        if len(step) == 2:
            turn(*step)
            continue
        for _ in range(2):  # computed, and as it was kept
            assert cache.decide(*step).allowed == model(stored, everyone, step)
            assert cache.decide_any(*step[:4]) == model_of_any(stored, everyone, step)
    assert set(cache.patterns()) == {pattern for pattern, _ in stored}


FILTER_TYPES = [PatternType.ANY, PatternType.MATCH, LITERAL, PREFIXED]


@pytest.mark.mission("SEC-129")
@settings(max_examples=200, deadline=None)
@given(
    st.lists(acls, max_size=12),
    st.sampled_from([AclResourceType.ANY, TOPIC, GROUP]),
    st.sampled_from([None, *NAMES, "abcd"]),
    st.sampled_from(FILTER_TYPES),
    st.sampled_from([None, *PRINCIPALS]),
    st.sampled_from([Op.ANY, *OPERATIONS]),
)
def test_a_filter_selects_as_kafkas_does(
    given_acls: list[Acl],
    kind: AclResourceType,
    name: str | None,
    pattern_type: PatternType,
    principal: str | None,
    operation: AclOperation,
) -> None:
    cache = AclCache(AclRules())
    for pattern, added in given_acls:
        before = cache.stored(pattern) or NO_ACLS
        cache.put(pattern, VersionedAcls(before.entries | {added}, 0))
    selected = AclFilter(
        PatternFilter(kind, name, pattern_type),
        EntryFilter(principal, None, operation, PermissionType.ANY),
    )

    def expected(pattern: ResourcePattern, acl: AclEntry) -> bool:
        if kind not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if pattern_type is PatternType.MATCH:
            matches = name is None or affects(pattern, pattern.resource_type, name)
        else:
            matches = pattern_type in (PatternType.ANY, pattern.pattern_type) and name in (
                None,
                pattern.name,
            )
        return (
            matches and principal in (None, acl.principal) and operation in (Op.ANY, acl.operation)
        )

    found = {b for pattern in cache.patterns() for b in cache.bindings(selected, pattern)}
    assert found == {AclBinding(*acl) for acl in set(given_acls) if expected(*acl)}
    assert all(selected.matches(binding) for binding in found)
    named = selected.pattern.named()
    assert not named or {binding.pattern for binding in found} <= set(named)


@pytest.mark.mission("GLASS-130")
@settings(max_examples=300, deadline=None)
@given(st.sets(acls, max_size=8), questions, st.booleans())
def test_an_explanation_has_all_rules_that_match_and_the_one_that_decides(
    stored: set[Acl], question: Question, everyone: bool
) -> None:
    _, _, operation, kind, name = question
    cache = AclCache(AclRules(allow_everyone=everyone))
    for pattern in {pattern for pattern, _ in stored}:
        entries = frozenset(acl for of, acl in stored if of == pattern)
        cache.put(pattern, VersionedAcls(entries, 0))
    found = cache.explain(*question)
    assert found.decision == cache.decide(*question)
    assert found.decision.allowed is model(stored, everyone, question)
    # A rule matches exactly if it alone denies what another one allows, or allows it by itself.
    anybody = (ResourcePattern(kind, name), AclEntry("User:*", "*", operation, ALLOW))
    expected = {
        AclBinding(*acl)
        for acl in stored
        if (
            not model({acl, anybody}, False, question)
            if acl[1].permission is DENY
            else model({acl}, False, question)
        )
    }
    assert set(found.matching) == expected
    assert len(found.matching) == len(expected)
    permissions = [binding.entry.permission for binding in found.matching]
    assert permissions == sorted(permissions)  # DENY is less than ALLOW
    assert found.decision.entry == (found.matching[0].entry if found.matching else None)
