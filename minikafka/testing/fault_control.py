"""Control of faults over HTTP and in files of JSON, for tests in any language.

    {"fault": "answer", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "times": 3}

The fields of a fault are the parameters of the method that adds it, and their types those of its
annotations. A name that is misspelled is an error that says which one was meant.

``HttpFaults`` turns a request into a call and its outcome into JSON; ``control_server`` serves it
on the loopback interface, with the server of the standard library: a thread for each connection,
which blocks while a call is carried out. ``GET /`` describes the paths.
"""

from __future__ import annotations

import inspect
import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args, get_type_hints
from urllib.parse import parse_qsl, urlsplit

from minikafka.core.faults.kinds import KEYWORDS, RequestFaultKinds, Select
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.spelling import did_you_mean
from minikafka.server.listeners.http_server import names_loopback
from minikafka.testing.request_faults import RequestFaults

if TYPE_CHECKING:
    from minikafka.testing.fault_handle import FaultInTest

HOST: Final = "127.0.0.1"
MAX_BODY_BYTES: Final = 64 * 1024
TIMEOUT_S: Final = 60  # of a silent connection

REQUEST_FAULTS: Final = tuple(
    name
    for name, method in vars(RequestFaultKinds).items()
    if inspect.isfunction(method) and name not in RequestFaultKinds.__abstractmethods__
)
SELECTED: Final = tuple(name for name in KEYWORDS if name != "when")  # which is a function
TYPE_NAMES: Final[Mapping[type, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "boolean",
}

# Carries out a request for another path (method, path, body), and returns the value to send; None
# if there is no such path.
OtherPaths: TypeAlias = Callable[[str, list[str], bytes], Any]
# Adds a fault; its parameters are the fields of the fault in JSON.
AddFault: TypeAlias = "Callable[..., FaultInTest]"


class BadControl(ValueError):
    """A fault or a request that makes no sense; the message says why."""


class JsonField(NamedTuple):
    """A field of a fault in JSON."""

    type: type
    is_needed: bool
    may_be_null: bool


def fault_kinds(
    request_faults: RequestFaults, other_faults: Iterable[AddFault] = ()
) -> Mapping[str, AddFault]:
    """Return the methods that add faults, by their names in JSON."""
    of_requests = {name: getattr(request_faults, name) for name in REQUEST_FAULTS}
    return {**of_requests, **{add.__name__: add for add in other_faults}}


def help_of_faults(kinds: Mapping[str, AddFault]) -> dict[str, Any]:
    """Return the description of the paths, and of these faults."""
    return {
        "GET /": "this text",
        "POST /faults": {
            "fault": list(kinds),
            "fields": {name: list(own_fields(add)) for name, add in kinds.items()},
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


def own_fields(add: AddFault) -> dict[str, JsonField]:
    """Return the fields of a fault, except those that select requests. A field whose parameter may
    be None need not be given."""
    hints = get_type_hints(add)
    return {
        name: _field(hints[name], parameter.default is parameter.empty)
        for name, parameter in inspect.signature(add).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }


@cache
def selecting_fields() -> dict[str, JsonField]:
    hints = get_type_hints(Select)
    return {name: _field(hints[name], False) for name in SELECTED}


def _field(hint: Any, is_needed: bool) -> JsonField:
    options = get_args(hint) or (hint,)
    may_be_null = type(None) in options
    # Of a Literal the options are strings.
    found = next((each for each in options if each in TYPE_NAMES), str)
    return JsonField(found, is_needed and not may_be_null, may_be_null)


def parse_fault(
    wanted: Mapping[str, Any], kinds: Mapping[str, AddFault]
) -> tuple[str, dict[str, Any]]:
    """Return the name of the fault that a JSON object describes, and the arguments of the method
    that adds it. Raises BadControl for a name or a field that is unknown, missing or of a wrong
    type."""
    kind = str(wanted.get("fault"))
    if kind not in kinds:
        raise BadControl(f"no fault {kind!r}{_meant(kind, kinds)}")
    known = own = own_fields(kinds[kind])
    if kind in REQUEST_FAULTS:
        known = {**own, **selecting_fields()}
    needed = [name for name, field in own.items() if field.is_needed]
    arguments = fields(wanted, ["fault", *known], ["fault", *needed])
    del arguments["fault"]
    for name, value in arguments.items():
        field = known[name]
        if not (field.may_be_null if value is None else _fits(value, field.type)):
            problem = f"{name} is {json.dumps(value)}, which is no {TYPE_NAMES[field.type]}"
            raise BadControl(problem)
    missing = {name: None for name, field in own.items() if field.may_be_null}
    return kind, {**missing, **arguments}


def _fits(value: object, expected: type) -> bool:
    if isinstance(value, bool):
        return expected is bool
    return isinstance(value, (int, float) if expected is float else expected)


def document(body: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises BadControl."""
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadControl(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadControl("the body is no JSON object")
    return found


def fields(
    wanted: Mapping[str, Any], known: Iterable[str], needed: Iterable[str]
) -> dict[str, Any]:
    """Return the fields of an object. Raises BadControl for one that is unknown or missing."""
    known = list(known)
    for name in wanted:
        if name not in known:
            raise BadControl(f"no field {name!r}{_meant(name, known)}")
    for name in needed:
        if name not in wanted:
            raise BadControl(f"the field {name!r} is missing")
    return dict(wanted)


def _meant(name: str, names: Iterable[str]) -> str:
    names = list(names)
    return did_you_mean(name, names) or f"; there are {', '.join(names)}"


class ControlReply(NamedTuple):
    """An HTTP status, and a value that is sent as JSON."""

    status: HTTPStatus
    value: Any


class HttpFaults:
    """Carries out the requests; its methods block, and may be called from any thread. ``help_text``
    describes what ``other_paths`` serves. ``other_faults`` are methods that add faults of something
    else than requests."""

    def __init__(
        self,
        request_faults: RequestFaults,
        other_paths: OtherPaths = lambda method, path, body: None,
        help_text: Mapping[str, Any] | None = None,
        other_faults: Sequence[AddFault] = (),
    ) -> None:
        self._request_faults = request_faults
        self._other_paths = other_paths
        self._kinds = fault_kinds(request_faults, other_faults)
        self._help = {**help_of_faults(self._kinds), **(help_text or {})}
        self._faults: dict[int, FaultInTest] = {}
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
        kind, arguments = parse_fault(wanted, self._kinds)
        added = self._kinds[kind](**arguments)
        number = next(self._numbers)
        self._faults[number] = added
        return self._shown(number)

    def add_list(self, text: str) -> None:
        """Add the faults of a JSON list. Raises ValueError, with the number of the first one that
        makes no sense, from 1."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadControl(f"no JSON: {error}") from None
        if not isinstance(found, list):
            raise BadControl("no JSON list of faults")
        for number, wanted in enumerate(found, 1):
            if not isinstance(wanted, dict):
                raise BadControl(f"fault {number} is no JSON object")
            try:
                self.add(wanted)
            except ValueError as error:
                raise BadControl(f"fault {number}: {error}") from None

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
                self._faults[self._number(text)].release()
                return self._shown(self._number(text))
            case "GET", "requests":
                return self._requests(query)
            case _:
                return self._other_paths(method, path, body)

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
