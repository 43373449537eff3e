"""The verb `fake`: brokers for tests in any language, in one process, with faults over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from minikafka.cli.processes.broker import parse_overrides
from minikafka.cli.verb_parser import add_pairs_argument, at_least

if TYPE_CHECKING:
    from minikafka.testing.inside.cluster import InsideCluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=at_least(1), default=1, help="number of brokers (1)")
    parser.add_argument(
        "--base-port",
        type=at_least(0),
        default=0,
        help="port of the first broker (0: the system chooses all ports)",
    )
    parser.add_argument(
        "--control",
        type=at_least(0),
        metavar="PORT",
        help="serve faults and changes of the cluster over HTTP, on 127.0.0.1 (0: any port)",
    )
    add_pairs_argument(parser, "--override", "a setting of every broker; repeatable")


def run(args: argparse.Namespace) -> int:
    from minikafka.cli.processes.inside import run_inside

    control: int | None = args.control

    def beside(cluster: InsideCluster) -> AbstractContextManager[str]:
        return nullcontext("") if control is None else controlled(cluster, control)

    return run_inside(args.brokers, args.base_port, parse_overrides(args.override), beside)


@contextmanager
def controlled(cluster: InsideCluster, port: int) -> Iterator[str]:
    from minikafka.testing.fault_control import HOST, control_server
    from minikafka.testing.inside.control import cluster_control

    with control_server(cluster_control(cluster), port) as bound:
        yield f"control=http://{HOST}:{bound}"
