"""The verb `broker`: one broker process in the foreground, stopped by SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minikafka.cli.processes import pid_file
from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.kernel import events
from minikafka.kernel.config import (
    Config,
    ConfigError,
    parse_properties,
    properties_from_environment,
)
from minikafka.kernel.settings import BROKER_CONFIG

GC_ALLOCATIONS = 20_000  # between two looks of the garbage collector at young objects
# A thread that wants the interpreter waits so long for a busy loop: kazoo's half a dozen times for
# each request, so that at Python's 5 ms one write to ZooKeeper took 25 ms instead of one.
SWITCH_INTERVAL_S = 0.001


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "--override", metavar="KEY=VALUE", action="append", default=[], help="wins over the file"
    )
    parser.add_argument("--log-level", default="INFO", choices=sorted(events.LEVELS))
    parser.add_argument("--log-json", action="store_true", help="log lines as JSON")
    parser.add_argument(
        "--stop-with-stdin", action="store_true", help="stop also when standard input ends"
    )


def load_config(
    path: str | None, environment: Mapping[str, str], overrides: Sequence[str]
) -> Config:
    """The file, then ``KAFKA_*`` variables, then overrides; later ones win."""
    given = parse_properties(Path(path).read_text()) if path else {}
    given |= properties_from_environment(environment)
    given |= parse_overrides(overrides)
    return BROKER_CONFIG.parse(given)


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """The values of ``--override``. Raises ConfigError."""
    values = {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator:
            raise ConfigError(f"--override needs KEY=VALUE, not {override}")
        values[key.strip()] = value.strip()
    return values


def run(args: argparse.Namespace) -> int:
    from minikafka.node.config_views import log_dirs
    from minikafka.world.real.world import run as run_real

    config = load_config(args.config, os.environ, args.override)
    events.configure(args.log_level, args.log_json)
    with pid_file.held(Path(log_dirs(config)[0])):
        run_real(serve(config, args.stop_with_stdin))
    return 0


async def serve(config: Config, stop_with_stdin: bool = False) -> None:
    """Run a broker until a signal asks it to stop, or until it fails."""
    from minikafka.node.broker import EXPECTED_FAILURES, BrokerNode
    from minikafka.world.real.world import real_world

    node = BrokerNode(real_world(), config, socket.gethostname())
    log = events.event_log("loop", broker=node.broker_id)

    def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What nobody awaits: a bug in a callback ends the node; a socket that fails on its own,
        or an answer that nobody waits for any more, does not."""
        error = context.get("exception")
        if error is None or isinstance(error, EXPECTED_FAILURES):
            log.warning("loop_trouble", message=context.get("message"), error=repr(error))
        else:
            node.fail(error)

    asyncio.get_running_loop().set_exception_handler(on_loop_error)
    call_when_asked_to_stop(node.request_stop, stop_with_stdin)
    # What was imported lives as long as the process: the collector need not look at it again.
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 10, 10)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    await node.run()
