"""Where quotas are stored, which values are valid, and which entities a filter matches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.client_quotas import (
    CLIENT_KEYS,
    IP_KEYS,
    USER_KEYS,
    QuotaFilter,
    QuotaOp,
    altered,
    check_stored,
    java_double,
    limits_of,
    place_of,
)
from minikafka.core.security.entity_names import desanitized, sanitized
from minikafka.kernel.errors import ErrorCode, KafkaError

BOB = place_of({"user": "bob"})
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@given(st.text())
def test_a_name_survives_its_znode(name: str) -> None:
    znode = sanitized(name)
    assert desanitized(znode) == name
    assert set(znode) <= set("%-._") | set(map(chr, range(48, 123)))
    assert not set(znode) & set("*+~/ <>")


def test_names_as_znodes() -> None:
    assert sanitized("a b,=*/%") == "a%20b%2C%3D%2A%2F%25"
    assert sanitized("~é.-_") == "%7E%C3%A9.-_"
    assert sanitized(None) == "<default>"
    assert desanitized("<default>") is None


@pytest.mark.mission("SEC-2")
@pytest.mark.parametrize(
    ("entity", "root", "name", "settable", "stored"),
    [
        ({"user": "b b"}, "users", "b%20b", USER_KEYS, USER_KEYS),
        ({"user": None}, "users", "<default>", USER_KEYS, CLIENT_KEYS),
        ({"client-id": "c"}, "clients", "c", CLIENT_KEYS, CLIENT_KEYS),
        ({"client-id": "c", "user": "u"}, "users", "u/clients/c", USER_KEYS, CLIENT_KEYS),
        (
            {"client-id": None, "user": None},
            "users",
            "<default>/clients/<default>",
            USER_KEYS,
            CLIENT_KEYS,
        ),
        ({"ip": "10.0.0.1"}, "ips", "10.0.0.1", IP_KEYS, IP_KEYS),
    ],
)
def test_each_entity_has_its_place(
    entity: dict[str, str | None],
    root: str,
    name: str,
    settable: Mapping[str, object],
    stored: Mapping[str, object],
) -> None:
    assert place_of(entity) == (root, name, settable, stored)


@pytest.mark.mission("SEC-2")
@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"group": "g"}, "Unhandled client quota entity type: group"),
        ({"user": ""}, "Empty user not supported"),
        (
            {"ip": "10.0.0.1", "user": None},
            (
                "Invalid quota entity combination, "
                "IP entity should not be used with user/client ID entity."
            ),
        ),
    ],
)
def test_no_quota_for_such_an_entity(entity: dict[str, str | None], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        place_of(entity)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_alterations_leave_the_rest_alone() -> None:
    before = {"SCRAM-SHA-256": "x", "request_percentage": "5.0", "consumer_byte_rate": "1"}
    ops = [
        QuotaOp("producer_byte_rate", 1024),
        QuotaOp("request_percentage", None),
        QuotaOp("never_heard_of", None),
    ]
    assert altered(before, ops, BOB) == {
        "SCRAM-SHA-256": "x",
        "consumer_byte_rate": "1",
        "producer_byte_rate": "1024",
    }
    assert limits_of(before, CLIENT_KEYS) == {"request_percentage": 5.0, "consumer_byte_rate": 1.0}
    with pytest.raises(KafkaError):
        limits_of({"consumer_byte_rate": "much"}, CLIENT_KEYS)


def test_a_foreign_key_in_the_znode_is_an_error() -> None:
    check_stored({"SCRAM-SHA-256": "x"}, USER_KEYS)
    with pytest.raises(KafkaError):
        check_stored({"SCRAM-SHA-256": "x"}, CLIENT_KEYS)


def test_numbers_as_java_writes_them() -> None:
    texts = ["2.0", "0.001", "9999999.0", "1.0E7", "1.2345E-5", "-1.23456789125E8", "0.0", "1.0E16"]
    for text in texts:
        assert java_double(float(text)) == text
    assert [java_double(float(t)) for t in ("inf", "-inf", "nan")] == [
        "Infinity",
        "-Infinity",
        "NaN",
    ]


@given(st.floats(allow_nan=False))
def test_a_number_survives_its_text(value: float) -> None:
    text = java_double(value)
    assert float(text) == value
    mantissa, _, exponent = text.partition("E")
    if exponent:
        assert not 1e-3 <= abs(value) < 1e7
        assert 1 <= abs(float(mantissa)) < 10
    assert "Infinity" in text or "." in mantissa


NAMES = [None, "a", "b"]
ENTITIES: list[dict[str, str | None]] = [
    *({"user": name} for name in NAMES),
    *({"client-id": name} for name in NAMES),
    *({"user": u, "client-id": c} for u in NAMES for c in NAMES),
    *({"ip": name} for name in NAMES),
]
COMPONENTS = [(SPECIFIED, None), (DEFAULT, None), (EXACT, "a")]


def matches_plainly(
    components: list[tuple[str, int, str | None]], strict: bool, entity: dict[str, str | None]
) -> bool:
    """KIP-546 in so many words."""
    for kind, match_type, name in components:
        if kind not in entity:
            return False
        if match_type == DEFAULT and entity[kind] is not None:
            return False
        if match_type == EXACT and entity[kind] != name:
            return False
    return not strict or len(entity) == len(components)


@pytest.mark.mission("SEC-2")
@pytest.mark.parametrize("strict", [False, True])
def test_filters(strict: bool) -> None:
    filters = [[]]
    filters += [[(kind, *row)] for kind in ("user", "client-id", "ip") for row in COMPONENTS]
    filters += [
        [("client-id", *a), ("user", *b)] for a, b in itertools.product(COMPONENTS, COMPONENTS)
    ]
    for components in filters:
        wanted = QuotaFilter.of(components, strict)
        for entity in ENTITIES:
            expected = matches_plainly(components, strict, entity)
            assert wanted.matches(entity) is expected, (components, entity)
            # What is left unread must not match.
            read = wanted.may_match(*entity) and all(
                wanted.only(kind) in (None, sanitized(name)) for kind, name in entity.items()
            )
            assert read or not expected
