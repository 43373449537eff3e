"""Delegation tokens: lifetimes, who may change them, and their secrets."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.delegation_tokens import (
    MAX_TIMESTAMP_MS,
    DelegationToken,
    TokenRemoval,
    TokenSettings,
    changed_expiry,
    created,
    lookup_key,
    new_token_id,
    renewed,
    renewers_error,
    token_credential,
    token_hmac,
)
from minikafka.core.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import Principal

pytestmark = pytest.mark.mission("SEC-151")

ALICE, BOB, CAROL = Principal("alice"), Principal("bob"), Principal("carol")
SETTINGS = TokenSettings("secret", 1_000, 100, 10)
NOW = 50_000
HMAC_BY_OPENSSL = (
    "db66cf642d9fbf40f4461e2030bd513eec101ebfeab29a4171394145e6a8f7a2"
    "10c934ba269fc96faeb7e25c9add36f81e70bc901edba870fdda175e8d7077af"
)
LONG = st.integers(-(2**63), 2**63 - 1)


def token(lifetime_ms: int = -1, now_ms: int = NOW) -> DelegationToken:
    """A token of alice's, which carol has requested and bob may renew."""
    return created(SETTINGS, "id", ALICE, CAROL, [BOB], lifetime_ms, now_ms)


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expiry_ms"),
    [(-1, 1_000, 100), (0, 1_000, 100), (2_000, 1_000, 100), (500, 500, 100), (60, 60, 60)],
)
def test_the_lifetime_of_a_new_token(lifetime_ms: int, max_ms: int, expiry_ms: int) -> None:
    made = token(lifetime_ms)
    assert (made.issue_ms, made.max_ms, made.expiry_ms) == (NOW, NOW + max_ms, NOW + expiry_ms)


def test_a_token_is_valid_up_to_its_expiry_inclusive() -> None:
    made = token()
    assert not made.is_expired(NOW + 100)
    assert made.is_expired(NOW + 101)
    shortened = created(SETTINGS, "id", ALICE, ALICE, [], 60, NOW)
    assert not shortened.is_expired(NOW + 60)
    assert shortened.is_expired(NOW + 61)


@pytest.mark.parametrize(
    ("requester", "period_ms", "after_ms", "wanted"),
    [
        (ALICE, -1, 50, NOW + 150),
        (BOB, 200, 50, NOW + 250),
        (BOB, 0, 50, NOW + 50),
        (ALICE, 5_000, 50, NOW + 1_000),
        (CAROL, -1, 50, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (CAROL, -1, 101, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, -1, 101, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_a_renewal(requester: Principal, period_ms: int, after_ms: int, wanted: object) -> None:
    found = renewed(SETTINGS, token(), requester, period_ms, NOW + after_ms)
    assert (found if isinstance(found, ErrorCode) else found.expiry_ms) == wanted


@pytest.mark.parametrize(
    ("requester", "period_ms", "after_ms", "wanted"),
    [
        (ALICE, -1, 50, TokenRemoval(NOW + 50)),
        (BOB, -7, 101, TokenRemoval(NOW + 101)),
        (CAROL, -1, 50, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, 0, 50, NOW + 50),
        (ALICE, 20, 50, NOW + 70),
        (ALICE, 5_000, 50, NOW + 1_000),
        (ALICE, 5_000, 101, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_a_changed_expiry(
    requester: Principal, period_ms: int, after_ms: int, wanted: object
) -> None:
    found = changed_expiry(token(), requester, period_ms, NOW + after_ms)
    assert (found.expiry_ms if isinstance(found, DelegationToken) else found) == wanted


@given(LONG, LONG, st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1), st.integers(0, 2**62))
def test_times_stay_in_order_and_fit_a_long(
    lifetime_ms: int, period_ms: int, longest_ms: int, default_ms: int, passed_ms: int
) -> None:
    settings = TokenSettings("secret", longest_ms, default_ms, 1)
    made = created(settings, "id", ALICE, ALICE, [], lifetime_ms, NOW)
    assert NOW < made.expiry_ms <= made.max_ms <= MAX_TIMESTAMP_MS
    assert made.max_ms - NOW <= longest_ms
    now_ms = NOW + passed_ms
    for changed in (
        renewed(settings, made, ALICE, period_ms, now_ms),
        changed_expiry(made, ALICE, period_ms, now_ms),
    ):
        if isinstance(changed, DelegationToken):
            assert not made.is_expired(now_ms)
            assert now_ms <= changed.expiry_ms <= changed.max_ms == made.max_ms
            assert not changed.is_expired(now_ms)


def test_the_requester_of_a_token_sees_it_and_may_not_change_it() -> None:
    made = token()
    assert [made.concerns((who,)) for who in (ALICE, BOB, CAROL)] == [True] * 3
    assert [made.may_be_changed_by(who) for who in (ALICE, BOB, CAROL)] == [True, True, False]
    assert not made.concerns((Principal("alice", "Group"), Principal("dave")))
    assert made.may_be_changed_by(Principal("alice", by_token=True))


def test_renewers_are_users() -> None:
    assert renewers_error([ALICE, BOB]) is ErrorCode.NONE
    assert renewers_error([ALICE, Principal("g", "Group")]) is ErrorCode.INVALID_PRINCIPAL_TYPE


def test_an_id_is_a_uuid_of_22_characters() -> None:
    assert new_token_id(bytes(16)) == "AAAAAAAAQACAAAAAAAAAAA"
    assert new_token_id(b"\xff" * 16) == "________T_-__________w"


def test_the_secret_is_the_hmac_of_the_id_and_is_not_shown() -> None:
    secret = token_hmac("s", "yafVjWfFQcKrbRpPnCIwWg")
    assert secret.hex() == HMAC_BY_OPENSSL
    assert secret != token_hmac("t", "yafVjWfFQcKrbRpPnCIwWg")
    assert lookup_key(secret) == hashlib.sha256(secret).digest()
    assert "of-the-cluster" not in repr(TokenSettings("of-the-cluster", 1, 1, 1))


def test_both_mechanisms_have_their_own_credential() -> None:
    one = token_credential(SCRAM_SHA_256, "s", "id", b"salt")
    two = token_credential(SCRAM_SHA_512, "s", "id", b"salt")
    assert (len(one.stored_key), len(two.stored_key)) == (32, 64)
    assert one.iterations == two.iterations == 4096
