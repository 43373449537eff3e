"""Unsecured JSON web tokens, which nobody has signed: Kafka's default for OAUTHBEARER.

Anybody can make such a token for any principal, so it is for tests and development only. As in
Kafka, header and claims are decoded by the standard base64 alphabet, not by that of URLs, and the
claim ``nbf`` is not looked at.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from minikafka.core.security.sasl.oauthbearer import BearerToken, TokenRefusal
from minikafka.kernel.lazy_dataclass import dataclass

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


def unsecured_extensions(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the extensions that the JAAS options ``unsecuredLoginExtension_...`` name."""
    prefix = f"{_LOGIN}Extension_"
    return {
        key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)
    }


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
