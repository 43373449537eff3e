"""The login of a client, or of a broker that connects to another one, on a SASL listener.

How a connection drives it. It creates one ``ClientLogin``, calls ``begin`` as soon as it is
connected, and gives each received frame to ``receive`` until the login is over. It performs the
returned actions in their order:

- ``Send``: write the bytes.
- ``ClientLoggedIn``: send requests from now on. Before the first request at or after
  ``reauthenticate_at_ms``, call ``begin`` again with a new exchange.
- ``LoginFailed``: close the connection, and report the error; logging in again without another
  credential is of no use.

During a re-authentication the broker accepts no other request: the connection holds further ones
back. Requests that it sent before still get their responses, in order, before the first frame for
``receive``. A broker that refuses a raw token closes the connection without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias, TypeVar

from minikafka.core.security.sasl.exchange import ClientExchange, ExchangeError, Send
from minikafka.core.security.sasl.gssapi import MECHANISM as GSSAPI
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from minikafka.protocol.messages.registry import version_range
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from minikafka.protocol.schema import Message

# Correlation ids of a login, as in Kafka: those of other requests are far below.
FIRST_CORRELATION_ID: Final = 2**31 - 8
LAST_CORRELATION_ID: Final = 2**31 - 1
# Which part of a session passes before the client authenticates again: at least the first, and up
# to the second more, so that the clients of a restarted broker do not all come together.
SESSION_PART: Final = 0.85
SESSION_JITTER: Final = 0.10

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class ClientLoggedIn:
    """The connection may send requests. ``session_lifetime_ms`` is None if the broker named no end
    of the session; then ``reauthenticate_at_ms`` is None, too."""

    session_lifetime_ms: int | None
    reauthenticate_at_ms: int | None


@dataclass(frozen=True, slots=True)
class LoginFailed:
    """The login failed: with the broker's error, or with what is wrong with its responses."""

    error: KafkaError


ClientAction: TypeAlias = Send | ClientLoggedIn | LoginFailed


class _State(Enum):
    IDLE = auto()  # before a login, or after a successful one
    VERSIONS = auto()  # waits for the response to ApiVersions
    HANDSHAKE = auto()
    TOKENS = auto()
    FAILED = auto()


class ClientLogin:
    """The logins of one connection: frames in, actions out. See the module's text.

    ``known_versions`` are the broker's rows of ApiVersions, if the caller knows them; otherwise the
    login begins with ApiVersions v0, which every broker understands.
    """

    def __init__(
        self, client_id: str | None, known_versions: Iterable[ApiVersion] | None = None
    ) -> None:
        self._client_id = client_id
        self._state = _State.IDLE
        self._correlation_id = LAST_CORRELATION_ID
        self._version = 0  # of the request that waits for its response
        self._handshake_version = 0
        self._authenticate_version: int | None = None  # None: raw tokens
        self._knows_versions = known_versions is not None
        if known_versions is not None:
            self._choose_versions(known_versions)
        self._exchange: ClientExchange | None = None
        self._jitter = 0.0
        self._lifetime_ms = 0

    @property
    def in_progress(self) -> bool:
        """Whether the next frame belongs to the login."""
        return self._state in (_State.VERSIONS, _State.HANDSHAKE, _State.TOKENS)

    def begin(self, exchange: ClientExchange, jitter: float) -> Sequence[ClientAction]:
        """Start a login, or a re-authentication. ``jitter`` is a random number from 0 to 1."""
        assert self._state is _State.IDLE, "one login at a time"
        assert 0 <= jitter <= 1
        self._exchange = exchange
        self._jitter = jitter
        self._lifetime_ms = 0
        if self._knows_versions:
            return (self._send_handshake(exchange),)
        self._state = _State.VERSIONS
        return (self._request(ApiVersionsRequest(), 0),)

    def receive(self, frame: Buffer, now_ms: int) -> Sequence[ClientAction]:
        """Process a frame, given without its size, while ``in_progress``. Never raises, whatever
        the frame contains. With SCRAM one of the calls computes PBKDF2."""
        assert self.in_progress
        assert self._exchange is not None
        try:
            return (self._process(frame, self._exchange, now_ms),)
        except KafkaError as error:
            return self._fail(error)
        except ExchangeError as error:
            return self._fail(KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)))
        except DecodeError as error:
            message = f"the server may expect another protocol, its response is unreadable: {error}"
            return self._fail(KafkaError(ErrorCode.ILLEGAL_SASL_STATE, message))

    def _process(self, frame: Buffer, exchange: ClientExchange, now_ms: int) -> ClientAction:
        if self._state is _State.VERSIONS:
            versions = self._response(ApiVersionsResponse, frame)
            _check(versions.error_code, None)
            self._choose_versions(versions.api_keys)
            self._knows_versions = True
            return self._send_handshake(exchange)
        if self._state is _State.HANDSHAKE:
            _check_handshake(self._response(SaslHandshakeResponse, frame), exchange.mechanism)
            if exchange.mechanism == GSSAPI and self._authenticate_version is None:
                # Its last token has no response there, and no error either.
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, "GSSAPI needs a broker of Kafka 1.0 or later"
                )
            self._state = _State.TOKENS
            return self._send_token(exchange.initial_response())
        if self._authenticate_version is None:
            token = bytes(frame)
        else:
            response = self._response(SaslAuthenticateResponse, frame)
            _check(response.error_code, response.error_message)
            self._lifetime_ms = max(self._lifetime_ms, response.session_lifetime_ms)
            token = bytes(response.auth_bytes)
        answer = exchange.respond(token)
        return self._logged_in(now_ms) if answer is None else self._send_token(answer)

    def _choose_versions(self, rows: Iterable[ApiVersion]) -> None:
        highest = {row.api_key: row.max_version for row in rows}
        handshake = highest.get(ApiKey.SASL_HANDSHAKE, 0)
        authenticate = highest.get(ApiKey.SASL_AUTHENTICATE)
        if handshake < 1 or authenticate is None:
            self._handshake_version, self._authenticate_version = 0, None
            return
        self._handshake_version = min(handshake, version_range(ApiKey.SASL_HANDSHAKE)[1])
        self._authenticate_version = min(authenticate, version_range(ApiKey.SASL_AUTHENTICATE)[1])

    def _send_handshake(self, exchange: ClientExchange) -> Send:
        self._state = _State.HANDSHAKE
        return self._request(SaslHandshakeRequest(exchange.mechanism), self._handshake_version)

    def _send_token(self, token: bytes) -> Send:
        if self._authenticate_version is None:
            return Send.raw(token)
        return self._request(SaslAuthenticateRequest(token), self._authenticate_version)

    def _logged_in(self, now_ms: int) -> ClientLoggedIn:
        self._state = _State.IDLE
        self._exchange = None
        if self._lifetime_ms <= 0:
            return ClientLoggedIn(None, None)
        part = SESSION_PART + SESSION_JITTER * self._jitter
        return ClientLoggedIn(self._lifetime_ms, now_ms + int(self._lifetime_ms * part))

    def _fail(self, error: KafkaError) -> Sequence[ClientAction]:
        self._state = _State.FAILED
        self._exchange = None
        return (LoginFailed(error),)

    def _request(self, message: Message, version: int) -> Send:
        assert message.SPEC.api_key is not None
        last = self._correlation_id == LAST_CORRELATION_ID
        self._correlation_id = FIRST_CORRELATION_ID if last else self._correlation_id + 1
        self._version = version
        header = RequestHeader(message.SPEC.api_key, version, self._correlation_id, self._client_id)
        return Send(encode_request(header, message))

    def _response(self, kind: type[M], frame: Buffer) -> M:
        """Decode the response to the last request. Raises DecodeError."""
        correlation_id, message = decode_response(kind, self._version, memoryview(frame))
        if correlation_id != self._correlation_id:
            raise DecodeError(
                f"correlation id {correlation_id} where {self._correlation_id} was expected"
            )
        return message


def _check(error_code: int, message: str | None) -> None:
    """Raises KafkaError with the broker's message."""
    if error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(error_code), message or None)


def _check_handshake(response: SaslHandshakeResponse, mechanism: str) -> None:
    """Raises KafkaError with the message of Kafka's client."""
    enabled = f"enabled mechanisms are [{', '.join(response.mechanisms)}]"
    code = ErrorCode(response.error_code)
    if code is ErrorCode.NONE:
        return
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise KafkaError(
            code, f"Client SASL mechanism '{mechanism}' not enabled in the server, {enabled}"
        )
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        raise KafkaError(
            code, f"Unexpected handshake request with client mechanism {mechanism}, {enabled}"
        )
    raise KafkaError(
        ErrorCode.ILLEGAL_SASL_STATE,
        f"Unknown error code {code.name}, client mechanism is {mechanism}, {enabled}",
    )
