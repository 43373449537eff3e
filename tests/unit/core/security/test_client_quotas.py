"""Where quotas are stored, which values are valid, and which entities a filter matches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.client_quotas import (
    CLIENT_KEYS,
    IP_KEYS,
    USER_KEYS,
    QuotaFilter,
    QuotaOp,
    QuotaPlace,
    altered,
    check_stored,
    desanitized,
    java_double,
    limits_of,
    place_of,
    sanitized,
)
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


IP = place_of({"ip": "10.0.0.1"})


@pytest.mark.parametrize(
    ("place", "key", "value", "text"),
    [
        (BOB, "request_percentage", 5.0, "5.0"),
        (BOB, "controller_mutation_rate", 1.5, "1.5"),
        (BOB, "producer_byte_rate", 1e-6, "0"),
        (BOB, "producer_byte_rate", float("nan"), "0"),
        (BOB, "producer_byte_rate", 2.0**63, str(2**63 - 1)),
        (BOB, "producer_byte_rate", -(2.0**63), str(-(2**63))),
        (IP, "connection_creation_rate", 2**31 - 1, str(2**31 - 1)),
    ],
)
def test_a_value_is_stored_as_java_writes_its_type(
    place: QuotaPlace, key: str, value: float, text: str
) -> None:
    """As Java's casts have it, a number that is none is 0, and 2^63 is the greatest long."""
    assert altered({}, [QuotaOp(key, value)], place) == {key: text}


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        *((BOB, "producer_byte_rate", x) for x in (1.5, 1e20, -1e20, float("inf"), -float("inf"))),
        *((IP, "connection_creation_rate", x) for x in (0.5, 2**31, -(2**31) - 1, 2**32)),
    ],
)
def test_a_value_of_another_type_is_refused(place: QuotaPlace, key: str, value: float) -> None:
    with pytest.raises(KafkaError) as caught:
        altered({}, [QuotaOp(key, value)], place)
    kind = "LONG" if place is BOB else "INT"
    message = f"Configuration {key} must be a {kind} value"
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_an_unknown_key_and_a_credential_are_no_quotas() -> None:
    with pytest.raises(KafkaError) as caught:
        altered({}, [QuotaOp("never_heard_of", 1)], BOB)
    assert (caught.value.code, caught.value.message) == (
        ErrorCode.INVALID_REQUEST,
        "Invalid configuration key never_heard_of",
    )
    with pytest.raises(KafkaError) as caught:
        altered({}, [QuotaOp("SCRAM-SHA-256", 1)], BOB)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_foreign_key_in_the_znode_is_an_error() -> None:
    check_stored({"SCRAM-SHA-256": "x"}, USER_KEYS)
    with pytest.raises(KafkaError):
        check_stored({"SCRAM-SHA-256": "x"}, CLIENT_KEYS)


def test_numbers_as_java_writes_them() -> None:
    texts = ["2.0", "0.001", "9999999.0", "1.0E7", "1.2345E-5", "-1.23456789125E8", "0.0", "1.0E16"]
    texts += ["1.2E-4"]
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
    filters: Any = [[]]
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


BAD_IP = (
    "Invalid entity filter component combination, IP filter component should not be used with "
    "user or clientId filter component."
)


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        (
            [("user", SPECIFIED, None), ("user", DEFAULT, None)],
            ErrorCode.INVALID_REQUEST,
            "Duplicate user filter component entity type",
        ),
        (
            [("client-id", SPECIFIED, None), ("client-id", DEFAULT, None)],
            ErrorCode.INVALID_REQUEST,
            "Duplicate client filter component entity type",
        ),
        (
            [("", SPECIFIED, None)],
            ErrorCode.INVALID_REQUEST,
            "Unexpected empty filter component entity type",
        ),
        (
            [("group", SPECIFIED, None)],
            ErrorCode.UNSUPPORTED_VERSION,
            "Custom entity type 'group' not supported",
        ),
        ([("ip", SPECIFIED, None), ("user", SPECIFIED, None)], ErrorCode.INVALID_REQUEST, BAD_IP),
        ([("user", 3, "a")], ErrorCode.UNKNOWN_SERVER_ERROR, None),
        ([("user", EXACT, None)], ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_a_filter_that_is_refused(
    components: list[tuple[str, int, str | None]], code: ErrorCode, message: str | None
) -> None:
    with pytest.raises(KafkaError) as caught:
        QuotaFilter.of(components, strict=False)
    assert caught.value.code is code
    if message is not None:
        assert caught.value.message == message


@pytest.mark.parametrize(
    ("components", "strict", "refused"),
    [
        ([("user", EXACT, "")], False, False),
        ([("user", EXACT, "")], True, True),
        ([("ip", EXACT, "")], False, True),
        ([("user", EXACT, ""), ("client-id", EXACT, "a")], False, True),
        ([("user", EXACT, ""), ("client-id", SPECIFIED, None)], False, False),
        ([("user", EXACT, "a")], True, False),
    ],
)
def test_an_empty_name_is_an_error_where_it_names_the_one_znode(
    components: list[tuple[str, int, str | None]], strict: bool, refused: bool
) -> None:
    if refused:
        with pytest.raises(KafkaError) as caught:
            QuotaFilter.of(components, strict)
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert not QuotaFilter.of(components, strict).matches({"user": "b"})


def test_filter_excludes_entities_that_cannot_match() -> None:
    user = QuotaFilter.of([("user", EXACT, "b b")], strict=True)
    assert user.only("user") == "b%20b"
    assert user.only("client-id") is None
    assert QuotaFilter.of([("user", SPECIFIED, None)], strict=True).only("user") is None
    assert user.may_match("user")
    assert not user.may_match("client-id")
    assert not user.may_match("user", "client-id")
    loose = QuotaFilter.of([("user", EXACT, "b b")], strict=False)
    assert loose.may_match("user", "client-id")
    assert not loose.may_match("client-id")
