"""The facts about a broker's inside that change while a page looks at it.

Nothing is looked at while no page requests it, and then in slices. ``core/entity_changes`` numbers
what has changed since the last look, so that a response has nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, TypeAlias

from minikafka.core.entity_changes import Changes, EntityChanges, EntityKey
from minikafka.core.transaction.transaction import Transaction
from minikafka.kernel.slices import BACKGROUND_BUDGET_US, run_at_once, run_in_slices
from minikafka.server.broker.apis.watched_requests import WatchedRequests
from minikafka.server.broker.share.share_facts import facts_of_each as share_facts_of_each
from minikafka.server.coordinator.group_facts import facts_of_each
from minikafka.server.node.entities import BrokerEntities
from minikafka.server.node.partition_facts import PartitionFacts
from minikafka.server.node.traffic_facts import TrafficFacts

MAX_OTHERS: Final = 100  # groups, share-partitions, transactions, sessions of Fetch, operations
FRESH_MS: Final = 100  # requests within so long share one look
MAX_TOPICS: Final = 50  # which pages watch
WATCHED_MS: Final = 30_000  # since a request has named the topic

Facts: TypeAlias = Mapping[str, Any]


class WatchedTopics:
    """The topics that pages watch: those named last, each for a while."""

    def __init__(self) -> None:
        self._named_ms: dict[str, int] = {}  # the ones named last are at the end

    def name(self, topics: Iterable[str], now_ms: int) -> None:
        """Watch the first ``MAX_TOPICS`` of these topics."""
        for topic in islice(topics, MAX_TOPICS):
            self._named_ms.pop(topic, None)
            self._named_ms[topic] = now_ms
        for topic in list(self._named_ms)[:-MAX_TOPICS]:
            del self._named_ms[topic]

    def now(self, now_ms: int) -> frozenset[str]:
        for topic, named_ms in list(self._named_ms.items()):
            if now_ms - named_ms >= WATCHED_MS:
                del self._named_ms[topic]
        return frozenset(self._named_ms)


class StateFacts:
    """Looks at the entities of a broker when a request needs it, and not otherwise.

    Entities, by kind: ``broker``, ``controller``, ``partition``, ``purgatory``, ``session`` (of
    Fetch), ``group``, ``share_partition`` (at its leader), ``transaction``, ``request`` (an API),
    ``requests`` (the slowest and the last ones), ``connections``, ``throttle``. Times are
    milliseconds since 1970, unless they are those of a timing wheel."""

    def __init__(self, entities: BrokerEntities) -> None:
        self._entities = entities
        self._clock = clock = entities.clock
        self._requests = WatchedRequests(entities.apis, clock)
        self._changes = EntityChanges()
        # Added to the monotonic clock for the time since 1970. The sum is not corrected when the
        # wall clock is: facts would change without cause.
        self._wall_offset_ms = offset_ms = clock.wall_ms() - clock.monotonic_ms()
        self._topics = WatchedTopics()
        self._partitions = PartitionFacts(
            entities.partitions, entities.fetchers, self._changes, offset_ms
        )
        self._traffic = TrafficFacts(entities, offset_ms)
        self._looked_at_ms: int | None = None
        self._looking: asyncio.Task[None] | None = None

    async def since(self, number: int, topics: Iterable[str] = ()) -> Changes:
        """Return what has changed after ``number``. For a while all partitions of ``topics`` are
        looked at each time."""
        now_ms = self._clock.monotonic_ms()
        self._requests.watch()
        self._topics.name(topics, now_ms)
        if self._looking is None and (
            self._looked_at_ms is None or now_ms - self._looked_at_ms >= FRESH_MS
        ):
            self._looking = asyncio.get_running_loop().create_task(self._look(now_ms))
        if self._looking is not None:
            await asyncio.shield(self._looking)  # others may wait for it, too
        return self._changes.since(number)

    def at_once(self, number: int, more: Mapping[EntityKey, Facts]) -> Changes:
        """Look at everything without a pause, and return what has changed after ``number``, here
        and in the entities ``more``. This is for a simulation, which stands still meanwhile: it
        sets no timer and creates no task."""
        self._requests.watch()
        run_at_once(self._partitions.look(frozenset(), self._clock.monotonic_ms()))
        run_at_once(self._changes.refresh(chain(more.items(), self._others())))
        return self._changes.since(number)

    async def _look(self, now_ms: int) -> None:
        try:
            topics = self._topics.now(now_ms)
            partitions = self._partitions.look(topics, now_ms)
            await run_in_slices(partitions, BACKGROUND_BUDGET_US)
            others = self._changes.refresh(self._others())
            await run_in_slices(others, BACKGROUND_BUDGET_US, look_every=1)
            self._looked_at_ms = self._clock.monotonic_ms()
        finally:
            self._looking = None

    def _others(self) -> Iterator[tuple[EntityKey, Facts]]:
        """Yield all entities but partitions."""
        entities = self._entities
        yield ("broker", ""), entities.broker()
        yield ("controller", ""), entities.controller.facts(MAX_OTHERS)
        for purgatory in entities.purgatories.facts_of_each(MAX_OTHERS):
            yield ("purgatory", purgatory["name"]), purgatory
        for session in entities.fetch_sessions.facts(MAX_OTHERS):
            created_ms = session["created_ms"] + self._wall_offset_ms
            yield ("session", str(session["id"])), {**session, "created_ms": created_ms}
        for group in facts_of_each(entities.groups, MAX_OTHERS):
            yield ("group", group["group"]), group
        for share in share_facts_of_each(entities.shares, MAX_OTHERS, self._wall_offset_ms):
            name = f"{share['group']}:{share['topic']}-{share['partition']}"
            yield ("share_partition", name), share
        for transaction in islice(entities.transactions.all_transactions(), MAX_OTHERS):
            yield ("transaction", transaction.transactional_id), transaction_facts(transaction)
        for name, request_facts in entities.apis.times.facts(self._clock.monotonic_ms()):
            yield ("request", name), request_facts
        yield ("requests", ""), self._requests.facts()
        yield from self._traffic.look()


def transaction_facts(transaction: Transaction) -> Facts:
    """Return the state of a transactional id. While markers are written, ``marked`` are the
    partitions that have theirs."""
    facts = transaction.facts
    partitions = sorted(str(partition) for partition in islice(facts.partitions, MAX_OTHERS))
    unmarked = sorted(str(partition) for partition in islice(transaction.unmarked, MAX_OTHERS))
    return {
        "state": facts.state.title,
        "pending": None if transaction.pending is None else transaction.pending.title,
        "producer_id": facts.producer_id,
        "producer_epoch": facts.producer_epoch,
        "timeout_ms": facts.timeout_ms,
        "start_ms": facts.start_ms,
        "last_update_ms": facts.last_update_ms,
        "partitions": partitions,
        "num_partitions": len(facts.partitions),
        "unmarked": len(transaction.unmarked),
        "unmarked_partitions": unmarked,
        "marked": [each for each in partitions if each not in unmarked]
        if facts.state.is_prepared
        else [],
    }
