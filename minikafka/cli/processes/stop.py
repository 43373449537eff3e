"""The verb `stop`: asks a broker of this machine to stop in order, and waits until it has gone."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from pathlib import Path

from minikafka.cli.connect import run_client
from minikafka.cli.processes.broker import load_config
from minikafka.cli.processes.pid_file import Holder
from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.ports import Clock
from minikafka.node.config_views import log_dirs

POLL_MS = 50
DEFAULT_TIMEOUT_S = 120  # more than a controlled shutdown that nobody answers takes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker", type=int, metavar="ID", help="of a cluster of minikafka up")
    parser.add_argument(
        "--data-dir", default="minikafka-data", help="that of minikafka up (minikafka-data)"
    )
    parser.add_argument("--config", metavar="FILE", help="that of minikafka broker")
    parser.add_argument(
        "--override", metavar="KEY=VALUE", action="append", default=[], help="as given to it"
    )
    parser.add_argument(
        "--timeout-s", type=int, default=DEFAULT_TIMEOUT_S, help=f"({DEFAULT_TIMEOUT_S})"
    )


def run(args: argparse.Namespace) -> int:
    config = find_config(args)
    broker_id = config.integer("broker.id")
    name = f"broker {broker_id}" if broker_id >= 0 else "the broker"
    try:
        holder = Holder(Path(log_dirs(config)[0]))
    except FileNotFoundError:
        raise ConfigError(f"{name} is not running") from None
    with contextlib.closing(holder):
        told = run_client(lambda world: stop(world.clock, holder, name, args.timeout_s * 1000))
    print(told)
    return 0


async def stop(clock: Clock, holder: Holder, name: str, timeout_ms: int) -> str:
    """Send the signal and wait until the process has gone; what there is to say of it. Raises
    ConfigError where it does not go, or where that is not ours to ask."""
    started_ms = clock.monotonic_ms()
    pid = holder.pid()
    if pid is None:
        raise ConfigError(f"{name} is not running")
    ask_to_stop(pid, name)
    while holder.pid() is not None:
        if clock.monotonic_ms() - started_ms >= timeout_ms:
            raise ConfigError(
                f"{name} (pid {pid}) still runs after {timeout_ms // 1000} s; "
                f"kill -9 {pid} ends it at once"
            )
        await clock.sleep(POLL_MS)
    return f"{name} stopped (pid {pid}, {(clock.monotonic_ms() - started_ms) / 1000:.1f} s)"


def find_config(args: argparse.Namespace) -> Config:
    """The configuration that the broker runs with. Raises ConfigError, OSError."""
    if args.config is None and args.broker is None:
        raise ConfigError("--broker ID or --config FILE is needed")
    path = Path(args.config or f"{args.data_dir}/broker-{args.broker}/server.properties")
    if args.config is None and not path.is_file():
        raise ConfigError(no_such_broker(Path(args.data_dir), args.broker))
    config = load_config(str(path), os.environ, args.override)
    found = config.integer("broker.id")
    if args.broker is not None and args.broker != found:
        raise ConfigError(f"{path} is that of broker {found}, not of broker {args.broker}")
    return config


def no_such_broker(data_dir: Path, broker_id: int) -> str:
    there = sorted(path.parent.name for path in data_dir.glob("broker-*/server.properties"))
    if not there:
        return f"no cluster of minikafka up in {data_dir} (--data-dir or --config says where)"
    ids = ", ".join(name.removeprefix("broker-") for name in there)
    return f"no broker {broker_id} in {data_dir}, there are {ids}"


def ask_to_stop(pid: int, name: str) -> None:
    """Raises ConfigError where that is not ours to do."""
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise ConfigError(f"{name} (pid {pid}) belongs to another user") from None
    except ProcessLookupError:
        return  # it has just gone
