"""The verb `log-dirs`: lists the replicas in brokers' log directories, as a table, or with
--describe as kafka-log-dirs does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.output import Sick, show
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.replicas import LogDirDescription
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument(
        "--describe",
        action="store_true",
        help="print the JSON of kafka-log-dirs instead of a table",
    )
    parser.add_argument(
        "--topic-list", default="", metavar="TOPIC,...", help="only these topics (all)"
    )
    parser.add_argument(
        "--broker-list", default="", metavar="ID,...", help="only these brokers (all)"
    )


def run(args: argparse.Namespace) -> int:
    wanted = broker_ids(args.broker_list)
    topics = {name for name in args.topic_list.split(",") if name}
    config = client_config(args)

    async def work(admin: Admin) -> None:
        known = {node.id for node in (await admin.describe_cluster()).nodes}
        if unknown := wanted - known:
            raise ConfigError(
                f"The given brokers do not exist from --broker-list: {_listed(unknown)}. "
                f"Current existent brokers: {_listed(known)}"
            )
        asked = wanted or known
        if not args.describe:
            show(COLUMNS, table_rows(await admin.describe_log_dirs(asked), topics), as_json=False)
            return
        print("Querying brokers for log directories information")
        found = await admin.describe_log_dirs(asked)
        print(f"Received log directory information from brokers {_listed(asked)}")
        print(json.dumps(as_json(found, topics), separators=(",", ":")))

    run_admin(config, work)
    return 0


COLUMNS = ("broker", "directory", "partition", "size", "lag", "state")


def table_rows(
    brokers: Mapping[int, Mapping[str, LogDirDescription]], topics: set[str]
) -> list[tuple[object, ...]]:
    """Return a row for each replica, with its size in bytes and how many records it lacks; one for
    a directory without any. Empty ``topics`` means all."""
    rows: list[tuple[object, ...]] = []
    for broker_id, dirs in sorted(brokers.items()):
        for path, found in sorted(dirs.items()):
            broken = None if found.error is ErrorCode.NONE else Sick(found.error.name)
            held = [
                (tp, r)
                for tp, r in sorted(found.replicas.items())
                if not topics or tp.topic in topics
            ]
            for partition, replica in held:
                state = broken or ("moves here" if replica.is_future else "ok")
                lag = replica.offset_lag
                rows.append((broker_id, path, str(partition), replica.size_bytes, lag, state))
            if not held and (broken or not topics):
                rows.append((broker_id, path, None, None, None, broken or "empty"))
    return rows


def broker_ids(text: str) -> set[int]:
    """Parse the broker ids of ``--broker-list``. Raises ConfigError."""
    try:
        return {int(word) for word in text.split(",") if word.strip()}
    except ValueError:
        raise WrongUsage(f"--broker-list needs numbers, not {text}") from None


def _listed(ids: set[int]) -> str:
    return ",".join(str(broker_id) for broker_id in sorted(ids))


def as_json(
    brokers: Mapping[int, Mapping[str, LogDirDescription]], topics: set[str]
) -> dict[str, Any]:
    """Format log directories and replicas as kafka-log-dirs does; empty ``topics`` means all."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": broker_id,
                "logDirs": [_directory(path, found, topics) for path, found in dirs.items()],
            }
            for broker_id, dirs in brokers.items()
        ],
    }


def _directory(path: str, found: LogDirDescription, topics: set[str]) -> dict[str, Any]:
    return {
        "logDir": path,
        "error": None if found.error is ErrorCode.NONE else found.error.name,
        "partitions": [
            {
                "partition": str(partition),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for partition, replica in sorted(found.replicas.items())
            if not topics or partition.topic in topics
        ],
    }
