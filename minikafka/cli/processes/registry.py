"""The verb `registry`: a schema registry that stores its schemas in a topic of the cluster.

`minikafka up --registry` starts it as a child process (``registry_beside``).
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from minikafka.cli.connect import client_config
from minikafka.cli.processes.children import Child, describe_exit
from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.cli.verb_parser import add_bootstrap_argument, at_least
from minikafka.client.config import ClientConfig
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.extras import require
from minikafka.kernel.own_command import own_command

DEFAULT_PORT = 8081
HOST = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument(
        "--port",
        type=at_least(0),
        default=DEFAULT_PORT,
        help=f"port to listen on ({DEFAULT_PORT}; 0: the system chooses)",
    )
    parser.add_argument(
        "--host", default=HOST, metavar="ADDRESS", help=f"address to listen on ({HOST})"
    )
    parser.add_argument(
        "--topic", default="_schemas", metavar="NAME", help="where schemas are stored (_schemas)"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="follow the topic, and refuse to write to it"
    )
    parser.add_argument(
        "--users",
        metavar="FILE",
        help="lines NAME:PASSWORD; each request needs one of them (HTTP basic authentication)",
    )
    parser.add_argument("--stop-with-stdin", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    require("registry", "the registry")
    users = {} if args.users is None else users_of(Path(args.users))
    client = client_config(args, client_id="minikafka-registry")
    from minikafka.world.real.loop import run as run_loop

    with events.printed("ERROR"):
        try:
            run_loop(_serve(args, client, users))
        except* (KafkaError, ConfigError, OSError) as failed:
            raise failed.exceptions[0] from None
    return 0


def users_of(path: Path) -> Mapping[str, str]:
    """Read the users of a file. Raises ConfigError, OSError."""
    users: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name or not password:
            raise ConfigError(f"{path}: line {number} is not NAME:PASSWORD")
        users[name] = password
    if not users:
        raise ConfigError(f"{path} names no user")
    return users


async def _serve(args: argparse.Namespace, client: ClientConfig, users: Mapping[str, str]) -> None:
    from minikafka.registry.app import RegistryOptions, serve_registry
    from minikafka.world.real.asgi_server import bind
    from minikafka.world.real.world import real_world

    stopped = asyncio.Event()
    call_when_asked_to_stop(lambda why: stopped.set(), args.stop_with_stdin)
    listening = bind(args.host, args.port, exact=True)
    options = RegistryOptions(args.topic, args.read_only, users)
    await serve_registry(
        real_world(),
        options,
        client,
        listening,
        stopped,
        lambda address: print(f"registry={address}", flush=True),
    )


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
        const=DEFAULT_PORT,
        metavar="PORT",
        help=f"start a schema registry, too, on this port ({DEFAULT_PORT}; 0: the system chooses)",
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
