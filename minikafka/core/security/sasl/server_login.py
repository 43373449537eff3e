"""The login of one connection of a SASL listener, on the broker's side (KIP-43, 152, 255, 368).

How a connection drives it. Each connection of a SASL listener has one ``ServerLogin``. The
connection cuts frames of at most ``max_frame_bytes`` (None: ``socket.request.max.bytes``) and calls
``receive`` for each of them before its request handler, and ``refuse_frame`` for a frame of another
size. It performs the returned actions in their order:

- ``Send``: write the bytes. No request is unanswered then, see ``waits_for_replies``.
- ``LoggedIn``: the connection has this principal from now on.
- ``Serve``: give the frame to the request handler. If ``serves_everything`` is true, the connection
  may stop calling ``receive``.
- ``Close``: close the connection now.
- ``CloseAfterDelay``: read nothing more; after ``connection.failed.authentication.delay.ms`` write
  the bytes, if there are any, and close the connection.

While ``waits_for_replies(frame, now_ms)`` is true and the connection has unanswered requests, it
defers the frame, as it defers requests that are served one at a time.

The states are those of Kafka's ``SaslServerAuthenticator``::

    START ----------- readable header -----> VERSIONS_OR_HANDSHAKE -- ApiVersions --> HANDSHAKE
      (the rest of that frame is served in the new state)                                |
    VERSIONS_OR_HANDSHAKE, HANDSHAKE -- SaslHandshake --> AUTHENTICATE -- tokens --> DONE
    DONE -- SaslHandshake, if the session has an end --> HANDSHAKE (re-authentication)
    HANDSHAKE -- SaslHandshake with another mechanism than before --> OTHER_MECHANISM

and FAILED from everywhere, in which frames are dropped. SaslHandshake v0 is followed by raw tokens,
v1 by SaslAuthenticate requests. Clients of Kafka 0.9 send no handshake: where GSSAPI is enabled, a
first frame that is no request is a raw token of it.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from minikafka.core.security.sasl.exchange import (
    Challenge,
    Disconnect,
    Failure,
    Send,
    ServerExchange,
    ServerOutcome,
    Success,
)
from minikafka.core.security.sasl.gssapi import MECHANISM as GSSAPI
from minikafka.core.security.sasl.scram import NONCE_BYTES, scram_nonce
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.principals import Principal
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.codec import DecodeError, EncodeError, decode
from minikafka.protocol.frames import RequestHeader, decode_request_header, encode_response
from minikafka.protocol.layout import top_fields
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.registry import RESPONSES, version_range
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from minikafka.protocol.schema import Message

MAX_RECEIVE_BYTES: Final = 524_288  # sasl.server.max.receive.size
MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1_000
_LAST_KAFKA_KEY: Final = 87  # of Kafka 3.9, which has APIs that a ZooKeeper broker does not serve
_API_KEYS: Final[Mapping[int, ApiKey]] = MappingProxyType({int(key): key for key in ApiKey})
_MAX_INT64: Final = 2**63 - 1
_MAX_SHOWN: Final = 200  # characters of a peer's text in a reason
_MAX_MESSAGE: Final = 4_000  # characters of an error message, which no version has to cut

_read_api_key = struct.Struct(">h").unpack_from


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The connection is authenticated, or authenticated again.

    ``session_end_ms`` is the monotonic time from which its requests are refused, None for never.
    ``reauthentication_ms`` is how long a re-authentication took, None for the first login.
    ``can_reauthenticate`` is false for a client that sends SaslAuthenticate v0 or raw tokens, and
    so does not learn the end of its session.
    """

    principal: Principal
    mechanism: str
    session_end_ms: int | None
    reauthentication_ms: int | None
    can_reauthenticate: bool


@dataclass(frozen=True, slots=True)
class Serve:
    """The frame is a request of an authenticated connection."""


class CloseCause(Enum):
    """Why a connection is closed at once, and what Kafka logs and counts."""

    UNEXPECTED_REQUEST = auto()  # WARN
    RAW_TOKEN_REFUSED = auto()  # DEBUG: Kafka cannot tell it from a disconnection
    LOGIN_INTERRUPTED = auto()  # DEBUG: the client may try again
    SESSION_EXPIRED = auto()  # DEBUG, expired-connections-killed-count


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection now, without bytes."""

    cause: CloseCause
    reason: str


@dataclass(frozen=True, slots=True)
class CloseAfterDelay:
    """The authentication failed: close the connection after the delay, with ``frame`` before.

    ``reason`` is for the log line at INFO, ``detail`` says more than the peer may know. Counts as a
    failed re-authentication if ``reauthentication`` is true, else as a failed authentication.
    """

    frame: bytes | None
    reason: str
    detail: str
    reauthentication: bool
    mechanism: str | None


Action: TypeAlias = Send | LoggedIn | Serve | Close | CloseAfterDelay
SERVE: Final[Sequence[Action]] = (Serve(),)


@dataclass(frozen=True, slots=True)
class EnabledMechanism:
    """A mechanism of a listener. ``start(nonce)`` begins an exchange. ``max_reauth_ms`` is
    ``connections.max.reauth.ms`` for this listener and mechanism."""

    start: Callable[[str], ServerExchange]
    max_reauth_ms: int = 0


@dataclass(frozen=True, slots=True)
class ServerLoginConfig:
    """What the logins of a listener have in common.

    ``api_versions`` returns the response to ApiVersions in a version, with a row for ApiVersions
    itself.
    """

    mechanisms: Mapping[str, EnabledMechanism]
    api_versions: Callable[[int], ApiVersionsResponse]
    max_receive_bytes: int = MAX_RECEIVE_BYTES


class _State(Enum):
    START = auto()
    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    OTHER_MECHANISM = auto()
    DONE = auto()
    FAILED = auto()


class _UnexpectedRequest(Exception):
    """The peer broke the protocol in a way that is no failed authentication."""


class ServerLogin:
    """The login of one connection: frames in, actions out. See the module's text.

    ``nonce_seed`` are at least 16 secret random bytes, from which the nonces of this connection are
    derived. ``now_ms`` is monotonic and ``wall_ms`` is Unix time: clocks that are set do not move
    the end of a session.
    """

    def __init__(self, config: ServerLoginConfig, nonce_seed: bytes) -> None:
        assert len(nonce_seed) >= 16, "a seed has at least 16 bytes"
        self._config = config
        self._nonce_seed = nonce_seed
        self._exchanges = 0  # begun so far
        self._state = _State.START
        # Client id, and name and version of the software, if ApiVersions was requested (KIP-511).
        self.software: tuple[str, str, str] | None = None
        # Of the exchange under way.
        self._mechanism: str | None = None
        self._requested = ""  # in a re-authentication with another mechanism
        self._exchange: ServerExchange | None = None
        self._framed = False  # tokens are in SaslAuthenticate requests
        self._can_reauthenticate = False
        # Of the last login.
        self._principal: Principal | None = None
        self._session_end_ms: int | None = None
        self._reauthentication_began_ms: int | None = None

    @property
    def principal(self) -> Principal | None:
        """Return who has logged in, None before the first login."""
        return self._principal

    @property
    def max_frame_bytes(self) -> int | None:
        """Return ``sasl.server.max.receive.size`` while a login is under way, else None."""
        return None if self._state is _State.DONE else self._config.max_receive_bytes

    @property
    def serves_everything(self) -> bool:
        """Whether each later frame is served: logged in, for a session without an end."""
        return self._state is _State.DONE and self._session_end_ms is None

    def waits_for_replies(self, frame: Buffer, now_ms: int) -> bool:
        """Whether ``receive`` may respond to this frame, or close the connection: then all requests
        before it need to have their replies."""
        if self._state is not _State.DONE:
            return True
        if self._session_end_ms is None:
            return False
        return now_ms >= self._session_end_ms or _api_key(frame) == ApiKey.SASL_HANDSHAKE

    def receive(self, frame: Buffer, now_ms: int, wall_ms: int) -> Sequence[Action]:
        """Process a frame, given without its size. Never raises, whatever the frame contains."""
        if self._state is _State.DONE:
            if self._session_end_ms is None:
                return SERVE
            if not self._begin_reauthentication(frame, now_ms):
                if now_ms < self._session_end_ms:
                    return SERVE
                self._state = _State.FAILED
                return (Close(CloseCause.SESSION_EXPIRED, "the session of the client has expired"),)
        elif self._state is _State.FAILED:
            return ()
        elif len(frame) > self._config.max_receive_bytes:
            return self.refuse_frame(f"a frame of {len(frame)} bytes")
        try:
            if self._state is _State.OTHER_MECHANISM:
                return self._fail(
                    None,
                    f"SASL mechanism '{_shown(self._requested)}' requested by client is not "
                    f"supported for re-authentication of mechanism '{self._mechanism}'",
                )
            if self._state is not _State.AUTHENTICATE:
                return self._receive_request(memoryview(bytes(frame)), now_ms, wall_ms)
            if self._framed:
                return self._receive_authenticate(memoryview(bytes(frame)), now_ms, wall_ms)
            return self._receive_raw_token(bytes(frame), now_ms, wall_ms)
        except (_UnexpectedRequest, DecodeError) as error:
            self._state = _State.FAILED
            return (Close(CloseCause.UNEXPECTED_REQUEST, str(error)),)

    def refuse_frame(self, detail: str) -> Sequence[Action]:
        """Process the size of a frame that is negative or above ``max_frame_bytes``."""
        if self._state is _State.DONE:
            self._state = _State.FAILED
            return (Close(CloseCause.UNEXPECTED_REQUEST, detail),)
        if self._state is _State.FAILED:
            return ()
        reason = "Failing SASL authentication due to invalid receive size"
        return self._fail(None, reason, detail)

    # -- before the tokens: ApiVersions and SaslHandshake

    def _receive_request(self, frame: memoryview, now_ms: int, wall_ms: int) -> Sequence[Action]:
        try:
            header, position = decode_request_header(frame)
            if not 0 <= header.api_key <= _LAST_KAFKA_KEY:
                raise DecodeError(f"unknown API key {header.api_key}")
        except DecodeError as error:
            if self._state is not _State.START:
                raise
            if GSSAPI in self._config.mechanisms:
                self._begin_exchange(GSSAPI, framed=False)
                return self._receive_raw_token(bytes(frame), now_ms, wall_ms)
            return self._fail(
                None,
                "Exception handling first SASL packet from client, GSSAPI is not supported by "
                "server",
                str(error),
            )
        if self._state is _State.START:
            self._state = _State.VERSIONS_OR_HANDSHAKE
        if header.api_key == ApiKey.API_VERSIONS:
            return (self._answer_api_versions(header, frame, position),)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            request = decode(SaslHandshakeRequest, header.api_version, frame, position)
            return self._answer_handshake(header, request.mechanism)
        return self._fail(
            None, f"Unexpected Kafka request of type {_api_name(header)} during SASL handshake."
        )

    def _answer_api_versions(self, header: RequestHeader, frame: memoryview, position: int) -> Send:
        if self._state is not _State.VERSIONS_OR_HANDSHAKE:
            raise _UnexpectedRequest("ApiVersions was requested a second time during the login")
        version = header.api_version
        response = self._config.api_versions(version)
        own = next(row for row in response.api_keys if row.api_key == ApiKey.API_VERSIONS)
        if not own.min_version <= version <= own.max_version:
            error = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [own])
            return _response(header, error, version=0)
        request = decode(ApiVersionsRequest, version, frame, position)
        if not request.is_valid(version):
            return _response(header, ApiVersionsResponse(ErrorCode.INVALID_REQUEST))
        name, number = request.client_software_name, request.client_software_version
        self.software = (header.client_id or "", name, number)
        self._state = _State.HANDSHAKE
        return _response(header, response)

    def _answer_handshake(self, header: RequestHeader, mechanism: str) -> Sequence[Action]:
        names = list(self._config.mechanisms)
        if mechanism not in self._config.mechanisms:
            refusal = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, names)
            # In a re-authentication, Kafka closes without the response.
            frame = None if self._principal is not None else _response(header, refusal).frame
            return self._fail(frame, f"Unsupported SASL mechanism {_shown(mechanism)}")
        if self._principal is not None and mechanism != self._mechanism:
            # The client learns of it only by the close, so that Kafka counts the failure.
            self._requested = mechanism
            self._state = _State.OTHER_MECHANISM
        else:
            self._begin_exchange(mechanism, framed=header.api_version >= 1)
        return (_response(header, SaslHandshakeResponse(ErrorCode.NONE, names)),)

    def _begin_exchange(self, mechanism: str, framed: bool) -> None:
        self._mechanism = mechanism
        self._exchange = self._config.mechanisms[mechanism].start(self._next_nonce())
        self._framed = framed
        self._can_reauthenticate = False
        self._state = _State.AUTHENTICATE

    def _next_nonce(self) -> str:
        self._exchanges += 1
        label = b"scram nonce %d" % self._exchanges
        return scram_nonce(hmac.digest(self._nonce_seed, label, "sha256")[:NONCE_BYTES])

    # -- the tokens

    def _receive_authenticate(
        self, frame: memoryview, now_ms: int, wall_ms: int
    ) -> Sequence[Action]:
        header, position = decode_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return self._refuse_other_request(header)
        request = decode(SaslAuthenticateRequest, header.api_version, frame, position)
        self._can_reauthenticate |= header.api_version > 0
        outcome = self._respond(bytes(request.auth_bytes), wall_ms)
        if isinstance(outcome, Failure):
            message = (outcome.message or self._standard_message())[:_MAX_MESSAGE]
            refusal = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
            return self._fail(_response(header, refusal).frame, message, outcome.detail)
        if isinstance(outcome, Disconnect):
            self._state = _State.FAILED
            return (Close(CloseCause.LOGIN_INTERRUPTED, outcome.detail),)
        response = SaslAuthenticateResponse(auth_bytes=outcome.token or b"")
        if isinstance(outcome, Challenge):
            return (_response(header, response),)
        lifetime_ms, logged_in = self._log_in(outcome, now_ms, wall_ms)
        response.session_lifetime_ms = lifetime_ms
        return (_response(header, response), logged_in)

    def _refuse_other_request(self, header: RequestHeader) -> Sequence[Action]:
        """Refuse a request that is not SaslAuthenticate. Kafka decodes its body first; here no
        decoder of another API is open to a peer that has not logged in."""
        api_key = _API_KEYS.get(header.api_key)
        if api_key is None:
            raise _UnexpectedRequest(f"unknown API key {header.api_key}")
        version = header.api_version
        first, last = version_range(api_key)
        if not first <= version <= last:
            if api_key is not ApiKey.API_VERSIONS:
                raise _UnexpectedRequest(f"{api_key.api_name} has no version {version}")
            version = 0
        reason = f"Unexpected Kafka request of type {api_key.name} during SASL authentication."
        return self._fail(_illegal_state(header, api_key, version, reason), reason)

    def _receive_raw_token(self, token: bytes, now_ms: int, wall_ms: int) -> Sequence[Action]:
        outcome = self._respond(token, wall_ms)
        if isinstance(outcome, Failure):
            if outcome.message is not None:
                return self._fail(None, outcome.message, outcome.detail)
            self._state = _State.FAILED
            return (Close(CloseCause.RAW_TOKEN_REFUSED, outcome.detail),)
        if isinstance(outcome, Disconnect):
            self._state = _State.FAILED
            return (Close(CloseCause.LOGIN_INTERRUPTED, outcome.detail),)
        if isinstance(outcome, Challenge):
            return (Send.raw(outcome.token),)
        logged_in = self._log_in(outcome, now_ms, wall_ms)[1]
        return (logged_in,) if outcome.token is None else (Send.raw(outcome.token), logged_in)

    def _respond(self, token: bytes, wall_ms: int) -> ServerOutcome:
        assert self._exchange is not None
        outcome = self._exchange.respond(token, wall_ms)
        before = self._principal
        if isinstance(outcome, Success) and before is not None and outcome.principal != before:
            message = (
                "Cannot change principals during re-authentication from "
                f"{_dotted(before)}: {_dotted(outcome.principal)}"
            )
            return Failure(message, message)
        return outcome

    def _log_in(self, success: Success, now_ms: int, wall_ms: int) -> tuple[int, LoggedIn]:
        """Return the session's lifetime in milliseconds, 0 for no end, and the login."""
        assert self._mechanism is not None
        max_reauth_ms = self._config.mechanisms[self._mechanism].max_reauth_ms
        lifetime_ms = session_lifetime_ms(max_reauth_ms, success.expires_ms, wall_ms)
        self._session_end_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        took_ms = None
        if self._principal is not None and self._reauthentication_began_ms is not None:
            took_ms = now_ms - self._reauthentication_began_ms
        self._principal = success.principal
        self._exchange = None
        self._state = _State.DONE
        return lifetime_ms or 0, LoggedIn(
            success.principal,
            self._mechanism,
            self._session_end_ms,
            took_ms,
            self._can_reauthenticate,
        )

    # -- after the login

    def _begin_reauthentication(self, frame: Buffer, now_ms: int) -> bool:
        """Start a re-authentication if the frame is a SaslHandshake, but at most once a second: a
        handshake that comes earlier is an ordinary request, which is refused."""
        if _api_key(frame) != ApiKey.SASL_HANDSHAKE:
            return False
        before = self._reauthentication_began_ms
        if before is not None and now_ms - before < MIN_REAUTHENTICATION_INTERVAL_MS:
            return False
        self._reauthentication_began_ms = now_ms
        self._state = _State.HANDSHAKE
        return True

    # -- failures

    def _fail(self, frame: bytes | None, reason: str, detail: str | None = None) -> tuple[Action]:
        self._state = _State.FAILED
        self._exchange = None
        return (
            CloseAfterDelay(
                frame, reason, detail or reason, self._principal is not None, self._mechanism
            ),
        )

    def _standard_message(self) -> str:
        kind = "authentication" if self._principal is None else "re-authentication"
        return (
            f"Authentication failed during {kind} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )


def session_lifetime_ms(max_reauth_ms: int, expires_ms: int | None, wall_ms: int) -> int | None:
    """Return how long a session lasts from ``wall_ms`` on, None for a session without an end
    (KIP-368). A credential that has expired already gives 0."""
    limits = [max_reauth_ms] if max_reauth_ms > 0 else []
    if expires_ms is not None:
        limits.append(max(0, expires_ms - wall_ms))
    return min(*limits, _MAX_INT64) if limits else None


def _response(header: RequestHeader, message: Message, version: int | None = None) -> Send:
    version = header.api_version if version is None else version
    return Send(encode_response(header.correlation_id, message, version))


def _illegal_state(
    header: RequestHeader, api_key: ApiKey, version: int, reason: str
) -> bytes | None:
    """Return the response of an API with ILLEGAL_SASL_STATE where this version has a field for it,
    None if the version cannot be encoded without more."""
    response: Any = RESPONSES[api_key]()
    fields = top_fields(type(response), version)
    if "error_code" in fields:
        response.error_code = ErrorCode.ILLEGAL_SASL_STATE
    if "error_message" in fields:
        response.error_message = reason
    try:
        return encode_response(header.correlation_id, response, version)
    except EncodeError:
        return None


def _api_key(frame: Buffer) -> int | None:
    key: int | None = _read_api_key(frame)[0] if len(frame) >= 2 else None
    return key


def _api_name(header: RequestHeader) -> str:
    api_key = _API_KEYS.get(header.api_key)
    return str(header.api_key) if api_key is None else api_key.name


def _dotted(principal: Principal) -> str:
    return f"{principal.type}.{principal.name}"


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
