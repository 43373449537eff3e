"""The verb `broker`: one broker process in the foreground, stopped by SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.kernel import events
from minikafka.kernel.config import (
    Config,
    ConfigError,
    parse_properties,
    properties_from_environment,
)
from minikafka.kernel.settings import BROKER_CONFIG


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "--override", metavar="KEY=VALUE", action="append", default=[], help="wins over the file"
    )
    parser.add_argument("--log-level", default="INFO", choices=sorted(events.LEVELS))
    parser.add_argument("--log-json", action="store_true", help="log lines as JSON")


def load_config(
    path: str | None, environment: Mapping[str, str], overrides: Sequence[str]
) -> Config:
    """The file, then ``KAFKA_*`` variables, then overrides; later ones win."""
    given = parse_properties(Path(path).read_text()) if path else {}
    given |= properties_from_environment(environment)
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator:
            raise ConfigError(f"--override needs KEY=VALUE, not {override}")
        given[key.strip()] = value.strip()
    return BROKER_CONFIG.parse(given)


def run(args: argparse.Namespace) -> int:
    from minikafka.world.real.world import run as run_real

    config = load_config(args.config, os.environ, args.override)
    events.configure(args.log_level, args.log_json)
    run_real(serve(config))
    return 0


async def serve(config: Config) -> None:
    """Run a broker until a signal asks it to stop, or until it fails."""
    from minikafka.node import BrokerNode
    from minikafka.world.real.world import real_world

    node = BrokerNode(real_world(), config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.request_stop, signal.Signals(number).name)
    await node.run()
