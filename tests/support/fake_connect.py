"""A worker of Kafka Connect as its REST API shows it: what it has, and which requests it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORKER = "10.0.0.1:8083"
TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: no such file\n\tat Task.poll(Task.java:1)"
)


class FakeConnect:
    """``connectors``: by name, as ``expand=info&expand=status`` has them. ``changes``: method,
    path and login of each request that is no GET. ``rebalances``: refuse everything."""

    def __init__(self) -> None:
        self.connectors = {
            "files": connector("files", "source", {"topic": "lines", "db.password": "geheim"}),
            "a/b c": connector("a/b c", "sink", {"topics": "x, y", "url": "db://u:geheim@h"}, 0),
        }
        self.changes: list[tuple[str, str, str | None]] = []
        self.rebalances = False
        self.url = ""

    def reply(self, method: str, path: str) -> tuple[int, Any]:
        """Return status and JSON, None for no body."""
        if self.rebalances:
            return 409, {"error_code": 409, "message": "Cannot complete request momentarily"}
        if method != "GET":
            return {"restart": 204, "pause": 202, "resume": 202, "stop": 204}[
                path.partition("?")[0].rpartition("/")[2]
            ], None
        if path == "/":
            return 200, {"version": "3.9.1", "commit": "c", "kafka_cluster_id": "k"}
        if path == "/connectors?expand=info&expand=status":
            return 200, self.connectors
        name, _, what = path.removeprefix("/connectors/").partition("/")
        found = self.connectors.get(name.replace("%2F", "/").replace("%20", " "))
        if found is None:
            return 404, {"error_code": 404, "message": f"Connector {name} not found"}
        if what == "topics":
            used = {found["info"]["name"]: {"topics": ["lines"]}}
            return (200, used) if name == "files" else (403, {"error_code": 403, "message": "off"})
        return 200, found["status" if what == "status" else "info"]

    @contextmanager
    def running(self) -> Iterator[FakeConnect]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def connector(name: str, kind: str, config: dict[str, str], *failed: int) -> dict[str, Any]:
    """A connector with two tasks, of which those in ``failed`` have a trace."""
    tasks = [
        {"id": task, "worker_id": WORKER}
        | ({"state": "FAILED", "trace": TRACE} if task in failed else {"state": "RUNNING"})
        for task in (1, 0)
    ]
    numbers = [{"connector": name, "task": task} for task in (0, 1)]
    own = {"state": "RUNNING", "worker_id": WORKER}
    return {
        "info": {"name": name, "type": kind, "config": config, "tasks": numbers},
        "status": {"name": name, "type": kind, "connector": own, "tasks": tasks},
    }


def _handler(fake: FakeConnect) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _respond(self) -> None:
            if self.command != "GET":
                fake.changes.append((self.command, self.path, self.headers.get("Authorization")))
            status, found = fake.reply(self.command, self.path)
            body = b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _respond

    return Handler
