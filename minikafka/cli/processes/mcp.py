"""The verb `mcp`: offer the verbs as tools of the Model Context Protocol on standard streams."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from dataclasses import replace

from minikafka.cli.connect import client_config
from minikafka.cli.stopping import call_once_when_asked_to_stop
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument, at_least
from minikafka.client.config import ClientConfig
from minikafka.kernel import events
from minikafka.kernel.extras import require
from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.tooling.tools import allowed_acts, offered_tools

DEFAULT_MOST = 40_000
REACH_MS = 4000  # time in which a cluster that is there responds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument(
        "--allow",
        metavar="ACT",
        nargs="+",
        action="extend",
        default=[],
        help="acts that may change the cluster, such as topics-create, or all; default: none",
    )
    parser.add_argument(
        "--max-output",
        metavar="CHARACTERS",
        type=at_least(1000),
        default=DEFAULT_MOST,
        help=f"bound of each reply (default {DEFAULT_MOST})",
    )


def run(args: argparse.Namespace) -> int:
    require("mcp", "minikafka mcp")
    from minikafka.world.real.loop import run

    config = client_config(args)
    try:
        allowed = allowed_acts(args.allow)
    except ActError as error:
        raise WrongUsage(f"--allow: {error}") from None
    if sys.stdin.isatty():
        print(
            "minikafka mcp serves a client on standard input: see docs/how-to/mcp.md",
            file=sys.stderr,
        )
    with events.printed("ERROR"):
        run(_serve(args, config, allowed))
    return 0


async def _serve(args: argparse.Namespace, config: ClientConfig, allowed: frozenset[str]) -> None:
    from minikafka.client.admin.admin import Admin
    from minikafka.page.dashboard.tooling.tool_calls import ToolCalls
    from minikafka.page.dashboard.tooling.tool_server import mcp_server, serve_stdio
    from minikafka.world.real.world import real_world

    world = real_world()
    patient = replace(config, default_api_timeout_ms=REACH_MS)

    async def reach() -> None:
        async with Admin(world, patient) as admin:
            await admin.describe_cluster()

    calls = ToolCalls(
        offered_tools(allowed, args.bootstrap_server),
        args.bootstrap_server,
        args.command_config,
        reach,
        args.max_output,
    )
    serving = asyncio.ensure_future(serve_stdio(mcp_server(calls)))

    def stop() -> None:
        serving.cancel()

    call_once_when_asked_to_stop(stop)
    with suppress(asyncio.CancelledError):
        await serving
