"""The facts about a broker's inside that change while a page looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from minikafka.broker.replication.partition import Partition
from minikafka.broker.requests.apis import Apis
from minikafka.broker.requests.watched_requests import WatchedRequests
from minikafka.core.entity_changes import Changes, EntityChanges, EntityKey
from minikafka.core.transaction.transaction import Transaction
from minikafka.kernel.ports import Clock
from minikafka.kernel.slices import run_in_slices
from minikafka.node.wiring import BrokerParts

MAX_PARTITIONS: Final = 1000
MAX_OTHERS: Final = 100  # groups, transactions, sessions of Fetch, operations of a purgatory
AT_ONCE: Final = 50  # entities; then others run
FRESH_MS: Final = 100  # requests within so long share one look

Facts: TypeAlias = Mapping[str, Any]
ReadLimited: TypeAlias = Callable[[int], Facts]


class StateFacts:
    """Looks at the parts of a broker when a request needs it, and not otherwise.

    Entities, by kind: ``broker``, ``controller``, ``partition``, ``purgatory``, ``session`` (of
    Fetch), ``group``, ``transaction``, ``request`` (an API), ``requests`` (the slowest and the last
    ones). ``broker`` and ``controller`` return the facts of those."""

    def __init__(
        self,
        clock: Clock,
        parts: BrokerParts,
        apis: Apis,
        broker: Callable[[], Facts],
        controller: ReadLimited,
    ) -> None:
        self._clock = clock
        self._parts = parts
        self._times = apis.times
        self._requests = WatchedRequests(apis, clock)
        self._broker = broker
        self._controller = controller
        self._changes = EntityChanges()
        self._looked_at_ms: int | None = None
        self._looking: asyncio.Task[None] | None = None

    async def since(self, number: int) -> Changes:
        """Return what has changed after ``number``."""
        now_ms = self._clock.monotonic_ms()
        self._requests.watch()
        if self._looking is None and (
            self._looked_at_ms is None or now_ms - self._looked_at_ms >= FRESH_MS
        ):
            self._looking = asyncio.get_running_loop().create_task(self._look())
        if self._looking is not None:
            await asyncio.shield(self._looking)  # others may wait for it, too
        return self._changes.since(number)

    async def _look(self) -> None:
        try:
            await run_in_slices(self._changes.refresh(self._entities()), AT_ONCE)
            self._looked_at_ms = self._clock.monotonic_ms()
        finally:
            self._looking = None

    def _entities(self) -> Iterator[tuple[EntityKey, Facts]]:
        yield ("broker", ""), self._broker()
        yield ("controller", ""), self._controller(MAX_OTHERS)
        parts = self._parts
        sources = {tp: (source, lag) for tp, source, lag in parts.replicas.fetchers.lags()}
        for partition in islice(parts.replicas.hosted, MAX_PARTITIONS):
            if partition.has_log:
                facts = partition_facts(partition, sources.get(partition.topic_partition))
                yield ("partition", str(partition.topic_partition)), facts
        for purgatory in parts.purgatories.facts(MAX_OTHERS):
            yield ("purgatory", purgatory["name"]), purgatory
        for session in parts.fetch_sessions.cache.facts(MAX_OTHERS):
            yield ("session", str(session["id"])), session
        for group in parts.groups.facts(MAX_OTHERS, None)["groups"]:
            yield ("group", group["group"]), group
        for transaction in islice(parts.transactions.coordinator.all_transactions(), MAX_OTHERS):
            yield ("transaction", transaction.transactional_id), transaction_facts(transaction)
        for name, request_facts in self._times.facts(self._clock.monotonic_ms()):
            yield ("request", name), request_facts
        yield ("requests", ""), self._requests.facts()


def partition_facts(partition: Partition, fetched: tuple[int, int] | None) -> Facts:
    """Return the state of a replica. ``fetched`` is the broker from which a follower fetches, and
    how many offsets it is behind."""
    log, state = partition.log, partition.state
    facts: dict[str, Any] = {
        "is_leader": partition.is_leader,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.zk_version,
        "replicas": list(state.assignment.replicas),
        "log_start_offset": log.log_start_offset,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_end_offset": log.log_end_offset,
        "size_bytes": log.size_bytes,
        "segments": len(log.segments),
    }
    if partition.is_leader:
        facts["isr"] = list(state.isr.committed)
        facts["proposed_isr"] = None if state.isr.proposed is None else list(state.isr.proposed)
        facts["followers"] = {
            str(broker): follower.log_end_offset for broker, follower in partition.followers.items()
        }
    elif fetched is not None:
        facts["fetched_from"], facts["lag"] = fetched
    return facts


def transaction_facts(transaction: Transaction) -> Facts:
    facts = transaction.facts
    return {
        "state": facts.state.title,
        "pending": None if transaction.pending is None else transaction.pending.title,
        "producer_id": facts.producer_id,
        "producer_epoch": facts.producer_epoch,
        "timeout_ms": facts.timeout_ms,
        "start_ms": facts.start_ms,
        "partitions": sorted(str(partition) for partition in islice(facts.partitions, MAX_OTHERS)),
        "num_partitions": len(facts.partitions),
        "unmarked": len(transaction.unmarked),
    }
