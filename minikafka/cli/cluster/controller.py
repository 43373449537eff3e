"""The verb `controller`: the controller's id, its recent events, and a dump of its context."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from minikafka.cli import output
from minikafka.cli.cluster.debug import ASK_ANOTHER_AFTER_MS, fetch, find_listener
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.output import Table
from minikafka.cli.verb_parser import add_action, add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.kernel.config import ConfigError

DEFAULT_LIMIT = 20
CONTEXT_LIMIT = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="status|context")
    text = "show id, epoch, event queue, time by kind of event, recent transitions"
    status = add_action(actions, "status", text)
    _add_arguments(status, DEFAULT_LIMIT, "transitions")
    add_json_argument(status)
    text = "show the controller context as JSON with Kafka's field names"
    context = add_action(actions, "context", text)
    _add_arguments(context, CONTEXT_LIMIT, "entries of each list")
    add_json_argument(context, "the output is JSON in any case")


def _add_arguments(parser: argparse.ArgumentParser, limit: int, of_what: str) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument("--broker", type=int, metavar="ID", help="default: the controller")
    parser.add_argument("--limit", type=int, default=limit, help=f"{of_what} ({limit})")


def run(args: argparse.Namespace) -> int:
    if args.broker is None:
        args.broker = find_controller(args)
    path = "/controller.json" if args.action == "status" else "/controller-context.json"
    shown = fetch(find_listener(args), args.broker, f"{path}?limit={args.limit}")
    if args.action == "context":
        output.show_json(shown["context"])
    elif args.json:
        output.show_json(shown)
    else:
        output.show_tables(tables(shown))
    return 0


def find_controller(args: argparse.Namespace) -> int:
    """Return the controller's id from the brokers' metadata. Raises ConfigError if there is
    none."""
    config = client_config(args, request_timeout_ms=ASK_ANOTHER_AFTER_MS)

    async def work(admin: Admin) -> int:
        return (await admin.describe_cluster()).controller_id

    found = run_admin(config, work)
    if found < 0:
        raise ConfigError("no controller is known now")
    return found


def tables(shown: Any) -> list[Table]:
    """Return the status as tables: state, request queues, times of events, last transitions."""
    columns = ("broker", "active", "controller", "epoch", "state", "queue")
    events = ("event", "count", "mean_ms", "longest_ms", "total_ms", "mean_queue_ms")
    brokers = ("broker", "queue", "troubled")
    return [
        (columns, [[shown[name] for name in columns]]),
        (brokers, [[row[name] for name in brokers] for row in shown["brokers"]]),
        (events, [[row[name] for name in events] for row in shown["events"]]),
        (
            (
                *("time", "epoch", "partition", "replica", "before", "after"),
                *("leader", "leader_epoch", "isr"),
            ),
            [transition(row) for row in shown["transitions"]],
        ),
    ]


def transition(row: Any) -> list[Any]:
    moment = datetime.fromtimestamp(row["time_ms"] / 1000, UTC)
    return [
        moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        *(row["controller_epoch"], row["partition"], row["replica"], row["before"], row["after"]),
        *(row["leader"], row["leader_epoch"], row["isr"]),
    ]
