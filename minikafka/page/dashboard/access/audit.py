"""The audit log: a JSON line for each act when it begins, and one with its result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from minikafka.kernel.ports import Clock
from minikafka.page.dashboard.access.doors import PageUser

MOST_COMMAND: Final = 4096  # characters
MOST_ERROR: Final = 1000


class AuditError(Exception):
    """The log cannot be written; the sentence says whether the act was done."""


class ActLog:
    """``descriptor`` is a file opened to append; None: there is no log."""

    def __init__(self, clock: Clock, descriptor: int | None) -> None:
        self._clock = clock
        self._descriptor = descriptor

    def begun(self, who: PageUser | None, peer: str | None, act: str, command: str) -> None:
        """Log that an act is going to be done, or was refused. Raises AuditError: then it must not
        be done."""
        try:
            self._write(who, peer, act, command, {"result": "begun"})
        except OSError as error:
            raise AuditError(
                f"The audit log cannot be written, so nothing was done: {error}."
            ) from error

    def ended(
        self, who: PageUser | None, peer: str | None, act: str, command: str, status: int | None,
        error: str = "",
    ) -> None:  # fmt: skip
        """Log the exit status of an act, None if it was stopped. Raises AuditError."""
        result = "done" if status == 0 else "failed"
        facts = {"result": result, "status": status}
        if error:
            facts["error"] = error[:MOST_ERROR]
        try:
            self._write(who, peer, act, command, facts)
        except OSError as failed:
            raise AuditError(
                f"It is {result}, but the audit log cannot be written: {failed}."
            ) from failed

    def refused(self, who: PageUser | None, peer: str | None, act: str, why: str) -> None:
        """Raises AuditError."""
        try:
            self._write(who, peer, act, "", {"result": "refused", "error": why})
        except OSError as error:
            raise AuditError(f"{why} The audit log cannot be written: {error}.") from error

    def _write(
        self, who: PageUser | None, peer: str | None, act: str, command: str, facts: dict[str, Any]
    ) -> None:
        if self._descriptor is None:
            return
        at = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        row = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "who": None if who is None else who.name,
            "role": None if who is None else who.role.label,
            "way": None if who is None else who.way,
            "from": peer,
            "act": act,
            "command": command[:MOST_COMMAND],
            **facts,
        }
        line = f"{json.dumps(row, separators=(',', ':'))}\n".encode()
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes were written")


@contextmanager
def opened_audit(path: str | None) -> Iterator[int | None]:
    """Open a file to append, which only this user may read if it is new. Raises OSError."""
    if path is None:
        yield None
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
