"""``LazyModule``: a module of another package that is imported when something of it is needed.

    if TYPE_CHECKING:
        import h11
    else:
        h11 = LazyModule("h11")

Only functions may use the name, not the body of the module that has it. Packages are imported this
way if their import takes milliseconds and many processes never use them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Has the attributes of a module. The first use of each finds it, and imports the module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:  # called only for what is not in __dict__
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value
