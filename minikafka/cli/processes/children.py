"""A child process of the supervisor, with its log file and its pid file."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.own_command import own_command


@dataclass(slots=True)
class Child:
    """One process that runs a verb of the minikafka command.

    Its output goes to ``log_path``; ``pid_path`` holds its pid while it runs. Its standard input is
    a pipe from the supervisor: when the supervisor ends, even if killed, the child stops too.
    """

    name: str
    arguments: Sequence[str]  # of the minikafka command
    log_path: Path
    pid_path: Path
    process: asyncio.subprocess.Process | None = field(default=None, init=False)
    is_paused: bool = field(default=False, init=False)
    ended_by: str = field(default="", init=False)  # the act of the user that ends it

    async def start(self) -> None:
        """Start the process in a new session, so that Ctrl-C reaches only the supervisor."""
        self.is_paused = False
        self.ended_by = ""
        with self.log_path.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *own_command(*self.arguments, "--stop-with-stdin"),
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
        process = self.process
        assert process is not None
        status = await process.wait()
        with contextlib.suppress(FileNotFoundError):
            if self.pid_path.read_text() == f"{process.pid}\n":  # not that of a later process
                self.pid_path.unlink()
        return status

    def send(self, number: signal.Signals) -> None:
        if self.running:
            assert self.process is not None
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def pause(self) -> None:
        self.is_paused = True
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.is_paused = False
        self.send(signal.SIGCONT)

    def last_line(self) -> str:
        """Return the last line of the log, usually the reason why the process died."""
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def describe_exit(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def complain(text: str) -> None:
    """Write a line of the supervisor to standard error."""
    print(f"minikafka: {text}", file=sys.stderr, flush=True)
