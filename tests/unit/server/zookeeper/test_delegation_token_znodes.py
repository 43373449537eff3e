"""Znodes of delegation tokens and their notifications, as Kafka 3.9.1 wrote them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minikafka.core.security.delegation_tokens import DelegationToken
from minikafka.kernel.ports import BadVersion
from minikafka.kernel.principals import Principal
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.store_tokens import NO_ZNODE, StoredToken
from minikafka.server.zookeeper.znodes.delegation_tokens import (
    decode_token,
    decode_token_notice,
    encode_token,
)
from tests.support.zookeeper.direct import DirectZookeeper

pytestmark = pytest.mark.mission("SEC-151")

WRITTEN = (
    b'{"issueTimestamp":1795349436901,"renewers":["User%3Arene"],"tokenRequester":"User%3Abob",'
    b'"tokenId":"yafVjWfFQcKrbRpPnCIwWg","owner":"User%3Ab%20o%2Cb","expiryTimestamp":1795349437901,'
    b'"maxTimestamp":1795349447901,"version":3}'
)
TOKEN = DelegationToken(
    "yafVjWfFQcKrbRpPnCIwWg",
    Principal("b o,b"),
    Principal("bob"),
    (Principal("rene"),),
    1795349436901,
    1795349447901,
    1795349437901,
)


def test_a_token_is_written_and_read_as_kafka_does() -> None:
    assert encode_token(TOKEN) == WRITTEN
    assert decode_token("/p", WRITTEN) == TOKEN


@pytest.mark.parametrize("version", [1, 2])
def test_the_owner_has_requested_a_token_of_an_older_version(version: int) -> None:
    old = WRITTEN.replace(b'"tokenRequester":"User%3Abob",', b"")
    old = old.replace(b'"version":3', b'"version":%d' % version)
    assert decode_token("/p", old) == replace(TOKEN, requester=TOKEN.owner)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        WRITTEN.replace(b'"version":3', b'"version":4'),
        WRITTEN.replace(b'"version":3', b'"version":0'),
        WRITTEN.replace(b"User%3Abob", b"bob"),
        WRITTEN.replace(b'["User%3Arene"]', b'"User%3Arene"'),
        WRITTEN.replace(b"1795349437901", b"1e12"),
        WRITTEN.replace(b"1795349437901", b"9223372036854775808"),
        WRITTEN.replace(b'"tokenRequester":"User%3Abob",', b""),
    ],
)
def test_garbage_is_no_token(data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        decode_token("/p", data)


@pytest.mark.parametrize("data", [b"", b"\xff", b"a/b", b".."])
def test_garbage_is_no_notification(data: bytes) -> None:
    assert decode_token_notice("/p", b"yafVjWfFQcKrbRpPnCIwWg") == "yafVjWfFQcKrbRpPnCIwWg"
    with pytest.raises(MalformedZnode):
        decode_token_notice("/p", data)


async def test_each_write_is_conditional_and_leaves_a_notification(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    """Also after somebody has deleted the roots."""
    written = await store.write_delegation_token(TOKEN, NO_ZNODE)
    assert written == StoredToken(TOKEN, 0)
    with pytest.raises(BadVersion):
        await store.write_delegation_token(TOKEN, NO_ZNODE)
    later = replace(TOKEN, expiry_ms=TOKEN.max_ms)
    assert await store.write_delegation_token(later, 0) == StoredToken(later, 1)
    with pytest.raises(BadVersion):
        await store.write_delegation_token(TOKEN, 0)
    assert await store.delegation_tokens([TOKEN.token_id, "other"]) == [StoredToken(later, 1), None]
    with pytest.raises(BadVersion):
        await store.delete_delegation_token(TOKEN.token_id, 0)
    await store.delete_delegation_token(TOKEN.token_id, 1)
    with pytest.raises(BadVersion):
        await store.delete_delegation_token(TOKEN.token_id, 1)
    assert await store.delegation_token_ids() == []
    notices = await store.token_change_notices(await store.token_changes())
    assert [notice.token_id for notice in notices] == [TOKEN.token_id] * 3
    root = "/delegation_token/token_changes/token_change_"
    assert all(notice.name.startswith(root) for notice in notices)
