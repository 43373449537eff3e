"""Child processes of a supervisor: started with a log file, stopped in order, seen when dead."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Child:
    """One process. Output goes to ``log_path``; ``pid_path`` holds its pid while it runs. Its
    standard input ends when the supervisor does, however that happens: then it stops too."""

    name: str
    arguments: Sequence[str]  # of the minikafka command
    log_path: Path
    pid_path: Path
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start a child in a new session, so that a Ctrl-C reaches only the supervisor."""
        with self.log_path.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "minikafka.cli.main",
                *self.arguments,
                "--stop-with-stdin",
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid_path.write_text(f"{self.process.pid}\n")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def wait(self) -> int:
        assert self.process is not None
        status = await self.process.wait()
        with contextlib.suppress(FileNotFoundError):
            if self.pid_path.read_text() == f"{self.process.pid}\n":  # not somebody else's by now
                self.pid_path.unlink()
        return status

    def send(self, number: signal.Signals) -> None:
        if self.running:
            assert self.process is not None
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def last_line(self) -> str:
        """The end of its log: usually why it died."""
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def describe_exit(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
