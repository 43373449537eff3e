"""Python source under construction: lines with indentation, unique names, one exec."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class SourceWriter:
    """Collects the lines of one function after another, and the globals they use."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._functions: list[str] = []
        self._depth = 0
        self._serial = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        lines = len(self._lines)
        yield
        if len(self._lines) == lines:
            self.line("pass")
        self._depth -= 1

    @contextmanager
    def function(self, head: str) -> Iterator[None]:
        """Write a separate function, also while another one is being written."""
        outer, depth = self._lines, self._depth
        self._lines, self._depth = [], 0
        with self.block(head):
            yield
        self._functions.append("\n".join(self._lines))
        self._lines, self._depth = outer, depth

    def fresh(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def use(self, prefix: str, value: Any) -> str:
        """The global name of ``value``."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def struct_method(self, method: str, codes: str) -> str:
        """The global name of ``struct.Struct(">" + codes).<method>``."""
        name = f"{method}_{codes.replace('?', '_')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def source(self) -> str:
        return "\n\n\n".join(self._functions) + "\n"

    def compiled(self, name: str, title: str) -> Callable[..., Any]:
        """Runs the source once and hands out its function ``name``."""
        namespace = dict(self.names)
        exec(compile(self.source(), f"<{title}>", "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        return function
