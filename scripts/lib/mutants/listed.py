"""The accepted survivors, tests/survivors.json: place -> change -> the reason why no test fails."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SURVIVORS: Final = Path("tests") / "survivors.json"


def accepted(document: Path) -> dict[tuple[str, str], str]:
    """(place, change) -> reason. The place is ``file function`` without the package's name."""
    if not document.exists():
        return {}
    places: dict[str, dict[str, str]] = json.loads(document.read_text())
    return {
        (place, change): reason
        for place, changes in places.items()
        for change, reason in changes.items()
    }


def accept(document: Path, mutants: Iterable[tuple[str, str]], reason: str) -> None:
    """Add mutants, each a place and a change, with one reason."""
    found = accepted(document) | dict.fromkeys(mutants, reason)
    places: dict[str, dict[str, str]] = {}
    for (place, change), why in sorted(found.items()):
        places.setdefault(place, {})[change] = why
    document.write_text(json.dumps(places, indent=1, ensure_ascii=False) + "\n")


def place_of(file: str, function: str) -> str:
    """``minikafka/core/log/append.py``, ``plan`` -> ``core/log/append.py plan``."""
    return f"{file.partition('/')[2] or file} {function}"
