"""The verb `ui`: a page that shows what happens inside a cluster."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from minikafka.cli.connect import client_config
from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import at_least
from minikafka.client.config import ClientConfig
from minikafka.client.schema_registry import LOGIN_VARIABLE, RegistryAddress
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.extras import require

DEFAULT_PORT = 8080
HOST = "127.0.0.1"
REQUEST_TIMEOUT_MS = 5_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shown = parser.add_mutually_exclusive_group(required=True)
    shown.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help="brokers of the cluster to show; any Kafka, and more of a minikafka",
    )
    shown.add_argument(
        "--recording", metavar="FILE", help="show a recording instead, without a cluster"
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="client settings such as security.protocol, a .properties file",
    )
    parser.add_argument(
        "--port",
        type=at_least(0),
        help=f"port of the page ({DEFAULT_PORT}, or the next free one; 0: the system chooses)",
    )
    parser.add_argument(
        "--host", default=HOST, metavar="ADDRESS", help=f"address to listen on ({HOST})"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="refuse everything that changes the cluster"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="write everything that the page is sent into a recording"
    )
    parser.add_argument(
        "--registry",
        metavar="URL",
        help=f"address of a schema registry; {LOGIN_VARIABLE}=NAME:PASSWORD in the environment "
        "is the login",
    )
    parser.add_argument("--supervisor-fd", type=at_least(0), help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Serve the page until SIGTERM or SIGINT."""
    require("ui", "the page")
    if args.recording is not None and args.record is not None:
        raise WrongUsage("--record: not with --recording, which is one already")
    if args.recording is not None and not Path(args.recording).is_file():
        raise ConfigError(f"--recording {args.recording}: no such file")
    if args.registry is not None:
        try:
            RegistryAddress.parse(args.registry)
        except ValueError as error:
            raise WrongUsage(f"--registry: {error}") from None
    client = None
    if args.recording is None:
        client = client_config(
            args, client_id="minikafka-ui", request_timeout_ms=REQUEST_TIMEOUT_MS
        )
    from minikafka.world.real.loop import run as run_loop

    with events.printed("ERROR"):
        run_loop(serve(args, client))
    return 0


async def serve(args: argparse.Namespace, client: ClientConfig | None) -> None:
    from minikafka.page.dashboard.app import serve_page
    from minikafka.page.dashboard.context import PageOptions
    from minikafka.world.real.asgi_server import bind
    from minikafka.world.real.world import real_world

    stopped = asyncio.Event()
    call_when_asked_to_stop(lambda why: stopped.set(), with_stdin=False)
    port = DEFAULT_PORT if args.port is None else args.port
    listening = bind(args.host, port, exact=args.port is not None)
    options = PageOptions(
        bootstrap=args.bootstrap_server or "",
        command_config=args.command_config,
        read_only=args.read_only or args.recording is not None,
        supervisor_fd=args.supervisor_fd,
        recording=args.recording,
        record=args.record,
        registry=args.registry,
    )
    await serve_page(
        real_world(),
        options,
        client,
        listening,
        stopped,
        lambda address: print(f"page={address}", flush=True),
    )
