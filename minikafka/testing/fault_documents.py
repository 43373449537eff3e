"""Faults as JSON: which fields each has, and of which types.

    {"fault": "answer", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "times": 3}

A name that is misspelled is an error that says which one was meant.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from minikafka.server.faults.request_faults import Select

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
NUMBERS: Final = frozenset(
    {"broker", "partition", "times", "on_call", "probability", "seed", "other", "free_bytes"}
)


class BadControl(ValueError):
    """A fault or a request that makes no sense; the message says why."""


def fault(wanted: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the method of ``RequestFaults`` that a JSON object describes, and its arguments.
    Raises BadControl with the name that was meant."""
    kind = kind_of(wanted)
    own = FAULTS[kind]
    needed = [NEEDED[kind]] if kind in NEEDED else []
    return kind, arguments_of(wanted, [*own, *SELECTED], needed)


def kind_of(wanted: Mapping[str, Any], others: Iterable[str] = ()) -> str:
    """Return the name of the fault, which is a fault of requests or one of ``others``. Raises
    BadControl."""
    kind, known = str(wanted.get("fault")), [*FAULTS, *others]
    if kind not in known:
        raise BadControl(f"no fault {kind!r}{_nearest(kind, known)}")
    return kind


def arguments_of(
    wanted: Mapping[str, Any], known: Iterable[str], needed: Iterable[str]
) -> dict[str, Any]:
    """Return the fields of a fault besides its name. Raises BadControl for one that is unknown,
    missing or of a wrong type."""
    arguments = fields(wanted, ["fault", *known], ["fault", *needed])
    del arguments["fault"]
    for name, value in arguments.items():
        expected = _type_of(name)
        is_unlimited = name == "times" and value is None
        if not is_unlimited and (
            not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool)
        ):
            raise BadControl(f"{name} is {json.dumps(value)}, which is no {_NAMES[expected]}")
    return arguments


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


def list_of_faults(text: str) -> list[dict[str, Any]]:
    """Parse a JSON list of faults, and check each. Raises BadControl with the number of the first
    one that makes no sense, from 1."""
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
            fault(wanted)
        except BadControl as error:
            raise BadControl(f"fault {number}: {error}") from None
    return found
