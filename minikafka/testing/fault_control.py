"""Control of faults over HTTP, for tests in any language.

``HttpFaults`` turns a request into a call and its outcome into JSON; ``control_server`` serves it
on the loopback interface, with the server of the standard library: a thread for each connection,
which blocks while a call is carried out. ``GET /`` describes the paths.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from minikafka.kernel.errors import KafkaError
from minikafka.server.faults.request_faults import RequestFaults
from minikafka.server.listeners.http_server import names_loopback
from minikafka.testing.fault_documents import (
    FAULTS,
    SELECTED,
    BadControl,
    arguments_of,
    document,
    fault,
    fields,
    kind_of,
)

HOST: Final = "127.0.0.1"
MAX_BODY_BYTES: Final = 64 * 1024
TIMEOUT_S: Final = 60  # of a silent connection

HELP_OF_FAULTS: Final[Mapping[str, Any]] = {
    "GET /": "this text",
    "POST /faults": {
        "fault": list(FAULTS),
        "fields": {name: list(fields) for name, fields in FAULTS.items()},
        "of every fault of requests": list(SELECTED),
        "example": {"fault": "answer", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce"},
    },
    "GET /faults": "all faults, with their hits",
    "GET /faults/ID": "one fault",
    "POST /faults/ID/release": "let go on what a hold keeps",
    "DELETE /faults/ID": "remove a fault",
    "DELETE /faults": "remove all faults",
    "GET /requests?api=Produce&client_id=app&broker=1": "the last requests, from the oldest",
}

# Carries out a request for another path (method, path, body), and returns the value to send; None
# if there is no such path.
OtherPaths: TypeAlias = Callable[[str, list[str], bytes], Any]


class Fault(Protocol):
    """A fault that was added."""

    @property
    def hits(self) -> int: ...

    def remove(self) -> object: ...

    def describe(self) -> str: ...


class OtherFault(NamedTuple):
    """A fault that does not concern requests: its fields, those that are needed, and what adds
    it."""

    fields: tuple[str, ...]
    needed: tuple[str, ...]
    add: Callable[..., Fault]


class ControlReply(NamedTuple):
    """An HTTP status, and a value that is sent as JSON."""

    status: HTTPStatus
    value: Any


class HttpFaults:
    """Carries out the requests; its methods block, and may be called from any thread. ``help_text``
    describes what ``other_paths`` serves. ``other_faults`` are added as those of requests are."""

    def __init__(
        self,
        request_faults: RequestFaults,
        other_paths: OtherPaths = lambda method, path, body: None,
        help_text: Mapping[str, Any] | None = None,
        other_faults: Mapping[str, OtherFault] | None = None,
    ) -> None:
        self._request_faults = request_faults
        self._other_paths = other_paths
        self._other_faults = other_faults or {}
        self._help = {**HELP_OF_FAULTS, **(help_text or {})}
        self._help["POST /faults"] = self._help_of_adding()
        self._faults: dict[int, Fault] = {}
        self._numbers = itertools.count(1)

    def handle(self, method: str, target: str, body: bytes) -> ControlReply:
        """Return the outcome of a request. ``target`` is its path, with the query."""
        parts = urlsplit(target)
        path = [word for word in parts.path.split("/") if word]
        try:
            value = self._handle(method, path, dict(parse_qsl(parts.query)), body)
        except (BadControl, ValueError, TypeError) as error:
            return ControlReply(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except (KafkaError, RuntimeError, OSError) as error:
            return ControlReply(HTTPStatus.CONFLICT, {"error": str(error)})
        if value is None:
            paths = list(self._help)
            return ControlReply(
                HTTPStatus.NOT_FOUND, {"error": f"no {method} here", "paths": paths}
            )
        return ControlReply(HTTPStatus.OK, value)

    def add(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Add a fault that a JSON object describes. Raises BadControl and ValueError."""
        other = self._other_faults.get(kind_of(wanted, self._other_faults))
        added: Fault
        if other is not None:
            added = other.add(**arguments_of(wanted, other.fields, other.needed))
        else:
            kind, arguments = fault(wanted)
            added = getattr(self._request_faults, kind)(**arguments)
        number = next(self._numbers)
        self._faults[number] = added
        return self._shown(number)

    def remove_all(self) -> list[dict[str, Any]]:
        """Remove all faults, and return them as JSON."""
        return [self._remove(number) for number in list(self._faults)]

    def _handle(self, method: str, path: list[str], query: dict[str, str], body: bytes) -> Any:
        """Return the value to send; None if there is no such path."""
        match method, *path:
            case ("GET",):
                return self._help
            case "POST", "faults":
                return self.add(document(body))
            case "GET", "faults":
                return [self._shown(number) for number in self._faults]
            case "DELETE", "faults":
                return self.remove_all()
            case "GET", "faults", text:
                return self._shown(self._number(text))
            case "DELETE", "faults", text:
                return self._remove(self._number(text))
            case "POST", "faults", text, "release":
                release = getattr(self._faults[self._number(text)], "release", None)
                if release is None:
                    raise BadControl("only a hold keeps requests")
                release()
                return self._shown(self._number(text))
            case "GET", "requests":
                return self._requests(query)
            case _:
                return self._other_paths(method, path, body)

    def _help_of_adding(self) -> Mapping[str, Any]:
        text = HELP_OF_FAULTS["POST /faults"]
        others = {name: list(other.fields) for name, other in self._other_faults.items()}
        return {
            **text,
            "fault": [*text["fault"], *others],
            "fields": {**text["fields"], **others},
        }

    def _number(self, text: str) -> int:
        number = int(text) if text.isdecimal() else 0
        if number not in self._faults:
            raise BadControl(f"no fault {text!r}; there are {[*self._faults]}")
        return number

    def _remove(self, number: int) -> dict[str, Any]:
        self._faults[number].remove()
        shown = self._shown(number)
        del self._faults[number]
        return shown

    def _shown(self, number: int) -> dict[str, Any]:
        handle = self._faults[number]
        return {"id": number, "fault": handle.describe(), "hits": handle.hits}

    def _requests(self, query: dict[str, str]) -> list[dict[str, Any]]:
        wanted: dict[str, Any] = fields(query, ["api", "client_id", "broker"], [])
        if "broker" in wanted:
            wanted["broker"] = int(wanted["broker"])
        return [each._asdict() for each in self._request_faults.requests(**wanted)]


@contextmanager
def control_server(control: HttpFaults, port: int) -> Iterator[int]:
    """Serve the control, and yield the port; with 0 the system chooses it. Raises OSError (address
    in use)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = TIMEOUT_S

        def _serve(self) -> None:
            size = self.headers.get("Content-Length", "0")
            if not names_loopback(self.headers.get("Host", HOST)):  # a page of that name, rebound
                self._send(
                    ControlReply(HTTPStatus.MISDIRECTED_REQUEST, {"error": "only on loopback"})
                )
            elif not size.isdecimal() or int(size) > MAX_BODY_BYTES:
                self.close_connection = True
                limit = {"error": f"the body must have a size, of {MAX_BODY_BYTES} bytes at most"}
                self._send(ControlReply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, limit))
            else:
                self._send(control.handle(self.command, self.path, self.rfile.read(int(size))))

        do_GET = do_POST = do_DELETE = _serve

        def _send(self, outcome: ControlReply) -> None:
            text = json.dumps(outcome.value, indent=1).encode() + b"\n"
            self.send_response(outcome.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        text = f"cannot listen on {HOST}:{port}: {error.strerror}"
        raise OSError(error.errno, text) from error
    with server:
        threading.Thread(target=server.serve_forever, name="control", daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
