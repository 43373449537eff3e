"""A TCP proxy in front of a broker's listener, which records the controller's requests."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_request_header

CONTROL_REQUESTS = {
    int(key): key for key in (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)
}
_SIZE = struct.Struct(">i")
_CHUNK = 65536


class RecordingProxy(socketserver.ThreadingTCPServer):
    """Forwards connections to ``127.0.0.1:target``. For each LeaderAndIsr, StopReplica and
    UpdateMetadata request it calls ``record`` with the header and the body, on the connection's
    thread, before it forwards the request.

    A client's connection is closed at once while nobody listens on the target's port.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, target: int, record: Callable[[RequestHeader, bytes], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.target = target
        self.record = record
        self.port: int = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections. Those that are open end with the broker."""
        self.shutdown()
        self.server_close()


class _Connection(socketserver.StreamRequestHandler):
    server: RecordingProxy

    def handle(self) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self.server.target))
        except ConnectionRefusedError:
            return
        with broker:
            threading.Thread(target=self._responses, args=(broker,), daemon=True).start()
            with contextlib.suppress(OSError):  # either side may reset its connection
                self._requests(broker)
            _end(broker)

    def _requests(self, broker: socket.socket) -> None:
        while len(size := self.rfile.read(_SIZE.size)) == _SIZE.size:
            frame = self.rfile.read(*_SIZE.unpack(size))
            header, body = decode_request_header(memoryview(frame))
            if header.api_key in CONTROL_REQUESTS:
                self.server.record(header, frame[body:])
            broker.sendall(size + frame)

    def _responses(self, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := broker.recv(_CHUNK):
                self.connection.sendall(chunk)
        _end(self.connection)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
