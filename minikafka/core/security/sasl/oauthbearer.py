"""OAUTHBEARER (RFC 7628): login with a token of an OAuth provider.

A refused token is answered with a challenge, a JSON text that says why. The client acknowledges it
with one byte, and only then the login fails.

Kafka's default are unsecured JSON web tokens, which nobody has signed. Anybody can make such a
token for any principal, so it is for tests and development only. As in Kafka, header and claims are
decoded by the standard base64 alphabet, not by that of URLs, and the claim ``nbf`` is not looked
at.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from minikafka.core.security.sasl.exchange import (
    Challenge,
    ExchangeError,
    Failure,
    ServerOutcome,
    Success,
)
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.principals import Principal

MECHANISM: Final = "OAUTHBEARER"
_ACKNOWLEDGEMENT = b"\x01"
_MAX_SHOWN = 200  # characters of a peer's text in a message

_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = rb"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST = re.compile(rb"n,(?:a=(?P<authzid>%b))?,\x01(?P<pairs>(?:%b)*)\x01" % (_NAME, _PAIR))
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """What a valid token says."""

    principal_name: str
    expires_ms: int
    scope: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """Why a token is refused. The client gets ``status`` and ``scope``, the log gets ``detail``.

    ``unknown_key_id`` is set if the token may be signed with a key that is not loaded yet.
    """

    detail: str
    status: str = "invalid_token"
    scope: str | None = None
    unknown_key_id: str | None = field(default=None, kw_only=True)

    def to_json(self) -> str:
        """Return the text that Kafka sends, with its blanks."""
        scope = "" if self.scope is None else f', "scope":"{self.scope}"'
        return f'{{"status":"{self.status}"{scope}}}'


# Checks a token at a wall-clock time. Never raises, whatever the token contains.
TokenValidator: TypeAlias = Callable[[str, int], BearerToken | TokenRefusal]


class OAuthBearerServer:
    """A broker's side of OAUTHBEARER. Like Kafka's validators, it accepts all extensions."""

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._refusal: TokenRefusal | None = None  # sent, and not acknowledged yet

    def respond(self, token: bytes, wall_ms: int) -> ServerOutcome:
        if self._refusal is not None and token == _ACKNOWLEDGEMENT:
            return Failure(self._refusal.to_json(), self._refusal.detail)
        self._refusal = None
        match = _FIRST.fullmatch(token)
        if match is None:
            return Failure(None, "the first message of the client is malformed")
        pairs = dict(
            pair.split("=", 1) for pair in match["pairs"].decode("ascii").split("\x01") if pair
        )
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None:
            return Failure(None, "the client sent no token, or a malformed one")
        if auth["scheme"].lower() != "bearer":
            return Failure(None, f"the client sent the scheme {auth['scheme'][:_MAX_SHOWN]}")
        result = self._validate(auth["token"], wall_ms)
        if isinstance(result, TokenRefusal):
            self._refusal = result
            return Challenge(result.to_json().encode())
        authorization_id = "" if match["authzid"] is None else _unescaped(match["authzid"])
        if authorization_id not in ("", result.principal_name):
            message = (
                "Authentication failed: Client requested an authorization id "
                f"({authorization_id[:_MAX_SHOWN]}) that is different from the token's principal "
                f"name ({result.principal_name[:_MAX_SHOWN]})"
            )
            return Failure(message, message)
        return Success(b"", Principal(result.principal_name), result.expires_ms)


class OAuthBearerClient:
    """A client's side of OAUTHBEARER. ``token`` is in the form in which the provider gave it.

    Raises ValueError for an extension that cannot be sent.
    """

    mechanism = MECHANISM

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._token = token
        self._extensions = dict(extensions or {})
        self._refused = False
        for name, value in self._extensions.items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
                raise ValueError(f"Extension name {name} is invalid")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"The value of extension {name} is invalid")

    def initial_response(self) -> bytes:
        pairs = [f"auth=Bearer {self._token}"]
        pairs += [f"{name}={value}" for name, value in self._extensions.items()]
        return ("n,,\x01" + "\x01".join(pairs) + "\x01\x01").encode()

    def respond(self, token: bytes) -> bytes | None:
        if self._refused:
            raise ExchangeError("the server goes on after it has refused the token")
        if not token:
            return None
        # The server's error follows the acknowledgement, and has the same text.
        self._refused = True
        return _ACKNOWLEDGEMENT


def _unescaped(name: bytes) -> str:
    return name.decode("ascii").replace("=2C", ",").replace("=3D", "=")


_MAX_INT64 = 2**63 - 1
_SCOPE_ITEM = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_VALIDATOR = "unsecuredValidator"
_LOGIN = "unsecuredLogin"


@dataclass(frozen=True, slots=True)
class UnsecuredValidator:
    """The validator of unsecured tokens, with the options of the JAAS entry."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> UnsecuredValidator:
        """Read the options ``unsecuredValidator...`` of a JAAS entry. Raises ValueError."""
        required = options.get(f"{_VALIDATOR}RequiredScope", "").split()
        for item in required:
            if not _SCOPE_ITEM.fullmatch(item):
                raise ValueError(f"Invalid scope value: {item}")
        skew = options.get(f"{_VALIDATOR}AllowableClockSkewMs", "").strip() or "0"
        if not re.fullmatch(r"[0-9]{1,10}", skew) or int(skew) >= 2**31:
            raise ValueError(f"Invalid {_VALIDATOR}AllowableClockSkewMs: {skew}")
        return cls(
            options.get(f"{_VALIDATOR}PrincipalClaimName", "").strip() or "sub",
            options.get(f"{_VALIDATOR}ScopeClaimName", "").strip() or "scope",
            tuple(required),
            int(skew),
        )

    def validate(self, token: str, wall_ms: int) -> BearerToken | TokenRefusal:
        """Check a token (a ``TokenValidator``)."""
        try:
            claims = _unsecured_claims(token)
            name = principal_name(claims, self.principal_claim)
            scope = _scope(claims, self.scope_claim)
            expires = number_claim(claims, "exp")
            issued = number_claim(claims, "iat")
        except ValueError as error:
            return TokenRefusal(str(error))
        if expires is None:
            return TokenRefusal("No expiration time in JWT")
        if issued is not None and 1000 * issued > wall_ms + self.clock_skew_ms:
            return TokenRefusal("the token was issued in the future")
        if wall_ms - self.clock_skew_ms >= 1000 * expires:
            return TokenRefusal("the token has expired")
        if issued is not None and expires <= issued:
            return TokenRefusal("the token expires before it was issued")
        for item in self.required_scope:
            if item not in scope:
                wanted = f"[{', '.join(self.required_scope)}]"
                return TokenRefusal(
                    f"the token lacks the scope {item}", "insufficient_scope", wanted
                )
        return BearerToken(name, milliseconds(expires), scope)


def unsecured_token(options: Mapping[str, str], wall_ms: int) -> str | None:
    """Return a token of a client as the JAAS options ``unsecuredLogin...`` say, None without
    options: such an entry is for brokers that accept logins only. Raises ValueError."""
    claims: dict[str, Any] = {}
    for key, value in options.items():
        for kind in ("StringClaim_", "NumberClaim_", "ListClaim_"):
            name = key.removeprefix(_LOGIN + kind)
            if name == key or not name:
                continue
            if name in ("iat", "exp"):
                raise ValueError(f"Cannot explicitly set the '{name}' claim")
            claims[name] = _login_claim(kind, key, value)
    if not options:
        return None
    if all(key.startswith(f"{_LOGIN}Extension_") for key in options):
        raise ValueError("Extensions provided in login context without a token")
    lifetime = options.get(f"{_LOGIN}LifetimeSeconds", "3600")
    if not re.fullmatch(r"[0-9]{1,12}", lifetime):
        raise ValueError(f"Invalid {_LOGIN}LifetimeSeconds: {lifetime}")
    claims = {"exp": wall_ms / 1000 + int(lifetime), "iat": wall_ms / 1000, **claims}
    principal_name(claims, options.get(f"{_LOGIN}PrincipalClaimName", "").strip() or "sub")
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


# -- claims, which the validator of signed tokens reads in the same way


def json_object(data: bytes) -> Mapping[str, Any]:
    """Decode a JSON object. Raises ValueError."""
    try:
        value = json.loads(data.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("malformed JSON") from None
    except ValueError as error:
        raise ValueError("malformed JSON") from error
    if not isinstance(value, dict):
        raise ValueError("malformed JSON: not an object")
    return value


def number_claim(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a claim that is a finite number. Raises ValueError."""
    value = claims.get(name)
    if value is None:
        return None
    try:
        number = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError(f"The '{name}' claim is not a number")
    return number


def principal_name(claims: Mapping[str, Any], name: str) -> str:
    """Return the claim that names the principal. Raises ValueError."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"No principal name in JWT claim: {name}")
    return _checked(value, name)


def string_list(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return a claim that is a string or a list of strings. Raises ValueError."""
    value = claims.get(name)
    values = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in values):
        raise ValueError(f"The '{name}' claim is neither a string nor a list of strings")
    return [_checked(item, name) for item in values]


def milliseconds(seconds: float) -> int:
    """Return a time of a token in milliseconds, within the range of a Kafka timestamp."""
    return max(-_MAX_INT64, min(_MAX_INT64, round(seconds * 1000)))


def _checked(text: str, name: str) -> str:
    """JSON can express halves of characters, which cannot be encoded again."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"The '{name}' claim is not valid Unicode") from None
    return text


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _unsecured_claims(token: str) -> Mapping[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("an unsecured token has three parts, separated by dots")
    header, claims = (json_object(_standard_base64(part)) for part in parts[:2])
    if header.get("alg") != "none":
        raise ValueError("Unsecured JWS must have 'none' for an algorithm")
    if parts[2]:
        raise ValueError("Unsecured JWS must not contain a digital signature")
    return claims


def _standard_base64(text: str) -> bytes:
    """Decode as Java does: the padding may be missing. Raises ValueError."""
    padding = "" if text.endswith("=") else "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text + padding, validate=True)
    except binascii.Error as error:
        raise ValueError("malformed base64") from error


def _scope(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """A string is one scope, whatever blanks it contains."""
    return frozenset(item.strip() for item in string_list(claims, name) if item.strip())


def _login_claim(kind: str, key: str, value: str) -> Any:
    if kind == "StringClaim_":
        return value
    if kind == "ListClaim_":  # the first character separates the elements
        return value[1:].split(value[0]) if len(value) > 1 else []
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"The value of {key} is not a number")
    return number


def _encoded(value: Mapping[str, Any]) -> str:
    """Encode in the alphabet that Kafka's validator decodes."""
    return base64.b64encode(json.dumps(value).encode()).decode().rstrip("=")
