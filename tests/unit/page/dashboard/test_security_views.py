"""ACLs, users, tokens and quotas as the page shows them, and why a principal may do something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.client.config import ClientConfig
from minikafka.core.client.admin.configs import DescribedQuota
from minikafka.core.client.admin.security import SecretToken
from minikafka.core.security.acl_cache import AclCache, AclRules
from minikafka.core.security.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
    VersionedAcls,
)
from minikafka.core.security.delegation_tokens import DelegationToken
from minikafka.kernel.principals import Principal
from minikafka.page.dashboard.security.acl_rows import (
    Question,
    Settings,
    acl_row,
    parse_question,
    selected,
    verdict,
)
from minikafka.page.dashboard.security.security_api import quota_rows, token_row
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.page_server import PageServer, page_server

TOPIC = AclResourceType.TOPIC
Op = AclOperation
QUESTION = {
    "principal": "User:bob",
    "host": "10.0.0.1",
    "operation": "Read",
    "resource": "topic",
    "name": "orders",
}
READ = parse_question(QUESTION)


def binding(
    permission: str,
    operation: AclOperation = Op.READ,
    name: str = "orders",
    pattern: str = "LITERAL",
    principal: str = "User:bob",
) -> AclBinding:
    return AclBinding(
        ResourcePattern(TOPIC, name, PatternType[pattern]),
        AclEntry(principal, "*", operation, PermissionType[permission]),
    )


def answer(*bindings: AclBinding, known: Settings | None = None) -> tuple[Any, str, list[Any]]:
    found = verdict(bindings, READ, known or Settings())
    return found["allowed"], found["why"], found["rules"]


@pytest.mark.mission("GLASS-132")
def test_the_rule_that_decides_is_named() -> None:
    allow = binding("ALLOW")
    deny = binding("DENY", Op.ALL, "ord", "PREFIXED", "User:*")
    allowed, why, rules = answer(allow)
    assert (allowed, rules) == (True, [acl_row(allow)])
    assert "the rule on topic orders allows Read" in why
    allowed, why, rules = answer(allow, deny)
    assert (allowed, rules) == (False, [acl_row(deny), acl_row(allow)])
    assert "A Deny outranks every Allow, and the rule on topic prefix ord denies it" in why
    allowed, why, rules = answer(binding("ALLOW", principal="User:eve"))
    assert (allowed, rules) == (False, [])
    assert "none of them is for this client and operation" in why


@pytest.mark.mission("GLASS-132")
def test_settings_that_no_response_has_are_said() -> None:
    assert answer()[0] is None
    assert "allow.everyone.if.no.acl.found decides" in answer()[1]
    assert answer(known=Settings(allow_everyone=True))[0] is None
    unset = verdict([], READ, Settings(super_users=False, allow_everyone=False))
    assert (unset["allowed"], unset["notes"]) == (False, [])
    assert "is not set" in unset["why"]
    denied = verdict([binding("DENY")], READ, Settings())
    assert "not known who they are" in denied["notes"][0]
    hidden = verdict([binding("DENY")], READ, Settings(super_users=True))
    assert "do not tell its value" in hidden["notes"][0]
    assert verdict([binding("ALLOW")], READ, Settings())["notes"] == []


bindings = st.builds(
    AclBinding,
    st.builds(
        ResourcePattern,
        st.just(TOPIC),
        st.sampled_from(["*", "o", "orders", "other"]),
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    ),
    st.builds(
        AclEntry,
        st.sampled_from(["User:bob", "User:eve", "User:*"]),
        st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
        st.sampled_from([Op.ALL, Op.READ, Op.WRITE, Op.DESCRIBE]),
        st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
    ),
)


@pytest.mark.mission("GLASS-130")
@settings(max_examples=200, deadline=None)
@given(st.lists(bindings, max_size=8, unique=True), st.sampled_from([Op.READ, Op.DESCRIBE]))
def test_the_verdict_is_that_of_the_brokers_authorizer(
    found: list[AclBinding], operation: AclOperation
) -> None:
    """The page knows only the rules that affect the resource; the authorizer has all of them."""
    question = READ._replace(operation=operation)
    cache = AclCache(AclRules())
    for pattern in {each.pattern for each in found}:
        entries = frozenset(each.entry for each in found if each.pattern == pattern)
        cache.put(pattern, VersionedAcls(entries, 0))
    decision = cache.decide(*question)
    requested = PatternFilter(TOPIC, "orders", PatternType.MATCH)
    affecting = [each for each in found if requested.matches(each.pattern)]
    shown = verdict(affecting, question, Settings(allow_everyone=False))
    assert shown["allowed"] is decision.allowed
    deciding = [shown["rules"][0]["permission"]] if shown["rules"] else []
    entry = decision.entry  # of several rules that would decide, the first one met
    assert deciding == ([] if entry is None else [entry.permission.name.lower()])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"resource": "disk"}, "resource needs one of topic, group"),
        ({"operation": "Fly"}, "The operations of a topic are Read, Write"),
        ({"principal": "bob"}, "principal needs TYPE:NAME"),
        ({"host": ""}, "host needs the address"),
        ({"name": " "}, "name the topic"),
    ],
)
def test_a_question_that_is_not_understood(changed: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_question({**QUESTION, **changed})
    cluster = {**QUESTION, "resource": "cluster", "operation": "Create", "name": ""}
    assert parse_question(cluster) == Question(
        "User:bob", "10.0.0.1", Op.CREATE, AclResourceType.CLUSTER, "kafka-cluster"
    )


def test_acls_are_selected_by_parts_of_their_texts() -> None:
    rows = [binding("ALLOW"), binding("DENY", name="invoices", principal="User:Eve")]
    assert selected(rows, "eve", "", "") == [rows[1]]
    assert selected(rows, "", "topic", "ORD") == [rows[0]]
    assert selected(rows, "", "group", "") == []
    assert selected(rows, "", "", "") == [rows[1], rows[0]]


@pytest.mark.mission("GLASS-131")
def test_a_token_is_shown_without_its_secret() -> None:
    bob, eve = Principal("bob"), Principal("eve")
    one = SecretToken(DelegationToken("id", bob, bob, (eve,), 1, 2, 3), b"secret")
    assert token_row(one) == {
        "token_id": "id",
        "owner": "User:bob",
        "requester": "User:bob",
        "renewers": ["User:eve"],
        "issue_ms": 1,
        "expiry_ms": 3,
        "max_ms": 2,
    }


def test_each_limit_is_a_row() -> None:
    quota = DescribedQuota({"user": None, "client-id": "c"}, {"producer_byte_rate": 5.0})
    assert quota_rows(quota) == [
        {
            "user": "<default>",
            "client_id": "c",
            "ip": None,
            "key": "producer_byte_rate",
            "limit": 5.0,
        }
    ]


# -------------------------------------------------------------------------------- over a cluster

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    with InsideCluster(1, SETTINGS) as cluster:
        cluster.create_topic("orders")
        with page_server(ClientConfig(cluster.bootstrap)) as page:
            yield page


def act(page: PageServer, act: str, **arguments: Any) -> dict[str, Any]:
    reply = page.post(
        f"/api/do/{act}",
        {"arguments": arguments, "dry_run": False},
        Content_Type="application/json",
        X_Minikafka_Token=page.token,
    )
    assert (reply.status, reply.json["status"]) == (200, 0), reply.json
    found: dict[str, Any] = reply.json
    return found


@pytest.mark.mission("GLASS-131", "GLASS-132")
def test_rules_are_added_explained_and_removed_over_the_protocol(page: PageServer) -> None:
    rule = {
        "resource": "topic",
        "name": "ord",
        "pattern": "prefixed",
        "permission": "allow",
        "principal": "User:bob",
        "operation": "Write",
    }
    added = act(page, "acls-add", **rule)
    assert added["command"].startswith("minikafka acls --bootstrap-server 127.0.0.1:")
    assert added["command"].endswith(
        "--add --topic ord --resource-pattern-type prefixed --allow-principal User:bob "
        "--operation Write"
    )
    listed = page.get("/api/acls?fresh=1&principal=BOB&resource=topic").json
    assert (listed["acls"], listed["total"]) == ([{**rule, "host": "*"}], 1)
    assert page.get("/api/acls?name=other").json["acls"] == []
    question = "principal=User:bob&host=10.0.0.1&resource=topic&name=orders&operation="
    why = page.get(f"/api/acls/why?{question}Describe").json
    assert (why["allowed"], why["rules"]) == (True, [{**rule, "host": "*"}])
    assert "Describe is implied" in why["why"]
    why = page.get(f"/api/acls/why?{question}Read").json
    assert (why["allowed"], why["rules"]) == (False, [])
    assert "do not tell its value" in why["notes"][0]
    why = page.get(f"/api/acls/why?{question}Read".replace("name=orders", "name=x")).json
    assert why["allowed"] is False  # the broker has no allow.everyone.if.no.acl.found
    assert page.get(f"/api/acls/why?{question}Fly").status == 400
    act(page, "acls-remove", **rule)
    assert page.get("/api/acls?fresh=1").json["acls"] == []


@pytest.mark.mission("GLASS-131")
def test_users_and_quotas_are_set_and_listed(page: PageServer) -> None:
    made = act(page, "users-create", user="bob", password="s3cret", mechanism="SCRAM-SHA-256")
    assert made["command"].startswith("printf '%s\\n' '********' | minikafka users ")
    listed = page.get("/api/users?fresh=1&search=BO").json
    assert listed["users"] == [{"user": "bob", "mechanisms": {"SCRAM-SHA-256": 4096}}]
    later = page.get("/api/users?from=1").json
    assert (later["users"], later["matching"], later["from"]) == ([], 1, 1)
    act(page, "quotas-set", user="bob", producer_byte_rate=1e6)
    (row,) = page.get("/api/quotas?fresh=1").json["quotas"]
    assert (row["user"], row["key"], row["limit"]) == ("bob", "producer_byte_rate", 1e6)
    tokens = page.get("/api/tokens").json
    assert tokens["tokens"] == []
    assert "delegation" in tokens["state"]
