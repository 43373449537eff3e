"""The verb `transactions`: show transactions and abort hanging ones, as kafka-transactions does."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Mapping
from typing import Any

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_client
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_action, add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.transactions import (
    NO_TRANSACTION,
    ProducerDescription,
    TransactionDescription,
)
from minikafka.core.client.cluster_view import TopicView
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World

MS_PER_MINUTE = 60_000
LONGEST_TRANSACTION_MINUTES = 15  # Kafka's transaction.max.timeout.ms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = "list|describe|describe-producers|abort|find-hanging"
    actions = parser.add_subparsers(dest="action", required=True, metavar=names)
    listing = _action(actions, "list", "list transactional ids and their states")
    listing.add_argument(
        "--duration-filter",
        type=int,
        default=-1,
        metavar="MS",
        help="only transactions open for longer (-1: all)",
    )
    describe = _action(actions, "describe", "show the transaction of one transactional id")
    describe.add_argument(
        "--transactional-id", required=True, help="the transactional.id of the producer"
    )
    producers = _action(actions, "describe-producers", "show the active producers of a partition")
    _add_partition(producers)
    abort = _action(actions, "abort", "abort a hanging transaction in a partition")
    _add_partition(abort)
    abort.add_argument(
        "--start-offset",
        type=int,
        help="first offset of the transaction; its producer is looked up by it",
    )
    abort.add_argument(
        "--producer-id",
        type=int,
        help="with --producer-epoch and --coordinator-epoch, instead of --start-offset",
    )
    abort.add_argument("--producer-epoch", type=int, help="as describe-producers shows it")
    abort.add_argument("--coordinator-epoch", type=int, help="as describe-producers shows it")
    hanging = _action(
        actions, "find-hanging", "find open transactions that their coordinator does not know"
    )
    hanging.add_argument(
        "--broker-id", type=int, help="only partitions with a replica on this broker"
    )
    hanging.add_argument("--topic", help="only partitions of this topic")
    hanging.add_argument("--partition", type=int, help="only this partition of the topic")
    hanging.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=LONGEST_TRANSACTION_MINUTES,
        metavar="MINUTES",
        help="ignore transactions whose last record is younger",
    )


def _action(actions: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    parser = add_action(actions, name, help_text)
    add_bootstrap_argument(parser)
    add_json_argument(parser)
    return parser


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, help="the topic of the partition")
    parser.add_argument("--partition", type=int, required=True, help="the number of the partition")


def run(args: argparse.Namespace) -> int:
    actions = {
        "list": list_transactions,
        "describe": describe,
        "describe-producers": describe_producers,
        "abort": abort,
        "find-hanging": find_hanging,
    }
    config = client_config(args)
    if args.action == "abort" and args.start_offset is None:
        given = (args.producer_id, args.producer_epoch, args.coordinator_epoch)
        if None in given:
            raise WrongUsage(
                "abort needs --start-offset, or --producer-id, --producer-epoch and "
                "--coordinator-epoch"
            )

    async def work(world: World) -> int:
        async with Admin(world, config) as admin:
            return await actions[args.action](admin, args, world.clock.wall_ms)

    return run_client(work, config.default_api_timeout_ms)


async def list_transactions(
    admin: Admin, args: argparse.Namespace, now_ms: Callable[[], int]
) -> int:
    found = await admin.list_transactions(longer_than_ms=args.duration_filter)
    output.show(
        ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
        [(row.transactional_id, row.coordinator, row.producer_id, row.state) for row in found],
        args.json,
    )
    return 0


async def describe(admin: Admin, args: argparse.Namespace, now_ms: Callable[[], int]) -> int:
    wanted = args.transactional_id
    found = (await admin.describe_transactions([wanted]))[wanted]
    if isinstance(found, KafkaError):
        raise found
    open_since = found.start_ms if found.start_ms >= 0 and found.partitions else None
    open_ms = None if open_since is None else now_ms() - open_since
    row = (
        found.coordinator,
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        _time(open_since),
        open_ms,
        [str(topic_partition) for topic_partition in found.partitions],
    )
    columns = (
        "CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState "
        "TransactionTimeoutMs CurrentTransactionStartTimeMs TransactionDurationMs TopicPartitions"
    )
    if sys.stdout.isatty() and not args.json:  # too many columns for a terminal
        cells = dict(zip(columns.split(), row, strict=True))
        if open_ms is not None and open_ms > found.timeout_ms:
            cells["TransactionDurationMs"] = output.Sick(open_ms)
        output.show_table(("field", "value"), list(cells.items()))
        return 0
    output.show(columns.split(), [row], args.json)
    return 0


async def describe_producers(
    admin: Admin, args: argparse.Namespace, now_ms: Callable[[], int]
) -> int:
    found = await _producers(admin, TopicPartition(args.topic, args.partition))
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            None if each.transaction_start == NO_TRANSACTION else each.transaction_start,
        )
        for each in found
    ]
    columns = (
        "ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp "
        "CurrentTransactionStartOffset"
    )
    output.show(columns.split(), rows, args.json)
    return 0


async def abort(admin: Admin, args: argparse.Namespace, now_ms: Callable[[], int]) -> int:
    where = TopicPartition(args.topic, args.partition)
    producer = (args.producer_id, args.producer_epoch, args.coordinator_epoch)
    if args.start_offset is not None:
        found = await _producers(admin, where)
        known = [each for each in found if each.transaction_start == args.start_offset]
        if not known:
            raise ConfigError(f"no transaction is open at offset {args.start_offset} of {where}")
        each = known[0]
        producer = (each.producer_id, each.producer_epoch, max(0, each.coordinator_epoch))
    await admin.abort_transaction(where, *producer)
    return 0


async def _existing(admin: Admin, name: str) -> TopicView:
    """Return a topic. Raises KafkaError at once for one that does not exist."""
    topic = (await admin.describe_topics([name]))[name]
    if isinstance(topic, KafkaError):
        raise topic
    return topic


async def _producers(admin: Admin, where: TopicPartition) -> list[ProducerDescription]:
    await _existing(admin, where.topic)
    found = (await admin.describe_producers([where]))[where]
    if isinstance(found, KafkaError):
        raise found
    return found


# -- transactions that hang


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without an end marker yet in one partition, and its producer there."""

    where: TopicPartition
    producer: ProducerDescription


async def find_hanging(admin: Admin, args: argparse.Namespace, now_ms: Callable[[], int]) -> int:
    """Print transactions open in a partition for too long that no coordinator is going to end.

    A transaction is open for too long if its last record is older than
    ``--max-transaction-timeout``. Raises ConfigError without a broker or a topic to search.
    """
    if args.partition is not None and args.topic is None:
        raise WrongUsage("--partition needs --topic")
    if args.broker_id is None and args.topic is None:
        raise WrongUsage("find-hanging needs --broker-id or --topic")
    candidates = await _open_too_long(admin, args, now_ms())
    found: list[OpenTransaction] = []
    if candidates:
        ids = {each.producer.producer_id for each in candidates}
        listed = {
            row.producer_id: row.transactional_id
            for row in await admin.list_transactions(producer_ids=ids)
        }
        known = await admin.describe_transactions(listed.values())
        found = [each for each in candidates if hangs(each, listed, known)]
    columns = (
        "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp "
        "Duration(min)"
    )
    output.show(columns.split(), [_row(each, now_ms()) for each in found], args.json)
    return 0


def hangs(
    transaction: OpenTransaction,
    listed: Mapping[int, str],
    known: Mapping[str, TransactionDescription | KafkaError],
) -> bool:
    """Return whether no coordinator is going to end the transaction in its partition.

    ``listed``: transactional ids by producer id. ``known``: the coordinators' descriptions or
    errors by transactional id. TRANSACTIONAL_ID_NOT_FOUND means that the transaction hangs; after
    any other error that is unknown, and the transaction is not reported.
    """
    transactional_id = listed.get(transaction.producer.producer_id)
    if transactional_id is None:
        return True
    description = known[transactional_id]
    if isinstance(description, KafkaError):
        return description.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return transaction.where not in description.partitions


async def _open_too_long(
    admin: Admin, args: argparse.Namespace, now_ms: int
) -> list[OpenTransaction]:
    if args.topic is None:
        topics = await admin.list_topics(include_internal=True)
    else:
        topics = [await _existing(admin, args.topic)]
    wanted = [
        TopicPartition(topic.name, view.partition)
        for topic in topics
        for view in topic.partitions.values()
        if args.partition in (None, view.partition)
        and (args.broker_id is None or args.broker_id in view.replicas)
    ]
    limit_ms = args.max_transaction_timeout * MS_PER_MINUTE
    found: list[OpenTransaction] = []
    for where, producers in (await admin.describe_producers(wanted)).items():
        if isinstance(producers, KafkaError):
            print(f"{where}: {producers}", file=sys.stderr)
            continue
        found += [
            OpenTransaction(where, each)
            for each in producers
            if each.transaction_start != NO_TRANSACTION
            and now_ms - each.last_timestamp_ms > limit_ms
        ]
    return found


def _row(each: OpenTransaction, now_ms: int) -> tuple[Any, ...]:
    producer = each.producer
    return (
        each.where.topic,
        each.where.partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.transaction_start,
        producer.last_timestamp_ms,
        (now_ms - producer.last_timestamp_ms) // MS_PER_MINUTE,
    )


def _time(at_ms: int | None) -> str | None:
    """Format a Unix time in ms as Kafka's tools do: UTC, to the second."""
    if at_ms is None:
        return None
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
