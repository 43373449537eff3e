"""Signed tokens: whose signature and claims are accepted, and when keys are loaded again."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import RSAKey

from minikafka.core.security.jose_signatures import JoserfcLibrary
from minikafka.core.security.jwt_validator import (
    REFRESH_AGAIN_MS,
    REMEMBERED_KEY_IDS,
    KeyRefresh,
    SecuredValidator,
    parse_key_set,
    retry_wait_ms,
)
from minikafka.core.security.sasl.oauthbearer import BearerToken, TokenRefusal
from tests.support.security.logins import WALL_MS
from tests.support.security.signed_tokens import (
    EC,
    ED,
    NOW_S,
    OTHER,
    P384,
    RSA,
    claims,
    key_set,
    keyed_with_the_public_key,
    signed,
)

LIBRARY = JoserfcLibrary()
KEYS = parse_key_set(key_set(RSA, EC, P384, ED), LIBRARY)
VALIDATOR = SecuredValidator(LIBRARY)


def check(token: str, validator: SecuredValidator = VALIDATOR) -> BearerToken | TokenRefusal:
    return validator.validate(token, KEYS, WALL_MS)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def refusal(token: str, validator: SecuredValidator = VALIDATOR) -> str:
    outcome = check(token, validator)
    assert isinstance(outcome, TokenRefusal), outcome
    assert outcome.to_json() == '{"status":"invalid_token"}'
    return outcome.detail


@pytest.mark.mission("SEC-119")
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(RSA, "RS256"), (RSA, "RS512"), (RSA, "PS256"), (EC, "ES256"), (P384, "ES384"), (ED, "EdDSA")],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("named", [True, False])
def test_a_token_with_a_good_signature_is_accepted(key: Any, algorithm: str, named: bool) -> None:
    header = {} if named else {"kid": None}
    token = signed(key, algorithm, claims(scope=["read", "write"]), **header)
    assert check(token) == BearerToken("alice", (NOW_S + 3600) * 1000, frozenset({"read", "write"}))


@pytest.mark.mission("SEC-119")
@pytest.mark.parametrize(
    ("token", "detail"),
    [
        (signed(OTHER, "ES256"), "no key for the algorithm ES256"),
        (signed(OTHER, "ES256", kid="ec"), "the signature of the token is wrong"),
        (signed(EC, "ES256", kid="rsa"), "no key for the algorithm ES256"),
        (keyed_with_the_public_key(RSA), "the algorithm of the token is not accepted"),
        (part({"alg": "ES256", "crit": ["b64"]}) + ".e30.x", "critical parameters"),
        (part({"alg": "ES256", "kid": 7}) + ".e30.x", "not a string"),
        (part({"alg": 7}) + ".e30.x", "the algorithm of the token is not accepted"),
        ("a.b", "three parts"),
        ("a..c", "three parts"),
        ("%%.b.c", "malformed"),
        ("", "three parts"),
    ],
    ids=range(11),
)
def test_a_token_without_a_good_signature_is_refused(token: str, detail: str) -> None:
    assert detail in refusal(token)


@pytest.mark.mission("SEC-119")
def test_an_unsigned_token_is_refused() -> None:
    header, body, signature = signed(EC, "ES256").split(".")
    assert "algorithm" in refusal(f"{part({'alg': 'none'})}.{body}.{signature}")
    assert "three parts" in refusal(f"{part({'alg': 'none'})}.{body}.")
    changed = f"{header}.{part(claims(sub='eve'))}.{signature}"
    assert refusal(changed).startswith("the signature of the token is wrong")


@pytest.mark.mission("SEC-119")
@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"exp": None}, "no expiration time"),
        ({"iat": None}, "does not say when it was issued"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": NOW_S - 1, "iat": NOW_S}, "expires before it was issued"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"nbf": NOW_S + 4000}, "not valid yet"),
        ({"exp": "soon"}, "The 'exp' claim is not a number"),
        ({"sub": None}, "No principal name in JWT claim: sub"),
        ({"sub": " "}, "No principal name in JWT claim: sub"),
        ({"aud": "kafka"}, "no audience is expected"),
        ({"scope": ["a", "a"]}, "must not contain duplicates"),
        ({"scope": ["a", " "]}, "must be non-empty"),
        ({"scope": 7}, "neither a string nor a list"),
    ],
)
def test_claims_that_are_refused(changed: dict[str, Any], detail: str) -> None:
    assert detail in refusal(signed(EC, "ES256", claims(**changed)))


@pytest.mark.mission("SEC-119")
def test_the_clock_of_the_provider_may_differ() -> None:
    for changed in ({"exp": NOW_S - 29, "iat": NOW_S - 90}, {"nbf": NOW_S + 30}):
        assert isinstance(check(signed(EC, "ES256", claims(**changed))), BearerToken)
    strict = replace(VALIDATOR, clock_skew_s=0)
    token = signed(EC, "ES256", claims(exp=NOW_S, iat=NOW_S - 90))
    assert "has expired" in refusal(token, strict)


@pytest.mark.mission("SEC-119")
def test_issuer_and_audience_that_are_expected() -> None:
    validator = replace(
        VALIDATOR, expected_issuer="https://id", expected_audience=frozenset({"kafka", "k"})
    )
    for audience in ("kafka", ["other", "k"]):
        good = signed(EC, "ES256", claims(iss="https://id", aud=audience))
        assert isinstance(check(good, validator), BearerToken)
    for changed, detail in (
        ({"iss": "https://id"}, "another audience"),
        ({"iss": "https://id", "aud": ["other"]}, "another audience"),
        ({"iss": "https://id2", "aud": "kafka"}, "another issuer"),
        ({"aud": "kafka"}, "another issuer"),
    ):
        assert detail in refusal(signed(EC, "ES256", claims(**changed)), validator)


@pytest.mark.mission("SEC-119")
def test_other_names_of_claims() -> None:
    validator = replace(VALIDATOR, principal_claim="email", scope_claim="scp")
    token = signed(EC, "ES256", claims(sub=None, email=" a@b ", scp="x y"))
    outcome = check(token, validator)
    assert isinstance(outcome, BearerToken)
    assert (outcome.principal_name, outcome.scope) == ("a@b", frozenset({"x y"}))


@pytest.mark.mission("SEC-119")
def test_keys_that_cannot_verify_are_left_out() -> None:
    small = RSAKey.generate_key(1024, {"kid": "small"}, auto_kid=False)
    rows = json.loads(key_set(EC, small))["keys"]
    rows += [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
        {**json.loads(key_set(RSA))["keys"][0], "use": "enc"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": 7},
        "text",
    ]
    found = parse_key_set(json.dumps({"keys": rows}).encode(), LIBRARY)
    assert found.key_ids == ["ec"]
    assert len(found.left_out) == 6
    assert "1024 bits" in found.left_out[0]
    for data in (b"", b"[]", b"{}", b'{"keys":7}', b"\xff"):
        with pytest.raises(ValueError):
            parse_key_set(data, LIBRARY)


def test_the_algorithm_of_a_key_counts() -> None:
    keys = parse_key_set(key_set(RSA, alg="RS512"), LIBRARY)
    assert keys.select("RS512", "rsa") is not None
    assert keys.select("RS256", "rsa") is None


@pytest.mark.mission("SEC-119")
@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.tuples(*[st.text(max_size=30)] * 3).map(".".join))
def test_random_tokens_never_raise_and_never_log_in(token: str) -> None:
    assert isinstance(check(token), TokenRefusal)


@pytest.mark.mission("SEC-120")
def test_an_unknown_key_id_is_a_reason_to_load_the_keys_once_a_minute() -> None:
    outcome = check(signed(OTHER, "ES256"))
    assert isinstance(outcome, TokenRefusal)
    assert outcome.unknown_key_id == "other"
    refresh = KeyRefresh()
    assert refresh.is_due("a", 0)
    assert not refresh.is_due("a", REFRESH_AGAIN_MS - 1)
    assert refresh.is_due("a", REFRESH_AGAIN_MS)
    refresh.loaded(["a"])
    assert refresh.is_due("a", REFRESH_AGAIN_MS)
    assert not refresh.is_due("x" * 1001, 0)
    for number in range(REMEMBERED_KEY_IDS):
        assert refresh.is_due(f"key {number}", REFRESH_AGAIN_MS)
    assert refresh.is_due("a", REFRESH_AGAIN_MS + 1)


@pytest.mark.mission("SEC-120")
def test_attempts_to_load_keys_are_bounded_together() -> None:
    assert [retry_wait_ms(n, 0, 100, 10_000) for n in (1, 2, 3)] == [100, 200, 400]
    assert retry_wait_ms(9, 9_900, 100, 10_000) == 100
    assert retry_wait_ms(1, 10_000, 100, 10_000) is None
