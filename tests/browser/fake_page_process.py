"""A page process without a cluster: it serves the page's files, one snapshot as a stream that
stays open, and responses to requests that a test chooses. What the page posts is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

STATIC = Path(__file__).resolve().parents[2] / "minikafka" / "page" / "dashboard" / "static"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self'"

Query: TypeAlias = Mapping[str, str]
Reply: TypeAlias = Callable[[Query, Any], Any]  # of the query and the posted JSON


class Refusal(Exception):
    """The request fails with this sentence."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # a page loads many modules at once


class FakePageProcess:
    """``replies``: by path, such as ``/api/topics``; ``posts``: path and body of each POST."""

    def __init__(self, messages: Sequence[Mapping[str, Any]], replies: Mapping[str, Reply]) -> None:
        self.messages = list(messages)
        self.replies = dict(replies)
        self.posts: list[tuple[str, Any]] = []
        self.gets: list[tuple[str, Query]] = []
        self.address = ""
        self._more = threading.Condition()
        self._over = False

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a further message to all streams, those that open later too."""
        with self._more:
            self.messages.append(message)
            self._more.notify_all()

    def stream(self) -> Iterator[Mapping[str, Any]]:
        number = 0
        while True:
            with self._more:
                while not self._over and len(self.messages) <= number:
                    self._more.wait()
                if self._over:
                    return
                message = self.messages[number]
            yield message
            number += 1

    @contextmanager
    def running(self) -> Iterator[FakePageProcess]:
        server = _Server(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.address = f"http://127.0.0.1:{server.server_port}/"
        try:
            yield self
        finally:
            with self._more:
                self._over = True
                self._more.notify_all()
            server.shutdown()
            server.server_close()
            thread.join()


def _handler(process: FakePageProcess) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            found = urlsplit(self.path)
            path, query = unquote(found.path), dict(parse_qsl(found.query))
            if path == "/api/stream":
                return self._stream()
            if path.startswith("/api/"):
                process.gets.append((path, query))
                return self._reply(path, query, None)
            if path == "/recording.ndjson":
                lines = "".join(f"{json.dumps(message)}\n" for message in process.messages)
                return self._send(HTTPStatus.OK, "application/x-ndjson", lines.encode())
            file = STATIC / ("index.html" if path == "/" else path.removeprefix("/static/"))
            if not file.is_file():
                return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"")
            return self._send(HTTPStatus.OK, TYPES[file.suffix], file.read_bytes())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            process.posts.append((self.path, body))
            self._reply(self.path, {}, body)

        def _reply(self, path: str, query: Query, body: Any) -> None:
            reply = process.replies.get(path)
            try:
                if reply is None:
                    raise Refusal(f"there is no {path}")
                status, found = HTTPStatus.OK, reply(query, body)
            except Refusal as error:
                status, found = HTTPStatus.BAD_REQUEST, {"error": str(error)}
            self._send(status, "application/json", json.dumps(found).encode())

        def handle(self) -> None:
            with suppress(OSError):  # the page was closed in the middle of a response
                super().handle()

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("content-security-policy", POLICY)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for message in process.stream():
                self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())

    return Handler
