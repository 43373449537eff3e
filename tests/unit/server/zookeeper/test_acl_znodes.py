"""Znodes of ACLs and their notifications, as Kafka 3.9.1 wrote them."""

from __future__ import annotations

import json

import pytest

from minikafka.core.security.acls import (
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.znodes import acls

WRITTEN = (
    b'{"acls":[{"principal":"User:bob","permissionType":"Allow","host":"*","operation":"Read"},'
    b'{"principal":"User:bob","permissionType":"Deny","host":"10.0.0.1","operation":"Write"}],'
    b'"version":1}'
)
ENTRIES = {
    AclEntry("User:bob", "*", AclOperation.READ, PermissionType.ALLOW),
    AclEntry("User:bob", "10.0.0.1", AclOperation.WRITE, PermissionType.DENY),
}


@pytest.mark.mission("SEC-129")
def test_entries_are_written_and_read_as_kafka_does() -> None:
    assert acls.decode_acls("/p", WRITTEN) == ENTRIES
    assert json.loads(acls.encode_acls(ENTRIES)) == json.loads(WRITTEN)
    every = {AclEntry("User:b", "*", op, PermissionType.ALLOW) for op in AclOperation}
    assert acls.decode_acls("/p", acls.encode_acls(every)) == every
    assert b'"IdempotentWrite"' in acls.encode_acls(every)
    assert acls.decode_acls("/p", b"") == frozenset()


def test_names_of_any_case_and_unknown_ones_are_read() -> None:
    text = (
        '{"version":1,"acls":[{"principal":"User:x","permissionType":"%s","host":"*",'
        '"operation":"%s"}]}'
    )
    (read,) = acls.decode_acls("/p", (text % ("DENY", "alterCONFIGS")).encode())
    assert (read.permission, read.operation) == (PermissionType.DENY, AclOperation.ALTER_CONFIGS)
    (read,) = acls.decode_acls("/p", (text % ("Perhaps", "TwoPhaseCommit")).encode())
    assert (read.permission, read.operation) == (PermissionType.UNKNOWN, AclOperation.UNKNOWN)


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":["User:bob"]}',
        WRITTEN.replace(b"User:bob", b"bob"),
        WRITTEN.replace(b'"host"', b'"hosts"'),
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        acls.decode_acls("/p", data)


PATTERNS = [
    (ResourcePattern(AclResourceType.TOPIC, "tp1"), "/kafka-acl/Topic/tp1", b"TOPIC:tp1"),
    (
        ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "a:b"),
        "/kafka-acl/TransactionalId/a:b",
        b"TRANSACTIONAL_ID:a:b",
    ),
    (ResourcePattern(AclResourceType.GROUP, "g é"), "/kafka-acl/Group/g é", "GROUP:g é".encode()),
    (
        ResourcePattern(AclResourceType.TOPIC, "pre", PatternType.PREFIXED),
        "/kafka-acl-extended/prefixed/Topic/pre",
        b'{"version":1,"resourceType":"TOPIC","name":"pre","patternType":"PREFIXED"}',
    ),
]


@pytest.mark.mission("SEC-129")
@pytest.mark.parametrize(("pattern", "path", "notice"), PATTERNS)
def test_paths_and_notices_are_kafkas(pattern: ResourcePattern, path: str, notice: bytes) -> None:
    assert acls.acl_path(pattern) == path
    assert acls.encode_notice(pattern) == notice
    where = f"{acls.notice_prefix(pattern.pattern_type)}0000000001"
    assert acls.decode_notice(where, notice) == pattern


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/kafka-acl-changes/acl_changes_1", b"TOPIC"),
        ("/kafka-acl-changes/acl_changes_1", b"TransactionalId:x"),
        ("/kafka-acl-changes/acl_changes_1", b"TOPIC:"),
        ("/kafka-acl-changes/acl_changes_1", b"TOPIC:../../brokers"),
        ("/kafka-acl-changes/acl_changes_1", b"ANY:x"),
        ("/kafka-acl-extended-changes/acl_changes_1", b"TOPIC:x"),
        (
            "/kafka-acl-extended-changes/acl_changes_1",
            b'{"version":1,"resourceType":"TOPIC","name":"pre","patternType":"MATCH"}',
        ),
    ],
)
def test_a_notice_that_names_no_pattern_is_refused(path: str, data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        acls.decode_notice(path, data)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "\ud800", "\U0001f600", "\x85"])
def test_names_that_zookeeper_refuses_in_paths_are_not_stored(name: str) -> None:
    assert not acls.name_is_storable(name)
    assert acls.name_is_storable("*")
