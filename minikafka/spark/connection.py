"""A blocking connection to one broker, for the Python processes that Spark starts."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections import deque
from typing import Any, Final

from minikafka.core.client.calls import request_version
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.schema import Message
from minikafka.spark.client_options import ClientOptions

_SIZE: Final = struct.Struct(">i")
_LARGEST_FRAME: Final = (1 << 31) - 1
_MAX_CORRELATION_ID: Final = (1 << 31) - 1


class BlockingConnection:
    """A connection that sends requests and receives the responses in the same order.

    After a network failure the connection is closed, and a KafkaError is raised: REQUEST_TIMED_OUT
    if the broker does not respond in time, otherwise NETWORK_EXCEPTION."""

    def __init__(self, host: str, port: int, options: ClientOptions) -> None:
        self.peer = f"{host}:{port}"
        self._address = (host, port)
        self._options = options
        self._socket: socket.socket | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        # Response class, version and correlation id of each request in flight. Callers limit it.
        self._waiting: deque[tuple[type[Message], int, int]] = deque()
        self._next_correlation_id = 0

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def open(self) -> None:
        """Connect and request the broker's API versions. Raises KafkaError."""
        try:
            self._socket = socket.create_connection(
                self._address, self._options.connection_setup_timeout_ms / 1000
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(self._options.request_timeout_ms / 1000)
        except OSError as error:
            raise self._failure(error, "cannot connect to") from error
        self._send(ApiVersionsRequest(), 0)  # the version that every broker supports
        response = self.receive()
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self.close()
            raise KafkaError(code, f"{self.peer} sent no API versions")
        self._versions = {r.api_key: (r.min_version, r.max_version) for r in response.api_keys}

    def version_for(self, message: Message, highest_version: int | None = None) -> int:
        """Return the highest version of a request that both sides support.

        It is at most ``highest_version``. Raises KafkaError UNSUPPORTED_VERSION for none."""
        return request_version(message, self._versions, self.peer, highest_version)

    def send(self, message: Message, highest_version: int | None = None) -> None:
        """Send a request, in the version of ``version_for``, without waiting for the response.

        Raises KafkaError."""
        self._send(message, self.version_for(message, highest_version))

    def send_and_forget(self, message: Message) -> None:
        """Send a Produce request with acks=0, to which brokers do not respond.

        Raises KafkaError."""
        self._send(message, self.version_for(message))
        self._waiting.pop()

    def request(self, message: Message, highest_version: int | None = None) -> Any:
        """Send a request and return its response. No other request may be in flight. Raises
        KafkaError."""
        assert not self._waiting, "other requests are in flight"
        self.send(message, highest_version)
        return self.receive()

    def receive(self) -> Any:
        """Wait for the response to the oldest request in flight and return it. Raises KafkaError.

        Records in it are memoryviews, which stay valid after later calls."""
        if not self._waiting:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to {self.peer} is gone")
        response_class, version, expected = self._waiting.popleft()
        try:
            (size,) = _SIZE.unpack(self._read(_SIZE.size))
            if not 4 <= size <= _LARGEST_FRAME:
                raise OSError(f"a frame of {size} bytes")
            correlation_id, message = decode_response(response_class, version, self._read(size))
            if correlation_id != expected:
                raise OSError(f"response {correlation_id} to request {expected}")
        except (OSError, DecodeError) as error:
            raise self._failure(error, "lost") from error
        return message

    def close(self) -> None:
        self._waiting.clear()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _send(self, message: Message, version: int) -> None:
        if self._socket is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"not connected to {self.peer}")
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
