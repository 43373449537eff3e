"""Serves a directory on the loopback interface, as any web server would serve the static site."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class StaticServer:
    """``url`` ends with a slash. ``sent_bytes`` counts the bodies that were sent."""

    def __init__(self, directory: Path, headers: Mapping[str, str]) -> None:
        self.sent_bytes = 0
        handler = partial(_Handler, directory=str(directory), site=self, headers=headers)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def stop(self) -> None:
        """End it: connections are refused from now on. It may be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(
        self, *args: Any, site: StaticServer, headers: Mapping[str, str], **kwargs: Any
    ) -> None:
        self._site = site
        self._more_headers = headers
        super().__init__(*args, **kwargs)

    def end_headers(self) -> None:
        for name, value in self._more_headers.items():
            self.send_header(name, value)
        super().end_headers()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        self._site.sent_bytes += len(content)
        outputfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def serving(directory: Path, headers: Mapping[str, str] | None = None) -> Iterator[StaticServer]:
    """Serve a directory while the context is open; ``headers`` are added to every response."""
    server = StaticServer(directory, headers or {})
    try:
        yield server
    finally:
        server.stop()
