"""The survivors that docs/mission.md accepts, with their reasons."""

from __future__ import annotations

import re
from pathlib import Path

HEADING = "## Survivors"
ROW = re.compile(r"^\| `(?P<place>[^`]+)` \| `(?P<change>.+?)` \| (?P<reason>.+) \|$")


def accepted(document: Path) -> dict[tuple[str, str], str]:
    """(place, change) -> reason. The place is ``file function`` without the package's name."""
    _, _, section = document.read_text().partition(f"\n{HEADING}\n")
    section = section.split("\n## ")[0]
    found = {}
    for line in section.splitlines():
        row = ROW.match(line)
        if row:
            found[row["place"], row["change"].replace("\\|", "|")] = row["reason"]
    return found


def place_of(file: str, function: str) -> str:
    """``minikafka/core/log/append.py``, ``plan`` -> ``core/log/append.py plan``."""
    return f"{file.partition('/')[2] or file} {function}"


def row_of(file: str, function: str, change: str, reason: str = "") -> str:
    return f"| `{place_of(file, function)}` | `{escaped(change)}` | {reason} |"


def escaped(change: str) -> str:
    return change.replace("|", "\\|")
