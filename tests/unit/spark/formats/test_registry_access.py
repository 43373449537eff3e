"""The blocking client of registries, against a server that notes its requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from minikafka.spark.formats.registry_access import (
    FormatError,
    RegistryAccess,
    schema_by_id,
    schema_by_version,
)

PARTS: dict[str, Any] = {
    "/schemas/ids/7?format=serialized": {
        "schema": "outer",
        "references": [{"name": "a.B", "subject": "in/ner", "version": 2}],
    },
    "/subjects/in%2Fner/versions/2?format=serialized": {"id": 3, "schema": "inner"},
}


class NotingServer(ThreadingHTTPServer):
    """Serves ``PARTS``; any other path is redirected to another registry."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: NotingServer

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers["Authorization"]))
        found = PARTS.get(self.path)
        self.send_response(302 if found is None else 200)
        if found is None:
            self.send_header("Location", f"{self.server.url}/schemas/ids/7?format=serialized")
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[NotingServer]:
    with NotingServer() as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.mission("FMT-3")
def test_a_schema_with_references_is_looked_up_once(server: NotingServer) -> None:
    access = RegistryAccess(f"http://127.0.0.1:1,{server.url}", token="t0ken")
    first = schema_by_id(access, 7)
    assert (first.kind, first.text) == ("AVRO", "outer")
    ((name, inner),) = first.references
    assert (name, inner.id, inner.text) == ("a.B", 3, "inner")
    assert schema_by_id(access, 7) is first
    assert server.requests == [(path, "Bearer t0ken") for path in PARTS]


@pytest.mark.mission("FMT-6")
def test_a_login_is_not_carried_to_where_a_registry_redirects(server: NotingServer) -> None:
    access = RegistryAccess(server.url, user="ann", password="s3cret")
    with pytest.raises(FormatError, match=r"\(302\)"):
        schema_by_version(access, "other", "latest")
    assert server.requests == [
        ("/subjects/other/versions/latest?format=serialized", "Basic YW5uOnMzY3JldA==")
    ]
