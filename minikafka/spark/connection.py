"""A blocking connection to one broker, for the Python processes that Spark starts.

It uses the same requests, frames, versions and logins as ``minikafka.client``, from ``core``,
``protocol`` and ``network``, but a blocking socket in place of an event loop. With the client's
``Connections`` on the loop of another thread, each Python worker would import asyncio and uvloop,
about 0.2 s of CPU beside the 0.3 s of what a reader needs, and each request would take two changes
of thread: a Metadata request took 2.1 to 2.6 times the CPU, in three runs on a busy machine.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from minikafka.core.client.calls import request_version
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.schema import Message
from minikafka.spark.client_options import ClientOptions, is_plaintext

if TYPE_CHECKING:
    from minikafka.spark.secured import BlockingLogin

_SIZE: Final = struct.Struct(">i")
_LARGEST_FRAME: Final = (1 << 31) - 1
_MAX_CORRELATION_ID: Final = (1 << 31) - 1


class BlockingConnection:
    """A connection that sends requests and receives the responses in the same order.

    It speaks TLS and logs in as its options say, and logs in again before its session ends. After a
    network failure the connection is closed, and a KafkaError is raised: REQUEST_TIMED_OUT if the
    broker does not respond in time, otherwise NETWORK_EXCEPTION."""

    def __init__(self, host: str, port: int, options: ClientOptions) -> None:
        self.peer = f"{host}:{port}"
        self._address = (host, port)
        self._options = options
        self._socket: socket.socket | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        # Response class, version and correlation id of each request in flight. Callers limit it.
        self._waiting: deque[tuple[type[Message], int, int]] = deque()
        # Responses that came before a re-authentication and were not received by the caller yet.
        self._received: deque[Any] = deque()
        self._login: BlockingLogin | None = None
        self._next_correlation_id = 0

    @property
    def in_flight(self) -> int:
        return len(self._received) + len(self._waiting)

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def open(self) -> None:
        """Connect, log in and request the broker's API versions.

        Raises KafkaError, also for a refused login; ConfigError and TlsError for keys and
        certificates that cannot be used."""
        options = self._options
        try:
            self._socket = socket.create_connection(
                self._address, options.connection_setup_timeout_ms / 1000
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not is_plaintext(options.security):
                self._secure(self._socket)
            self._socket.settimeout(options.request_timeout_ms / 1000)
        except OSError as error:
            raise self._failure(error, "cannot connect to") from error
        except ValueError:  # ConfigError, TlsError
            self.close()
            raise
        self._send(ApiVersionsRequest(), 0)  # the version that every broker supports
        response = self.receive()
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self.close()
            raise KafkaError(code, f"{self.peer} sent no API versions")
        self._versions = {r.api_key: (r.min_version, r.max_version) for r in response.api_keys}

    def _secure(self, plain: socket.socket) -> None:
        """Begin with TLS and a login. Raises OSError, KafkaError, ConfigError, TlsError."""
        from minikafka.spark.secured import login_of, secured_socket

        security = self._options.security
        self._socket = secured_socket(plain, self._address[0], security)
        self._login = login_of(security, self._options.client_id)
        if self._login is not None:
            self._log_in(self._login)

    def _log_in(self, login: BlockingLogin) -> None:
        """Raises OSError, and KafkaError for a refused login, after which the connection is
        closed."""
        assert self._socket is not None
        try:
            login.run(self._socket.sendall, self._read_frame)
        except KafkaError as error:
            self.close()
            raise KafkaError(error.code, f"{self.peer}: {error.message}") from None

    def version_for(self, message: Message, highest_version: int | None = None) -> int:
        """Return the highest version of a request that both sides support.

        It is at most ``highest_version``. Raises KafkaError UNSUPPORTED_VERSION for none."""
        return request_version(message, self._versions, self.peer, highest_version)

    def send(self, message: Message, highest_version: int | None = None) -> None:
        """Send a request, in the version of ``version_for``, without waiting for the response.

        Raises KafkaError."""
        self._send(message, self.version_for(message, highest_version))

    def send_and_forget(self, message: Message, highest_version: int | None = None) -> None:
        """Send a Produce request with acks=0, to which brokers do not respond.

        Raises KafkaError."""
        self._send(message, self.version_for(message, highest_version))
        self._waiting.pop()

    def request(self, message: Message, highest_version: int | None = None) -> Any:
        """Send a request and return its response. No other request may be in flight. Raises
        KafkaError."""
        assert not self.in_flight, "other requests are in flight"
        self.send(message, highest_version)
        return self.receive()

    def receive(self) -> Any:
        """Wait for the response to the oldest request in flight and return it. Raises KafkaError.

        Records in it are memoryviews, which stay valid after later calls."""
        return self._received.popleft() if self._received else self._receive_next()

    def _receive_next(self) -> Any:
        if not self._waiting:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to {self.peer} is gone")
        response_class, version, expected = self._waiting.popleft()
        try:
            correlation_id, message = decode_response(response_class, version, self._read_frame())
            if correlation_id != expected:
                raise OSError(f"response {correlation_id} to request {expected}")
        except (OSError, DecodeError) as error:
            raise self._failure(error, "lost") from error
        return message

    def close(self) -> None:
        self._waiting.clear()
        self._received.clear()
        self._login = None
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _send(self, message: Message, version: int) -> None:
        if self._socket is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"not connected to {self.peer}")
        if self._login is not None and self._login.is_due:
            self._log_in_again(self._login)
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        key = message.SPEC.api_key
        assert key is not None
        header = RequestHeader(int(key), version, correlation_id, self._options.client_id)
        self._waiting.append((_response_class(message), version, correlation_id))
        try:
            self._socket.sendall(encode_request(header, message))
        except OSError as error:
            raise self._failure(error, "lost") from error

    def _log_in_again(self, login: BlockingLogin) -> None:
        """Log in after the responses to the requests in flight, which ``receive`` returns later.
        Raises KafkaError."""
        while self._waiting:
            self._received.append(self._receive_next())
        try:
            self._log_in(login)
        except OSError as error:
            raise self._failure(error, "lost") from error

    def _read_frame(self) -> memoryview:
        """Read a frame, and return it without its size. Raises OSError."""
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if not 4 <= size <= _LARGEST_FRAME:
            raise OSError(f"a frame of {size} bytes")
        return self._read(size)

    def _read(self, size: int) -> memoryview:
        assert self._socket is not None, "closed while a response is awaited"
        view = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                raise OSError("closed by the broker")
            filled += count
        return view

    def _failure(self, error: Exception, what: str) -> KafkaError:
        self.close()
        if isinstance(error, TimeoutError):
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{self.peer} does not respond")
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{what} {self.peer}: {error}")


def _response_class(message: Message) -> type[Message]:
    """Return the response class, from the module of the request's class.

    The registry of all messages is not used because importing it takes a Python worker 0.2 s."""
    request = type(message)
    name = request.__name__.removesuffix("Request") + "Response"
    found: type[Message] = getattr(sys.modules[request.__module__], name)
    return found
