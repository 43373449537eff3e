"""A small HTTP server, in a thread of the driver, from which Prometheus reads metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

from minikafka.spark.query_metrics import CONTENT_TYPE

PATH: Final = "/metrics"
_REQUEST_TIMEOUT_S: Final = 10


class MetricsServer:
    """Serves ``text()`` under ``/metrics`` until it is closed. Port 0: the system chooses one.

    Raises OSError if the port is taken."""

    def __init__(self, text: Callable[[], str], port: int, host: str = "127.0.0.1") -> None:
        class ScrapeHandler(BaseHTTPRequestHandler):
            timeout = _REQUEST_TIMEOUT_S

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != PATH:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                body = text().encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write no line for each request."""

        self._server = ThreadingHTTPServer((host, port), ScrapeHandler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{PATH}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
