"""Signed JSON web tokens: whose signature and claims are accepted, and when keys are loaded again.

Kafka's ``OAuthBearerValidatorCallbackHandler`` has the same rules. Only algorithms with a public
key are accepted: neither ``none``, nor an HMAC, which could be keyed with the public key.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from minikafka.core.security.sasl.oauthbearer import (
    BearerToken,
    TokenRefusal,
    json_object,
    milliseconds,
    number_claim,
    principal_name,
    string_list,
)
from minikafka.kernel.lazy_dataclass import dataclass

MIN_RSA_BITS: Final = 2048
# The rules of Kafka's ``RefreshingHttpsJwks``.
REFRESH_AGAIN_MS: Final = 60_000
REMEMBERED_KEY_IDS: Final = 16
MAX_KEY_ID_CHARACTERS: Final = 1_000


class KeyType(NamedTuple):
    """The key that an algorithm takes: ``kty`` and, for elliptic curves, ``crv`` of its JWK."""

    kty: str
    curves: tuple[str, ...] = ()


ALGORITHMS: Final[Mapping[str, KeyType]] = MappingProxyType(
    {
        **{name: KeyType("RSA") for name in ("RS256", "RS384", "RS512")},
        **{name: KeyType("RSA") for name in ("PS256", "PS384", "PS512")},
        "ES256": KeyType("EC", ("P-256",)),
        "ES384": KeyType("EC", ("P-384",)),
        "ES512": KeyType("EC", ("P-521",)),
        "EdDSA": KeyType("OKP", ("Ed25519", "Ed448")),
    }
)


class SignatureLibrary(Protocol):
    """The cryptography: ``jose_signatures.JoserfcLibrary``. Its methods raise ValueError and no
    other exception, whatever is given to them."""

    def import_key(self, jwk: Mapping[str, Any]) -> object:
        """Return a public key for ``payload``. Raises ValueError for a key that is not usable."""
        ...

    def payload(self, token: str, key: object, algorithm: str) -> bytes:
        """Verify the signature of a token in compact form, and return what is signed. Raises
        ValueError."""
        ...


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key of a JWK set, and for which tokens it may be used."""

    key: object
    kty: str
    crv: str | None
    key_id: str | None
    algorithm: str | None


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of a JWK set. ``left_out`` says of the other ones why they cannot verify."""

    keys: Sequence[VerificationKey]
    left_out: Sequence[str]

    @property
    def key_ids(self) -> Sequence[str]:
        return [key.key_id for key in self.keys if key.key_id is not None]

    def select(self, algorithm: str, key_id: str | None) -> VerificationKey | None:
        """Return the first key for a token with this header. A token without a key id may be
        signed with any key of the algorithm's type."""
        wanted = ALGORITHMS[algorithm]
        for key in self.keys:
            if (
                key.kty == wanted.kty
                and (not wanted.curves or key.crv in wanted.curves)
                and key_id in (None, key.key_id)
                and key.algorithm in (None, algorithm)
            ):
                return key
        return None


def parse_key_set(data: bytes, library: SignatureLibrary) -> KeySet:
    """Parse the response of a JWKS endpoint. Raises ValueError if it is not a JWK set."""
    rows = json_object(data).get("keys")
    if not isinstance(rows, list):
        raise ValueError("the JWK set has no list of keys")
    keys: list[VerificationKey] = []
    left_out: list[str] = []
    for number, row in enumerate(rows):
        try:
            keys.append(_verification_key(row, library))
        except ValueError as error:
            left_out.append(f"key {number}: {error}")
    return KeySet(keys, left_out)


@dataclass(frozen=True, slots=True)
class SecuredValidator:
    """The validator of signed tokens, with the settings ``sasl.oauthbearer.*``."""

    library: SignatureLibrary
    expected_issuer: str | None = None
    expected_audience: frozenset[str] = frozenset()
    scope_claim: str = "scope"
    principal_claim: str = "sub"
    clock_skew_s: int = 30

    def validate(self, token: str, keys: KeySet, wall_ms: int) -> BearerToken | TokenRefusal:
        """Check a token. If the result has an ``unknown_key_id``, the caller asks ``KeyRefresh``
        whether to load the keys again; this login fails in any case."""
        try:
            algorithm, key_id = _header(token)
            key = keys.select(algorithm, key_id)
            if key is None:
                return TokenRefusal(
                    f"no key for the algorithm {algorithm} and the key id of the token",
                    unknown_key_id=key_id,
                )
            claims = json_object(self.library.payload(token, key.key, algorithm))
            expires = self._check_times(claims, wall_ms // 1000)
            self._check_issuer(claims)
            self._check_audience(claims)
            name = principal_name(claims, self.principal_claim).strip()
            return BearerToken(name, milliseconds(expires), self._scope(claims))
        except ValueError as error:
            return TokenRefusal(str(error))

    def _check_times(self, claims: Mapping[str, Any], now_s: int) -> int:
        """Return the expiry in seconds. Fractions of a second do not count."""
        expires, issued, not_before = (
            None if (value := number_claim(claims, name)) is None else int(value)
            for name in ("exp", "iat", "nbf")
        )
        if expires is None or expires < 0:
            raise ValueError("the token has no expiration time")
        if issued is None or issued < 0:
            raise ValueError("the token does not say when it was issued")
        if now_s - self.clock_skew_s >= expires:
            raise ValueError("the token has expired")
        if expires < issued:
            raise ValueError("the token expires before it was issued")
        if not_before is not None:
            if now_s + self.clock_skew_s < not_before:
                raise ValueError("the token is not valid yet")
            if expires < not_before:
                raise ValueError("the token expires before it is valid")
        return expires

    def _check_issuer(self, claims: Mapping[str, Any]) -> None:
        if self.expected_issuer is not None and claims.get("iss") != self.expected_issuer:
            raise ValueError("the token is from another issuer")

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        audience = string_list(claims, "aud")
        if not self.expected_audience:
            if audience:
                raise ValueError("the token is for an audience, and no audience is expected")
        elif self.expected_audience.isdisjoint(audience):
            raise ValueError("the token is for another audience")

    def _scope(self, claims: Mapping[str, Any]) -> frozenset[str]:
        scope = [item.strip() for item in string_list(claims, self.scope_claim)]
        if "" in scope:
            raise ValueError(f"{self.scope_claim} value must be non-empty")
        if len(set(scope)) < len(scope):
            raise ValueError(f"{self.scope_claim} value must not contain duplicates")
        return frozenset(scope)


class KeyRefresh:
    """Decides whether the keys are loaded before their next turn, because a token names a key id
    that is not among them: at once, but once a minute for each key id."""

    def __init__(self) -> None:
        # The time until which a key id is not asked for again, in the order of the last question.
        self._not_before_ms: OrderedDict[str, int] = OrderedDict()

    def is_due(self, key_id: str, now_ms: int) -> bool:
        """Return whether to load the keys now. True is returned once, for the caller to act on."""
        if len(key_id) > MAX_KEY_ID_CHARACTERS:
            return False
        not_before_ms = self._not_before_ms.get(key_id)
        if not_before_ms is not None and now_ms < not_before_ms:
            self._not_before_ms.move_to_end(key_id)
            return False
        self._not_before_ms[key_id] = now_ms + REFRESH_AGAIN_MS
        self._not_before_ms.move_to_end(key_id)
        if len(self._not_before_ms) > REMEMBERED_KEY_IDS:
            self._not_before_ms.popitem(last=False)
        return True

    def loaded(self, key_ids: Iterable[str]) -> None:
        """Forget key ids that are known now. After a failed load nothing changes: the old keys stay
        in use."""
        for key_id in key_ids:
            self._not_before_ms.pop(key_id, None)


def retry_wait_ms(attempt: int, elapsed_ms: int, backoff_ms: int, max_ms: int) -> int | None:
    """Return how long to wait after the ``attempt``-th failed request (from 1), ``elapsed_ms``
    after the first one began; None to give up: ``max_ms`` (``...retry.backoff.max.ms``) bounds the
    attempts together."""
    wait_ms = min(backoff_ms << min(attempt - 1, 32), max_ms - elapsed_ms)
    return wait_ms if wait_ms > 0 else None


def _header(token: str) -> tuple[str, str | None]:
    """Return the algorithm and the key id of a token in compact form. Raises ValueError."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise ValueError("a signed token has three parts, separated by dots")
    header = json_object(_url_base64(parts[0]))
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise ValueError("the algorithm of the token is not accepted")
    if "crit" in header:
        raise ValueError("the header of the token has critical parameters")
    key_id = header.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        raise ValueError("the key id of the token is not a string")
    return algorithm, key_id


def _verification_key(row: Any, library: SignatureLibrary) -> VerificationKey:
    """Raises ValueError for a key that cannot verify signatures."""
    if not isinstance(row, dict):
        raise ValueError("it is not an object")
    kty, crv, key_id, algorithm, use = (
        _text(row, name) for name in ("kty", "crv", "kid", "alg", "use")
    )
    if kty not in {accepted.kty for accepted in ALGORITHMS.values()}:
        raise ValueError("its type is not that of a public key for signatures")
    assert kty is not None
    operations = row.get("key_ops", ["verify"])
    if use not in (None, "sig") or not isinstance(operations, list) or "verify" not in operations:
        raise ValueError("it is not for the verification of signatures")
    if kty == "RSA":
        bits = int.from_bytes(_url_base64(_text(row, "n") or ""), "big").bit_length()
        if bits < MIN_RSA_BITS:
            raise ValueError(f"it has {bits} bits, at least {MIN_RSA_BITS} are required")
    return VerificationKey(library.import_key(row), kty, crv, key_id, algorithm)


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"its '{name}' is not a string")
    return value


def _url_base64(text: str) -> bytes:
    """Decode base64 in the alphabet of URLs, without padding. Raises ValueError."""
    try:
        if "+" in text or "/" in text or "=" in text:
            raise ValueError("malformed base64")
        standard = text.translate({ord("-"): "+", ord("_"): "/"})
        return base64.b64decode(standard + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError("malformed base64") from error
