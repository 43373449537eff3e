"""The table of chapters: the name of each by its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TABLE: Final[Mapping[int, str]] = {
    14: "playground",
}
