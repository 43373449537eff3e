"""PLAIN (RFC 4616): user name and password in one token."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from minikafka.core.security.sasl.exchange import Failure, ServerOutcome, Success
from minikafka.kernel.principals import Principal

MECHANISM: Final = "PLAIN"
_PARTS = 3


class PlainServer:
    """A broker's side of PLAIN, with the error messages of Kafka's ``PlainSaslServer``.

    ``password_of(user)`` returns the password of a user, None if there is no such user.
    """

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self._password_of = password_of

    def respond(self, token: bytes, wall_ms: int) -> ServerOutcome:
        # As Kafka does, count no more than one part too many.
        parts = token.decode(errors="replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            return _failed(
                f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
            )
        authorization_id, user, password = parts
        if not user:
            return _failed("Authentication failed: username not specified")
        if not password:
            return _failed("Authentication failed: password not specified")
        expected = self._password_of(user)
        # An unknown user takes the same comparison, so that the time tells nothing.
        matches = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not matches:
            why = "unknown user" if expected is None else "wrong password"
            return Failure("Authentication failed: Invalid username or password", why)
        if authorization_id not in ("", user):
            return _failed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        return Success(b"", Principal(user))


class PlainClient:
    """A client's side of PLAIN. Send it over TLS only: the token holds the password."""

    mechanism = MECHANISM

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password

    def initial_response(self) -> bytes:
        return f"\0{self._user}\0{self._password}".encode()

    def respond(self, token: bytes) -> bytes | None:
        return None


def _failed(message: str) -> Failure:
    return Failure(message, message)
