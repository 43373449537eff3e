"""The verb `stop`: asks a broker of this machine to stop in order, and waits until it has gone."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from pathlib import Path

from minikafka.cli.broker import load_config
from minikafka.cli.pid_file import Holder
from minikafka.kernel.config import Config, ConfigError
from minikafka.node_config import log_dirs

POLL_S = 0.05
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
    started = time.monotonic()
    try:
        holder = Holder(Path(log_dirs(config)[0]))
    except FileNotFoundError:
        raise ConfigError(f"{name} is not running") from None
    with contextlib.closing(holder):
        pid = holder.pid()
        if pid is None:
            raise ConfigError(f"{name} is not running")
        ask_to_stop(pid, name)
        while holder.pid() is not None:
            if time.monotonic() - started >= args.timeout_s:
                raise ConfigError(
                    f"{name} (pid {pid}) still runs after {args.timeout_s} s; "
                    f"kill -9 {pid} ends it at once"
                )
            time.sleep(POLL_S)
    print(f"{name} stopped (pid {pid}, {time.monotonic() - started:.1f} s)")
    return 0


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
