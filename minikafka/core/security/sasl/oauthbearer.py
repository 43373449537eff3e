"""OAUTHBEARER (RFC 7628): login with a token of an OAuth provider.

A refused token is answered with a challenge, a JSON text that says why. The client acknowledges it
with one byte, and only then the login fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, TypeAlias

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
