"""The contents of DescribeTransactions and ListTransactions responses."""

from __future__ import annotations

from collections.abc import Collection

from minikafka.core.regexes import Pattern
from minikafka.core.transaction.transaction import (
    STATES_BY_TITLE,
    Transaction,
    TransactionState,
)
from minikafka.kernel.cluster import grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages import describe_transactions as messages
from minikafka.protocol.messages.list_transactions import ListedTransaction


def described(transactional_id: str, transaction: Transaction | None) -> messages.TransactionState:
    """Return the DescribeTransactions row. Its partitions are those that have no marker yet."""
    if transaction is None or not transaction.is_visible:
        return messages.TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    facts = transaction.facts
    open_partitions = transaction.unmarked if facts.state.is_prepared else facts.partitions
    topics = grouped(sorted(open_partitions))
    return messages.TransactionState(
        ErrorCode.NONE,
        transactional_id,
        facts.state.title,
        facts.timeout_ms,
        facts.start_ms,
        facts.producer_id,
        facts.producer_epoch,
        [messages.TopicData(*of_topic) for of_topic in topics.items()],
    )


def states_named(titles: Collection[str]) -> tuple[set[TransactionState], list[str]]:
    """Return the states with these names (case-sensitive), and the names that are unknown."""
    known = {STATES_BY_TITLE[title] for title in titles if title in STATES_BY_TITLE}
    return known, [title for title in titles if title not in STATES_BY_TITLE]


def is_listed(
    transaction: Transaction,
    states: Collection[TransactionState] | None,
    producer_ids: Collection[int],
    longer_than_ms: int,
    now_ms: int,
    pattern: Pattern | None = None,
) -> bool:
    """Whether ListTransactions includes the transaction.

    ``states`` None, empty ``producer_ids``, a negative ``longer_than_ms`` and ``pattern`` None do
    not filter. The pattern must match the whole transactional id (KIP-1152).
    """
    facts = transaction.facts
    return (
        transaction.is_visible
        and (states is None or facts.state in states)
        and (not producer_ids or facts.producer_id in producer_ids)
        and (longer_than_ms < 0 or now_ms - facts.start_ms > longer_than_ms)
        and (pattern is None or pattern.fullmatch(transaction.transactional_id) is not None)
    )


def listed(transaction: Transaction) -> ListedTransaction:
    facts = transaction.facts
    return ListedTransaction(transaction.transactional_id, facts.producer_id, facts.state.title)
