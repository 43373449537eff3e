"""The verb `registry`: a schema registry that stores its schemas in a topic of the cluster."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path

from minikafka.cli.connect import client_config
from minikafka.cli.options import add_bootstrap_argument, at_least
from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.client.config import ClientConfig
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.extras import require

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
    from minikafka.world.real.world import run as run_loop

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
    from minikafka.registry.server import RegistryOptions, serve_registry
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
