"""The verb `elect-leaders`: requests leader elections, as kafka-leader-election does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minikafka.cli.cluster.reassign import parse_partitions
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.replicas import PlacementOutcomes
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument(
        "--election-type",
        required=True,
        type=str.lower,
        choices=[kind.name.lower() for kind in ElectionType],
        help="preferred: the first replica, if in sync; unclean: any live one; may lose records",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all-topic-partitions", action="store_true", help="of all partitions")
    which.add_argument("--topic", help="with --partition")
    which.add_argument(
        "--path-to-json-file",
        metavar="FILE",
        help='{"partitions": [{"topic": "t", "partition": 0}]}',
    )
    parser.add_argument("--partition", type=int, help="with --topic")


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    partitions = chosen(args)
    election_type = ElectionType[args.election_type.upper()]

    async def work(admin: Admin) -> int:
        return report(election_type, await admin.elect_leaders(election_type, partitions))

    return run_admin(config, work)


def chosen(args: argparse.Namespace) -> list[TopicPartition] | None:
    """Return the partitions that the options name; None means all. Raises WrongUsage."""
    if (args.topic is None) != (args.partition is None):
        raise WrongUsage("--topic and --partition go together")
    if args.topic is not None:
        return [TopicPartition(args.topic, args.partition)]
    if args.path_to_json_file is not None:
        return parse_partitions(Path(args.path_to_json_file).read_text())
    return None


def report(election_type: ElectionType, outcomes: PlacementOutcomes) -> int:
    """Print the results in Kafka's lines; return the exit status."""
    elected: list[TopicPartition] = []
    needless: list[TopicPartition] = []
    failed = 0
    for tp, error in sorted(outcomes.items(), key=lambda row: row[0]):
        if error is None:
            elected.append(tp)
        elif error.code is ErrorCode.ELECTION_NOT_NEEDED:
            needless.append(tp)
        else:
            failed += 1
            print(
                f"Error completing leader election ({election_type.name}) for partition: {tp}: "
                f"{error}",
                file=sys.stderr,
            )
    if elected:
        print(
            f"Successfully completed leader election ({election_type.name}) for partitions "
            + ", ".join(map(str, elected))
        )
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    if failed:
        print(f"{failed} replica(s) could not be elected", file=sys.stderr)
    return 1 if failed else 0
