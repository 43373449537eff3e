"""Control of a cluster inside the process over HTTP, for tests in any language.

``ClusterControl`` turns a request into a call and its outcome into JSON; ``control_server`` serves
it on the loopback interface, with the server of the standard library: a thread for each connection,
which blocks while the cluster works. ``GET /`` describes the paths.
"""

from __future__ import annotations

import difflib
import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from minikafka.inside.cluster import InsideCluster
from minikafka.inside.fault_handles import FaultHandle
from minikafka.inside.request_faults import Select
from minikafka.kernel.errors import KafkaError
from minikafka.network.http_server import names_loopback

HOST: Final = "127.0.0.1"
MAX_BODY_BYTES: Final = 64 * 1024
TIMEOUT_S: Final = 60  # of a silent connection

# The fields of each fault besides those that select requests.
FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "answer": ("error", "at"),
    "delay": ("seconds", "at"),
    "hold": ("at",),
    "disconnect": ("at",),
    "swallow": (),
    "throttle": ("seconds",),
    "corrupt": (),
    "observe": (),
}
NEEDED: Final[Mapping[str, str]] = {"answer": "error", "delay": "seconds", "throttle": "seconds"}
# ``when`` is a Python function.
SELECTED: Final = tuple(field for field in Select.__annotations__ if field != "when")
NUMBERS: Final = frozenset({"broker", "partition", "times", "on_call", "probability", "seed"})

HELP: Final = {
    "GET /": "this text",
    "POST /faults": {
        "fault": list(FAULTS),
        "fields": {name: list(fields) for name, fields in FAULTS.items()},
        "of every fault": list(SELECTED),
        "example": {"fault": "answer", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce"},
    },
    "GET /faults": "all faults, with their hits",
    "GET /faults/ID": "one fault",
    "POST /faults/ID/release": "let go on what a hold keeps",
    "DELETE /faults/ID": "remove a fault",
    "DELETE /faults": "remove all faults",
    "POST /topics": {"example": {"name": "t", "partitions": 3, "replicas": 1}},
    "POST /leaders": {"example": {"topic": "t", "partition": 0, "broker": 2}},
    "GET /brokers": "the brokers, and whether they run",
    "POST /brokers/ID/kill, stop or start": "end a broker, or start it again",
    "POST /brokers": "add a broker",
    "GET /requests?api=Produce&client_id=app&broker=1": "the last requests, from the oldest",
    "POST /reset": "remove faults, topics and groups, and start what was stopped",
}


class BadControl(ValueError):
    """A request that makes no sense; the message says why."""


class ControlReply(NamedTuple):
    """An HTTP status, and a value that is sent as JSON."""

    status: HTTPStatus
    value: Any


class ClusterControl:
    """Carries out the requests; its methods block, and may be called from any thread."""

    def __init__(self, cluster: InsideCluster) -> None:
        self._cluster = cluster
        self._faults: dict[int, FaultHandle] = {}
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
            paths = list(HELP)
            return ControlReply(
                HTTPStatus.NOT_FOUND, {"error": f"no {method} here", "paths": paths}
            )
        return ControlReply(HTTPStatus.OK, value)

    def _handle(self, method: str, path: list[str], query: dict[str, str], body: bytes) -> Any:
        """Return the value to send; None if there is no such path."""
        match method, *path:
            case ("GET",):
                return HELP
            case "POST", "faults":
                return self._add(document(body))
            case "GET", "faults":
                return [self._shown(number) for number in self._faults]
            case "DELETE", "faults":
                return [self._remove(number) for number in list(self._faults)]
            case "GET", "faults", text:
                return self._shown(self._number(text))
            case "DELETE", "faults", text:
                return self._remove(self._number(text))
            case "POST", "faults", text, "release":
                self._faults[self._number(text)].release()
                return self._shown(self._number(text))
            case "GET", "requests":
                return self._requests(query)
            case "POST", "reset":
                for number in list(self._faults):
                    self._remove(number)
                self._cluster.reset()
                return {}
            case _:
                return self._change(method, path, body)

    def _change(self, method: str, path: list[str], body: bytes) -> Any:
        """As ``_handle``, for topics and brokers."""
        cluster = self._cluster
        match method, *path:
            case "POST", "topics":
                wanted = fields(document(body), ["name", "partitions", "replicas"], ["name"])
                name = str(wanted["name"])
                cluster.create_topic(name, int(wanted.get("partitions", 1)), wanted.get("replicas"))
                return {"name": name}
            case "POST", "leaders":
                names = ["topic", "partition", "broker"]
                wanted = fields(document(body), names, names)
                cluster.move_leader(wanted["topic"], wanted["partition"], wanted["broker"])
                return wanted
            case "GET", "brokers":
                return {str(number): cluster.is_running(number) for number in cluster.broker_ids}
            case "POST", "brokers":
                return {"broker": cluster.add_broker(), "bootstrap": cluster.bootstrap}
            case "POST", "brokers", text, ("kill" | "stop" | "start") as verb:
                number = int(text) if text.isdecimal() else 0
                if number not in cluster.broker_ids:
                    raise BadControl(f"no broker {text!r}; there are {[*cluster.broker_ids]}")
                changes: dict[str, Callable[[int], None]] = {
                    "kill": cluster.kill_broker,
                    "stop": cluster.stop_broker,
                    "start": cluster.start_broker,
                }
                changes[verb](number)
                return {"broker": number, "runs": cluster.is_running(number)}
        return None

    def _add(self, wanted: dict[str, Any]) -> dict[str, Any]:
        kind, arguments = fault(wanted)
        number = next(self._numbers)
        self._faults[number] = getattr(self._cluster.request_faults, kind)(**arguments)
        return self._shown(number)

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
        return [each._asdict() for each in self._cluster.requests(**wanted)]


def fault(wanted: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the method of ``RequestFaults`` that a JSON object describes, and its arguments.
    Raises BadControl with the name that was meant."""
    kind = str(wanted.get("fault"))
    if kind not in FAULTS:
        raise BadControl(f"no fault {kind!r}{_nearest(kind, FAULTS)}")
    own = FAULTS[kind]
    needed = [NEEDED[kind]] if kind in NEEDED else []
    arguments = fields(wanted, ["fault", *own, *SELECTED], ["fault", *needed])
    del arguments["fault"]
    for name, value in arguments.items():
        expected = _type_of(name)
        is_unlimited = name == "times" and value is None
        if not is_unlimited and (
            not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool)
        ):
            raise BadControl(f"{name} is {json.dumps(value)}, which is no {_NAMES[expected]}")
    return kind, arguments


def _type_of(name: str) -> type | tuple[type, ...]:
    if name in ("seconds", "probability"):
        return (int, float)
    if name == "of_broker":
        return bool
    return int if name in NUMBERS else str


_NAMES: Final[Mapping[Any, str]] = {
    (int, float): "number",
    bool: "boolean",
    int: "whole number",
    str: "text",
}


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
            raise BadControl(f"no field {name!r}{_nearest(name, known)}")
    for name in needed:
        if name not in wanted:
            raise BadControl(f"the field {name!r} is missing")
    return dict(wanted)


def _nearest(name: str, names: Iterable[str]) -> str:
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {near[0]}?)" if near else f"; there are {', '.join(names)}"


@contextmanager
def control_server(cluster: InsideCluster, port: int) -> Iterator[int]:
    """Serve the control of a cluster, and yield the port; with 0 the system chooses it. Raises
    OSError (address in use)."""
    control = ClusterControl(cluster)

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

    with ThreadingHTTPServer((HOST, port), Handler) as server:
        threading.Thread(target=server.serve_forever, name="control", daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
