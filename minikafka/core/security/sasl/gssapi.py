"""GSSAPI (RFC 4752): login with a ticket of Kerberos.

The two sides first establish a security context, which a ``SecurityContext`` does. Then they agree
on a layer for all later bytes: the server offers layers, and the client chooses one. As with Kafka
only "no layer" is offered, so nothing of Kerberos protects what follows the login: use SASL_SSL.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from minikafka.core.security.kerberos_names import KerberosNameError
from minikafka.core.security.sasl.exchange import (
    Challenge,
    Disconnect,
    ExchangeError,
    Failure,
    ServerOutcome,
    Success,
)
from minikafka.kernel.kerberos import Initiation, KerberosError, SecurityContext
from minikafka.kernel.principals import Principal

MECHANISM: Final = "GSSAPI"
# The library parses no token above this size, which is that of the largest ticket of Windows.
MAX_TOKEN_BYTES: Final = 65_536
_MAX_DETAIL: Final = 500  # characters of a message of the library, which shows the peer's names
_NO_LAYER: Final = 1  # the bit of "no security layer"
# The layers, and the largest message with a layer in three bytes: 0 without one.
_LAYERS: Final = bytes((_NO_LAYER, 0, 0, 0))


class _State(Enum):
    CONTEXT = auto()
    EMPTY = auto()  # the server has sent its last token of the context: the client's is empty
    LAYER = auto()
    OVER = auto()


class GssapiServer:
    """A broker's side of GSSAPI. ``short_name`` is that of ``KerberosShortNamer``.

    The authorization id of the client has no effect, as with Kafka: the principal is always that of
    the ticket."""

    def __init__(self, context: SecurityContext, short_name: Callable[[str], str]) -> None:
        self._context = context
        self._short_name = short_name
        self._state = _State.CONTEXT

    def respond(self, token: bytes, wall_ms: int) -> ServerOutcome:
        if len(token) > MAX_TOKEN_BYTES:
            return self._refused(f"a token of {len(token)} bytes")
        try:
            return self._respond(token)
        except KerberosError as error:
            if error.retriable:
                self._state = _State.OVER
                return Disconnect(str(error)[:_MAX_DETAIL])
            return self._refused(str(error))
        except KerberosNameError as error:
            return self._refused(str(error))

    def _respond(self, token: bytes) -> ServerOutcome:
        if self._state is _State.CONTEXT:
            response = self._context.step(token)
            if not self._context.is_established:
                return Challenge(response)
            if response:
                self._state = _State.EMPTY
                return Challenge(response)
            return self._offer_layers()
        if self._state is _State.EMPTY:
            if token:
                return self._refused("a token where an empty one was expected")
            return self._offer_layers()
        if self._state is _State.OVER:
            return self._refused("a token after the end of the exchange")
        chosen = self._context.unwrap(token)
        if len(chosen) < len(_LAYERS):
            return self._refused(f"the choice of a layer has {len(chosen)} bytes")
        if chosen[0] != _NO_LAYER:
            return self._refused(f"the client chose layer {chosen[0]}, which was not offered")
        name = self._short_name(self._context.initiator)
        if not name:
            return self._refused(f"the short name of {self._context.initiator} is empty")
        self._state = _State.OVER
        return Success(None, Principal(name))

    def _offer_layers(self) -> Challenge:
        self._state = _State.LAYER
        return Challenge(self._context.wrap(_LAYERS))

    def _refused(self, detail: str) -> Failure:
        self._state = _State.OVER
        return Failure(None, detail[:_MAX_DETAIL])


class GssapiClient:
    """A client's side of GSSAPI, for a context that ``Kerberos.initiate`` has begun."""

    mechanism = MECHANISM

    def __init__(self, begun: Initiation) -> None:
        self._context = begun.context
        self._first = begun.token
        self._state = _State.LAYER if self._context.is_established else _State.CONTEXT

    def initial_response(self) -> bytes:
        return self._first

    def respond(self, token: bytes) -> bytes | None:
        if len(token) > MAX_TOKEN_BYTES:
            raise ExchangeError(f"the server sent a token of {len(token)} bytes")
        try:
            return self._respond(token)
        except KerberosError as error:
            raise ExchangeError(str(error)[:_MAX_DETAIL]) from error

    def _respond(self, token: bytes) -> bytes | None:
        if self._state is _State.CONTEXT:
            response = self._context.step(token)
            if self._context.is_established:
                self._state = _State.LAYER
            return response
        if self._state is _State.LAYER:
            offered = self._context.unwrap(token)
            if len(offered) != len(_LAYERS) or not offered[0] & _NO_LAYER:
                raise ExchangeError("the server demands a security layer, which Kafka has not")
            self._state = _State.OVER
            return self._context.wrap(_LAYERS)  # and no authorization id: the ticket's principal
        if token:
            raise ExchangeError("the server goes on after the end of the exchange")
        return None
