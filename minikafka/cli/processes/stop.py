"""The verb `stop`: controlled shutdown of a broker on this machine, by SIGTERM."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from pathlib import Path

from minikafka.cli.connect import run_client
from minikafka.cli.processes.broker import load_config
from minikafka.cli.processes.pid_file import Holder
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_pairs_argument
from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.ports import Clock
from minikafka.server.node.config_views import log_dirs

POLL_MS = 50
DEFAULT_TIMEOUT_S = 120  # more than a controlled shutdown takes without a controller


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker", type=int, metavar="ID", help="id of a broker of minikafka up")
    parser.add_argument(
        "--data-dir",
        default="minikafka-data",
        help="the --data-dir of minikafka up (minikafka-data)",
    )
    parser.add_argument("--config", metavar="FILE", help="the --config of minikafka broker")
    add_pairs_argument(parser, "--override", "as given to minikafka broker")
    parser.add_argument(
        "--timeout-s",
        type=int,
        default=DEFAULT_TIMEOUT_S,
        help=f"fail if the process still runs after this time ({DEFAULT_TIMEOUT_S})",
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
        result = run_client(lambda world: stop(world.clock, holder, name, args.timeout_s * 1000))
    print(result)
    return 0


async def stop(clock: Clock, holder: Holder, name: str, timeout_ms: int) -> str:
    """Send SIGTERM and wait until the process has ended; return a line for the user.

    Raises ConfigError if the broker does not run, belongs to another user, or still runs after
    ``timeout_ms``.
    """
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
    """Return the configuration of the broker that the options name.

    Raises ConfigError if they name none, or the file is of another broker; OSError.
    """
    if args.config is None and args.broker is None:
        raise WrongUsage("--broker ID or --config FILE is needed")
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
    """Send SIGTERM. Raises ConfigError if the process belongs to another user."""
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise ConfigError(f"{name} (pid {pid}) belongs to another user") from None
    except ProcessLookupError:
        return  # it has just ended
