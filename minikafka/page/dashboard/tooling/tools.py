"""The acts as tools for programs that call them by the Model Context Protocol.

A tool is named as its act, with ``_`` for ``-``: clients know such names everywhere. Acts that only
read are always offered; one that changes the cluster only if it was allowed by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from minikafka.kernel.spelling import did_you_mean
from minikafka.page.dashboard.acting.act_fields import MAX_VALUES, ActError, ActField
from minikafka.page.dashboard.acting.acts import ACTS, Act

ALL: Final = "all"
DRY_RUN: Final = "dry_run"
# JSON numbers above this are not exact in every client.
_EXACT: Final = 2**53
# Changes that only add something, and changes whose repetition changes something again.
_ADDING: Final = frozenset({"produce", "topics-alter", "topics-create"})
_REPEATING: Final = frozenset({"groups-reset-offsets", "produce", "reassign"})
_TYPES: Final[Mapping[str, str]] = {"number": "integer", "broker": "integer", "flag": "boolean"}


@dataclass(frozen=True, slots=True)
class Tool:
    """One act as a client sees it; ``schema`` is the JSON Schema of its arguments."""

    name: str
    act: Act
    description: str
    schema: Mapping[str, Any]

    @property
    def destructive(self) -> bool:
        return self.act.changes and self.act.name not in _ADDING

    @property
    def idempotent(self) -> bool:
        return self.act.name not in _REPEATING


def tool_name(act: str) -> str:
    return act.replace("-", "_")


def allowed_acts(names: Iterable[str]) -> frozenset[str]:
    """Return the acts that ``--allow`` names; ``all`` is every act. Raises ActError."""
    changing = {name for name, act in ACTS.items() if act.changes}
    found: set[str] = set()
    for name in names:
        act = name.replace("_", "-")
        if name == ALL:
            found |= changing
        elif act in changing:
            found.add(act)
        elif act not in ACTS:
            hint = did_you_mean(act, changing)
            known = ", ".join(sorted(changing))
            raise ActError(f"there is no act {name}{hint or ';'} the acts are {known}, or {ALL}")
    return frozenset(found)


def offered_tools(allowed: Collection[str], bootstrap: str) -> dict[str, Tool]:
    """Return the tools by name: those that read, and the acts in ``allowed``."""
    acts = (act for act in ACTS.values() if not act.changes or act.name in allowed)
    tools = (
        Tool(tool_name(act.name), act, _description(act, bootstrap), input_schema(act))
        for act in acts
    )
    return {tool.name: tool for tool in tools}


def refusal(name: str) -> str:
    """Return why there is no such tool: the act was not allowed, or nobody knows it."""
    act = ACTS.get(name.replace("_", "-"))
    if act is None:
        return f"there is no tool {name[:100]}{did_you_mean(name, map(tool_name, ACTS))}"
    return (
        f"{name} changes the cluster and was not allowed: the user can start "
        f"minikafka mcp with --allow {act.name}"
    )


def _description(act: Act, bootstrap: str) -> str:
    sentences = [f"{act.title}."]
    if act.changes:
        sentences.append("This changes the cluster.")
    if act.dangerous:
        sentences.append("Data or availability may be lost.")
    if act.dry_run:
        sentences.append(f"With {DRY_RUN} it changes nothing and {act.dry_run}.")
    sentences.append(f"Runs: {act.facts(bootstrap)['command']}")
    return " ".join(sentences)


def input_schema(act: Act) -> dict[str, Any]:
    """Return the JSON Schema of an act's arguments."""
    properties = {field.name: _property(field) for field in act.fields}
    if act.dry_run:
        properties[DRY_RUN] = {"type": "boolean", "description": act.dry_run, "default": False}
    return {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in act.fields if field.required],
        "additionalProperties": False,
    }


def _property(field: ActField) -> dict[str, Any]:
    if field.kind == "settings":
        return {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": field.help,
        }
    single: dict[str, Any] = {"type": _TYPES.get(field.kind, "string")}
    if field.decimal:
        single["type"] = "number"
    if field.choices:
        single["enum"] = list(field.choices)
    if field.kind in ("number", "broker"):
        if abs(field.least) < _EXACT:
            single["minimum"] = field.least
        if field.most < _EXACT:
            single["maximum"] = field.most
    if field.several:
        single = {"type": "array", "items": single, "maxItems": MAX_VALUES}
    return {**single, "description": field.help}
