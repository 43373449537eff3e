"""Unsecured tokens: which are valid, and the tokens that a client makes from JAAS options."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.sasl.oauthbearer import (
    BearerToken,
    TokenRefusal,
    UnsecuredValidator,
    unsecured_token,
)

NOW_S = 1_795_349_436
NOW_MS = NOW_S * 1000
HEADER = '{"alg":"none"}'


def encoded(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return base64.b64encode(data).decode().rstrip("=")


def raw(claims: str | bytes, header: str | bytes = HEADER) -> str:
    return f"{encoded(header)}.{encoded(claims)}."


def token(**claims: Any) -> str:
    return raw(json.dumps({"sub": "alice", "exp": NOW_S + 60, **claims}))


def validate(text: str, **options: str) -> BearerToken | TokenRefusal:
    named = {f"unsecuredValidator{key}": value for key, value in options.items()}
    return UnsecuredValidator.of(named).validate(text, NOW_MS)


def valid(**claims: Any) -> bool:
    return isinstance(validate(token(**claims)), BearerToken)


@pytest.mark.mission("SEC-118")
def test_a_valid_token() -> None:
    assert validate(token(iat=NOW_S, scope="a b", nbf=NOW_S + 9)) == BearerToken(
        "alice", NOW_MS + 60_000, frozenset({"a b"})
    )


@pytest.mark.mission("SEC-118")
@pytest.mark.parametrize(
    ("claims", "is_valid"),
    [
        ({"exp": NOW_S + 0.001}, True),
        ({"exp": NOW_S}, False),
        ({"exp": NOW_S - 1}, False),
        ({"exp": None}, False),
        ({"exp": str(NOW_S + 60)}, False),
        ({"exp": True}, False),
        ({"exp": [NOW_S + 60]}, False),
        ({"exp": 1e300}, True),
        ({"exp": 10**400}, False),
        ({"iat": NOW_S}, True),
        ({"iat": NOW_S + 0.001}, False),
        ({"iat": "now"}, False),
        ({"iat": NOW_S - 9, "exp": NOW_S - 9}, False),
        ({"sub": ""}, False),
        ({"sub": " \t"}, False),
        ({"sub": None}, False),
        ({"sub": 5}, False),
        ({"sub": ["alice"]}, False),
        ({"sub": "\ud800"}, False),
        ({"sub": "al:ice é"}, True),
        ({"scope": ["a", "b"]}, True),
        ({"scope": 5}, False),
        ({"scope": ["a", 5]}, False),
        ({"scope": ["\udfff"]}, False),
    ],
)
def test_the_claims_of_a_valid_token(claims: dict[str, Any], is_valid: bool) -> None:
    assert valid(**claims) == is_valid


@pytest.mark.mission("SEC-118")
@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "...",
        token()[:-1],
        token() + ".",
        token() + "x",
        token() + encoded("x"),
        "." + token().split(".", 1)[1],
        token().replace(".", "..", 1),
        raw('{"sub":"alice","exp":9999999999}', '{"alg":"None"}'),
        raw('{"sub":"alice","exp":9999999999}', '{"alg":"HS256"}'),
        raw('{"sub":"alice","exp":9999999999}', "{}"),
        raw('{"sub":"alice","exp":9999999999}', '["alg"]'),
        raw('{"sub":"alice","exp":9999999999'),
        raw('{"sub":"alice","exp":9999999999} x'),
        raw('{"sub":"alice","exp":Infinity}'),
        raw('{"sub":"alice","exp":NaN}'),
        raw('{"sub":"alice","exp":1e999}'),
        raw('{"sub":"alice","exp":' + "9" * 5000 + "}"),
        raw('{"sub":"alice","exp":9999999999,"x":' + "[" * 100_000),
        raw(b'{"sub":"\xff","exp":9999999999}'),
        "!" + token(),
        f"{encoded(HEADER)}x.{encoded('{}')}.",
        f"{encoded(HEADER)}====.{encoded('{}')}.",
    ],
)
def test_texts_that_are_no_unsecured_tokens(text: str) -> None:
    outcome = validate(text)
    assert isinstance(outcome, TokenRefusal)
    assert outcome.to_json() == '{"status":"invalid_token"}'


def test_the_alphabet_of_urls_is_refused() -> None:
    """As with Kafka, which decodes the standard alphabet. Padding may be there or not."""
    standard = token(sub="???>>>")
    assert "/" in standard
    assert isinstance(validate(standard), BearerToken)
    assert isinstance(validate(standard.replace("/", "_").replace("+", "-")), TokenRefusal)
    for name in ("a", "ab", "abc"):
        header, claims, _ = token(sub=name).split(".")
        padded = f"{header}{'=' * (-len(header) % 4)}.{claims}{'=' * (-len(claims) % 4)}."
        assert isinstance(validate(padded), BearerToken)


@pytest.mark.mission("SEC-118")
def test_the_options_of_the_validator() -> None:
    assert validate(token(sub=None, user="bob"), PrincipalClaimName=" user ") == BearerToken(
        "bob", NOW_MS + 60_000
    )
    assert isinstance(validate(token(), PrincipalClaimName="user"), TokenRefusal)
    for skew, is_valid in ("0", False), ("5000", False), ("5001", True), (" 6000 ", True):
        late = validate(token(exp=NOW_S - 5), AllowableClockSkewMs=skew)
        assert isinstance(late, BearerToken) == is_valid
    for skew, is_valid in ("4999", False), ("5000", True):
        early = validate(token(iat=NOW_S + 5), AllowableClockSkewMs=skew)
        assert isinstance(early, BearerToken) == is_valid


@pytest.mark.mission("SEC-118")
@pytest.mark.parametrize(
    ("required", "scope", "missing"),
    [
        ("", None, None),
        (" ", "x", None),
        ("a", "a", None),
        ("a", " a ", None),
        ("a b", ["b", "c", "a"], None),
        ("a", None, "[a]"),
        ("a b", "a b", "[a, b]"),
        ("a b", ["a", " "], "[a, b]"),
    ],
)
def test_the_required_scope(required: str, scope: Any, missing: str | None) -> None:
    outcome = validate(token(perm=scope), RequiredScope=required, ScopeClaimName="perm")
    if missing is None:
        assert isinstance(outcome, BearerToken)
    else:
        assert isinstance(outcome, TokenRefusal)
        assert outcome.to_json() == f'{{"status":"insufficient_scope", "scope":"{missing}"}}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("RequiredScope", 'a"b'),
        ("RequiredScope", "a\\b"),
        ("RequiredScope", "é"),
        ("AllowableClockSkewMs", "-1"),
        ("AllowableClockSkewMs", "1.5"),
        ("AllowableClockSkewMs", "2147483648"),
    ],
)
def test_wrong_options(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid"):
        UnsecuredValidator.of({f"unsecuredValidator{key}": value})


def login(**options: str) -> str | None:
    return unsecured_token({f"unsecuredLogin{k}": v for k, v in options.items()}, NOW_MS + 500)


def claims_of(text: str | None) -> Any:
    assert text is not None
    claims = text.split(".")[1]
    return json.loads(base64.b64decode(claims + "=" * (-len(claims) % 4)))


@pytest.mark.mission("SEC-118")
def test_a_client_makes_a_token_that_is_valid() -> None:
    text = login(StringClaim_sub="???>>>", ListClaim_scope=",a,b")
    assert text is not None
    assert validate(text) == TokenRefusal("the token was issued in the future")
    assert UnsecuredValidator().validate(text, NOW_MS + 500) == BearerToken(
        "???>>>", NOW_MS + 3_600_500, frozenset({"a", "b"})
    )


def test_the_claims_of_a_client() -> None:
    assert claims_of(
        login(
            StringClaim_sub="a",
            NumberClaim_n="1.5",
            ListClaim_l="|x||y",
            ListClaim_m=",",
            LifetimeSeconds="7",
            Extension_traceId="1",
        )
    ) == {
        "exp": NOW_S + 7.5,
        "iat": NOW_S + 0.5,
        "sub": "a",
        "n": 1.5,
        "l": ["x", "", "y"],
        "m": [],
    }
    assert login(StringClaim_user="bob", PrincipalClaimName="user") is not None
    assert login() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Extension_a": "1"}, "Extensions provided in login context without a token"),
        ({"NumberClaim_n": "1"}, "No principal name in JWT claim: sub"),
        ({"StringClaim_sub": " "}, "No principal name in JWT claim: sub"),
        ({"StringClaim_exp": "1"}, "Cannot explicitly set the 'exp' claim"),
        ({"NumberClaim_iat": "1"}, "Cannot explicitly set the 'iat' claim"),
        (
            {"StringClaim_sub": "a", "NumberClaim_n": "x"},
            "The value of unsecuredLoginNumberClaim_n is not a number",
        ),
        (
            {"StringClaim_sub": "a", "NumberClaim_n": "inf"},
            "The value of unsecuredLoginNumberClaim_n is not a number",
        ),
        (
            {"StringClaim_sub": "a", "LifetimeSeconds": "-1"},
            "Invalid unsecuredLoginLifetimeSeconds: -1",
        ),
    ],
)
def test_wrong_options_of_a_client(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        login(**options)
    assert str(refused.value) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@given(
    st.one_of(
        st.text(max_size=30),
        st.dictionaries(st.sampled_from(["sub", "exp", "iat", "scope"]), JSON).map(
            lambda claims: raw(json.dumps(claims))
        ),
    )
)
def test_random_tokens_never_raise(text: str) -> None:
    outcome = UnsecuredValidator(required_scope=("a",)).validate(text, NOW_MS)
    if isinstance(outcome, BearerToken):
        assert outcome.principal_name.strip()
        assert outcome.expires_ms > NOW_MS
