"""The writer of generated Python source, which the encoder and the decoder are compiled from."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class SourceWriter:
    """Collects the lines of the generated functions, and the globals that they use (``names``)."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._functions: list[str] = []
        self._depth = 0
        self._serial = 0

    def line(self, text: str) -> None:
        """Append a line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write ``head``, and indent the lines written within; an empty block gets ``pass``."""
        self.line(head)
        self._depth += 1
        lines = len(self._lines)
        yield
        if len(self._lines) == lines:
            self.line("pass")
        self._depth -= 1

    @contextmanager
    def function(self, head: str) -> Iterator[None]:
        """Write a module-level function. Calls may be nested: the functions are still separate."""
        outer, depth = self._lines, self._depth
        self._lines, self._depth = [], 0
        with self.block(head):
            yield
        self._functions.append("\n".join(self._lines))
        self._lines, self._depth = outer, depth

    def fresh(self, prefix: str) -> str:
        """Return a name that has not been used."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def use(self, prefix: str, value: Any) -> str:
        """Return the global name of ``value``; make one if it has none."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def struct_method(self, method: str, codes: str) -> str:
        """Return the global name of ``struct.Struct(">" + codes).<method>``."""
        name = f"{method}_{codes.replace('?', '_')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def source(self) -> str:
        return "\n\n\n".join(self._functions) + "\n"

    def compiled(self, name: str, title: str) -> Callable[..., Any]:
        """Execute the source and return its function ``name``. ``title`` is shown in tracebacks."""
        namespace = dict(self.names)
        exec(compile(self.source(), f"<{title}>", "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        return function
