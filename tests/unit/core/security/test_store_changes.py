"""Which certificates a key store may have that replaces another one at run time."""

from __future__ import annotations

import pytest

from minikafka.core.security.store_changes import store_change_problem
from tests.support.security.certificates import Authority

OURS, OTHERS = Authority("ours"), Authority("others")
BROKER = OURS.issue("broker", ("a", "b", "127.0.0.1")).chain_pem


def problem(before: bytes, after: bytes, names: bool = False, hosts: bool = False) -> str:
    return store_change_problem(before, after, names, hosts) or ""


@pytest.mark.mission("SEC-125")
def test_name_and_alternative_names_must_stay() -> None:
    assert not problem(BROKER, BROKER)
    assert not problem(BROKER, OURS.issue("broker", ("127.0.0.1", "b", "a", "c")).chain_pem)
    assert not problem(BROKER, OTHERS.issue("Broker", ("127.0.0.1", "b", "a")).chain_pem)
    other_name = OURS.issue("other", ("a", "b", "127.0.0.1")).chain_pem
    assert "DistinguishedName does not match: existing={DN=CN=broker}" in problem(
        BROKER, other_name
    )
    assert not problem(BROKER, other_name, names=True)
    fewer = OURS.issue("broker", ("a", "127.0.0.1")).chain_pem
    assert "SubjectAltNames do not match: the new one lacks" in problem(BROKER, fewer)
    assert "'b'" in problem(BROKER, fewer)
    assert "SubjectAltNames" in problem(BROKER, fewer, names=True)
    assert not problem(BROKER, fewer, hosts=True)


@pytest.mark.mission("SEC-125")
def test_a_store_is_neither_added_nor_removed() -> None:
    assert "Cannot add SSL keystore" in problem(b"", BROKER, names=True, hosts=True)
    assert "Cannot remove the SSL keystore" in problem(BROKER, b"", names=True, hosts=True)
    assert not problem(b"", b"")
