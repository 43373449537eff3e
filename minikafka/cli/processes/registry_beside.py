"""The schema registry as a child of `minikafka up`: its option, its process, its address."""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from minikafka.cli.processes import registry
from minikafka.cli.processes.children import Child, describe_exit
from minikafka.kernel.config import ConfigError
from minikafka.kernel.own_command import own_command

MAX_PORT: Final = 65535
STOP_WITHIN_S: Final = 10.0
PORT_HINT: Final = "--registry PORT chooses another for the registry"
_POLL_S: Final = 0.05
_ADDRESS: Final = re.compile(r"^registry=(\S+)$", re.MULTILINE)


def add_registry_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--registry",
        type=_port,
        nargs="?",
        const=registry.DEFAULT_PORT,
        metavar="PORT",
        help=f"start a schema registry, too, on this port ({registry.DEFAULT_PORT}; 0: the system "
        "chooses)",
    )


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be a port, or 0; at most {MAX_PORT}")
    return number


class RegistryProcess:
    """`minikafka registry` as a child of the supervisor."""

    def __init__(
        self,
        bootstrap: str,
        port: int,
        home: Path,
        command_config: Path | None = None,
        users: Path | None = None,
    ) -> None:
        words = _words(bootstrap, port)
        if command_config is not None:
            words += ["--command-config", str(command_config)]
        if users is not None:
            words += ["--users", str(users)]
        self.child = Child("registry", words, home / "log", home / "pid")
        self._earlier = 0  # bytes of the log that earlier processes have written

    def prepare(self) -> None:
        """Call this before the child is started."""
        log = self.child.log_path
        self._earlier = log.stat().st_size if log.exists() else 0

    async def address(self) -> str | None:
        """Wait until it serves and return its address, None if it ends before that."""
        while self.child.running:
            with self.child.log_path.open("rb") as log:
                log.seek(self._earlier)
                found = _ADDRESS.search(log.read().decode(errors="replace"))
            if found is not None:
                return found[1]
            await asyncio.sleep(_POLL_S)
        return None


@contextmanager
def registry_beside(bootstrap: str, port: int) -> Iterator[str]:
    """Run a registry beside brokers of this process; yield what the ready line says of it.

    Raises ConfigError if it does not start; it has said why on standard error."""
    process = subprocess.Popen(
        own_command(*_words(bootstrap, port), "--stop-with-stdin"),
        stdin=subprocess.PIPE,  # its end stops the registry, even if this process is killed
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches only this process
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        if not line:
            raise ConfigError(f"the registry did not start: {describe_exit(process.wait())}")
        yield line
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _words(bootstrap: str, port: int) -> list[str]:
    return ["registry", "--bootstrap-server", bootstrap, "--port", str(port)]
