"""Standard streams of the command that are closed, or whose reader ends early."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO, cast


def open_missing() -> None:
    """Open the null device in place of standard streams that the caller has closed (``>&-``).

    Otherwise the first files and sockets get their numbers, and uvloop aborts the process when it
    closes one of these."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
        stream = os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)
        setattr(sys, name, stream)


def drop_output() -> None:
    """Redirect standard output to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class _Output:
    """Standard output that keeps the first error of a write, and drops everything after it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        if self.error is None:
            try:
                self._stream.write(text)
            except OSError as error:
                self.error = error
        return len(text)

    def flush(self) -> None:
        if self.error is None:
            try:
                self._stream.flush()
            except OSError as error:
                self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Pipe:
    """Standard output that is no terminal, whatever it is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def output_as_in_a_pipe() -> Iterator[None]:
    """Run a block whose output is the same on a terminal and in a pipe."""
    with redirect_stdout(cast(TextIO, _Pipe(sys.stdout))):
        yield


@contextmanager
def changes_completed() -> Iterator[None]:
    """Run a block to its end even if its output cannot be written, because the reader of the pipe
    has ended or the disk is full: it must not stop in the middle of a change. Raise the OSError of
    the output afterwards."""
    output = _Output(sys.stdout)
    with redirect_stdout(cast(TextIO, output)):
        yield
    if output.error is not None:
        raise output.error
