"""The two sides of a mechanism's exchange, as ``ServerLogin`` and ``ClientLogin`` drive them.

An exchange is one login. It takes the tokens of the peer and returns the tokens to send; it is
not used again after it has succeeded or failed.
"""

from __future__ import annotations

import struct
from typing import Protocol, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.principals import Principal


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: send ``token``, and expect another one."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Success:
    """The peer is ``principal``. Send ``token``; None is sent as no raw token, and as an empty one
    in SaslAuthenticate.

    ``expires_ms`` is the wall-clock time at which the credential expires (delegation token, OAuth
    token), None if it does not.
    """

    token: bytes | None
    principal: Principal
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The login is refused.

    ``message`` is sent to the peer. None stands for the standard message, which is the same for an
    unknown user and a wrong password. ``detail`` is for the log of the broker. Neither contains a
    secret.
    """

    message: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The login failed for a reason that may be gone the next time: the connection is closed
    without a response, so that the client tries again."""

    detail: str


ServerOutcome: TypeAlias = Challenge | Success | Failure | Disconnect


class ServerExchange(Protocol):
    """A broker's side of one login."""

    def respond(self, token: bytes, wall_ms: int) -> ServerOutcome:
        """Evaluate the peer's next token. Never raises, whatever the token contains."""
        ...


class ExchangeError(Exception):
    """The server's token is wrong, so the login fails on the client's side. The message contains
    no secret."""


class ClientExchange(Protocol):
    """A client's side of one login."""

    @property
    def mechanism(self) -> str:
        """Return the name of the mechanism, as in SaslHandshake."""
        ...

    def initial_response(self) -> bytes:
        """Return the first token."""
        ...

    def respond(self, token: bytes) -> bytes | None:
        """Evaluate the server's token and return the next one, None if the login has succeeded.
        Raises ExchangeError."""
        ...


_pack_size = struct.Struct(">i").pack


@dataclass(frozen=True, slots=True)
class Send:
    """An action of a login: write this frame, which includes its size."""

    frame: bytes

    @classmethod
    def raw(cls, token: bytes) -> Send:
        """Send a token without a header, as after SaslHandshake v0."""
        return cls(_pack_size(len(token)) + token)
