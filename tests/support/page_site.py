"""A small web server for browser tests: the page's files, recordings, and a stream by hand."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

ROOT: Final = Path(__file__).resolve().parents[2]
STATIC: Final = ROOT / "minikafka" / "page" / "dashboard" / "static"
RECORDINGS: Final = ROOT / "tests" / "browser" / "recordings"
POLICY: Final = "default-src 'self'; img-src 'self' data:; style-src 'self'"
BLANK: Final = b"<!doctype html><title>blank</title><link rel=icon href=data:,>"
# What /api/session says to the holder of the page's token.
OWNER: Final = {
    "who": "token", "role": "administer", "way": "token", "may_read": True, "ways": ["token"],
    "stale": False,
}  # fmt: skip
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".ndjson": "application/x-ndjson",
    ".md": "text/plain",
    ".txt": "text/plain",
}


class HandStream:
    """What ``/api/stream`` sends. A test puts messages in; every reader gets the first ones, then
    those that are put later."""

    def __init__(self) -> None:
        self.first: list[dict[str, Any]] = []
        self.opened = 0  # connections so far
        self.last_ids: list[str] = []  # of the readers, "" without one
        self._readers: list[queue.SimpleQueue[dict[str, Any] | None]] = []
        self._lock = threading.Lock()
        self._responds = threading.Event()
        self._responds.set()

    @property
    def readers(self) -> int:
        return len(self._readers)

    def send(self, *messages: dict[str, Any]) -> None:
        with self._lock:
            for reader in self._readers:
                for message in messages:
                    reader.put(message)

    def cut(self) -> None:
        """End the connections of all readers."""
        with self._lock:
            for reader in self._readers:
                reader.put(None)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """New connections get no response until the end of the block."""
        self._responds.clear()
        try:
            yield
        finally:
            self._responds.set()

    def wait_for_turn(self) -> None:
        """Called by a new connection before it gets its response."""
        self._responds.wait()

    @contextmanager
    def reading(self, last_id: str) -> Iterator[queue.SimpleQueue[dict[str, Any] | None]]:
        reader: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._lock:
            self.opened += 1
            self.last_ids.append(last_id)
            for message in self.first:
                reader.put(message)
            self._readers.append(reader)
        try:
            yield reader
        finally:
            with self._lock:
                self._readers.remove(reader)


class PageSite:
    """Where the page is served, and what it gets."""

    def __init__(self) -> None:
        self.stream = HandStream()
        self.responses: dict[str, Any] = {"session": OWNER}  # JSON of paths below /api/
        self.posted: list[tuple[str, Any]] = []
        self.learn: Callable[[dict[str, Any]], Any] | None = None  # serves /api/learn
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def playing(self, recording: str, view: str = "cluster") -> str:
        """Return the address of a view over a recording."""
        return f"{self.url}?recording=recordings/{recording}.ndjson#/{view}"


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # a page loads many modules at once


class _Handler(BaseHTTPRequestHandler):
    site: PageSite

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/api/stream":
            self._stream()
        elif path.startswith("/api/"):
            self._respond_json(path.removeprefix("/api/"))
        elif path == "/blank":
            self._respond(BLANK, ".html")
        else:
            self._respond_file(path)

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        path = urlsplit(self.path).path.removeprefix("/api/")
        body = json.loads(self.rfile.read(length))
        if path == "learn" and self.site.learn is not None:
            self._respond(json.dumps(self.site.learn(body)).encode(), ".json")
            return
        self.site.posted.append((path, body))
        self._respond_json(path)

    def _respond_json(self, path: str) -> None:
        if path in self.site.responses:
            self._respond(json.dumps(self.site.responses[path]).encode(), ".json")
        else:
            self._respond(b'{"error": "There is no such path."}', ".json", 404)

    def _respond_file(self, path: str) -> None:
        for prefix, folder in (("/static/", STATIC), ("/recordings/", RECORDINGS)):
            file = (folder / path.removeprefix(prefix)).resolve()
            if path.startswith(prefix) and file.is_relative_to(folder) and file.is_file():
                self._respond(file.read_bytes(), file.suffix)
                return
        if path in ("/", "/learn"):
            name = "index.html" if path == "/" else "learn.html"
            self._respond((STATIC / name).read_bytes(), ".html")
        else:
            self._respond(b"no such file", ".txt", 404)

    def _respond(self, body: bytes, suffix: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", TYPES.get(suffix, "application/json"))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        with suppress(BrokenPipeError, ConnectionResetError):  # a page that was closed
            self.end_headers()
            self.wfile.write(body)

    def _stream(self) -> None:
        self.site.stream.wait_for_turn()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        (last_id,) = parse_qs(urlsplit(self.path).query).get(
            "last_event_id", [self.headers.get("Last-Event-ID", "")]
        )
        number = 0
        with self.site.stream.reading(last_id) as reader:
            while True:
                try:
                    message = reader.get(timeout=0.1)
                    if message is None:
                        return
                    number += 1
                    text = f"id: boot-{number}\ndata: {json.dumps(message)}\n\n"
                except queue.Empty:
                    text = ":\n\n"  # a reader that has gone is noticed
                try:
                    self.wfile.write(text.encode())
                except OSError:
                    return

    def log_message(self, *_: Any) -> None:
        """Nothing: a test's output is its failures."""


@contextmanager
def page_site() -> Iterator[PageSite]:
    """Serve the page at a free port."""
    site = PageSite()
    handler = type("Handler", (_Handler,), {"site": site})
    server = _Server(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    site.port = server.server_address[1]
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield site
    finally:
        site.stream.cut()
        server.shutdown()
        server.server_close()
        serving.join()
