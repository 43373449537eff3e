"""Follows a cluster by the protocol: looks at it every second or two, until it is cancelled.

What it puts on the stage exists for any Kafka. ``cluster_facts`` has the bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from minikafka.core.client.cluster_view import Node
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Clock
from minikafka.page.dashboard.beyond import Beyond
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.cluster_facts import (
    MAX_GROUPS,
    MAX_PARTITIONS,
    MAX_TRANSACTIONS,
    BrokerAbout,
    FailedCall,
    PartitionOffsets,
    cluster_facts,
    node_facts,
    reassignment_facts,
    shown_topics,
    topic_facts,
    transaction_facts,
)
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.group_reads import read_groups
from minikafka.page.dashboard.messages import EntityKey, Facts

LOOK_EVERY_MS: Final = 1_500

Entities = dict[EntityKey, Facts]


class ClusterSource:
    """``watched`` returns the topics that pages have open; ``about`` is what is known of each
    broker's software. ``nodes_seen`` is called with the brokers after each look."""

    def __init__(
        self,
        clock: Clock,
        reader: ClusterReader,
        broadcast: Broadcast,
        bootstrap: str,
        about: Mapping[int, BrokerAbout],
        watched: Callable[[], Collection[str]],
        nodes_seen: Callable[[Mapping[int, Node]], None],
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._broadcast = broadcast
        self._bootstrap = bootstrap
        self._about = about
        self._watched = watched
        self._nodes_seen = nodes_seen
        self._beyond = Beyond()
        self._known_nodes: dict[int, Node] = {}  # also those that are gone

    async def follow(self) -> None:
        while True:
            begun_ms = self._clock.monotonic_ms()
            try:
                entities = await self.look()
            except KafkaError as error:
                entities = self._unreachable(error)
            self._broadcast.stage.replace(None, self._clock.wall_ms(), entities)
            self._broadcast.publish()
            took_ms = self._clock.monotonic_ms() - begun_ms
            await self._clock.sleep(max(LOOK_EVERY_MS - took_ms, min(took_ms, LOOK_EVERY_MS) // 2))

    async def look(self) -> Entities:
        """Return all entities. Raises KafkaError if no broker responds."""
        reader = self._reader
        errors: list[FailedCall] = []
        names = [name for kind, name in self._broadcast.stage.entities(None) if kind == "topic"]
        await reader.topics([*names, *self._watched()])
        self._nodes_seen(reader.view.nodes)
        topics = shown_topics(reader.view.topics, self._watched())
        partitions = [TopicPartition(t.name, number) for t in topics for number in t.partitions]
        offsets = self._offsets_inside(partitions[:MAX_PARTITIONS])
        others = [tp for tp in partitions[:MAX_PARTITIONS] if tp not in offsets]
        requested, transactions, reassignments = await asyncio.gather(
            reader.offsets(others, errors),
            self._transactions(errors),
            reader.reassignments(errors),
        )
        offsets |= requested
        entities: Entities = {
            ("topic", topic.name): topic_facts(topic, offsets) for topic in topics
        }
        ends = {
            tp: known.high_watermark
            for tp, known in offsets.items()
            if known.high_watermark is not None
        }
        groups, count = await self._groups(ends, errors)
        entities |= groups | transactions | self._nodes()
        for tp, assignment in islice(sorted(reassignments.items()), MAX_PARTITIONS):
            entities["reassignment", str(tp)] = reassignment_facts(assignment)
        described = frozenset(topic.name for topic in topics)
        beyond = self._beyond.facts(reader.whole, described, frozenset(reassignments))
        if beyond is not None:
            entities["beyond", ""] = beyond
        shown = {
            "topics": len(topics),
            "partitions": len(partitions),
            "groups": len(groups),
            "transactions": len(transactions),
        }
        entities["cluster", ""] = cluster_facts(
            reader.view, self._bootstrap, reader.totals, count, shown, errors
        )
        return entities

    def _offsets_inside(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets]:
        """Return the offsets that leaders have shown whose inside is followed. Requests for them
        would be a large part of what an open page costs with a thousand partitions."""
        stage, leaders = self._broadcast.stage, self._reader.view.leaders
        found: dict[TopicPartition, PartitionOffsets] = {}
        for tp in partitions:
            leader = leaders.get(tp)
            facts = (
                stage.entities(leader).get(("partition", str(tp))) if leader is not None else None
            )
            if facts is not None and facts.get("is_leader"):
                found[tp] = PartitionOffsets(
                    facts["log_start_offset"], facts["high_watermark"], facts["last_stable_offset"]
                )
        return found

    async def _groups(
        self, ends: dict[TopicPartition, int], errors: list[FailedCall]
    ) -> tuple[Entities, int]:
        """Return the first groups with their lag, and how many groups there are."""
        reader = self._reader
        listed = await reader.list_groups(errors)
        shown = {group_id: listed[group_id] for group_id in sorted(listed)[:MAX_GROUPS]}
        found = await read_groups(reader, shown, ends, errors, MAX_PARTITIONS)
        return {("consumer_group", name): facts for name, facts in found.items()}, len(listed)

    async def _transactions(self, errors: list[FailedCall]) -> Entities:
        listed = (await self._reader.list_transactions(errors))[:MAX_TRANSACTIONS]
        coordinators = {row.transactional_id: row.coordinator for row in listed}
        described = await self._reader.describe_transactions(coordinators, errors)
        return {("txn", name): transaction_facts(row) for name, row in described.items()}

    def _nodes(self) -> Entities:
        view = self._reader.view
        self._known_nodes |= view.nodes
        return {
            ("node", str(node.id)): node_facts(
                node, node.id in view.nodes, node.id == view.controller_id, self._about.get(node.id)
            )
            for node in self._known_nodes.values()
        }

    def _unreachable(self, error: KafkaError) -> Entities:
        """Return what was known, with all brokers offline."""
        known = dict(self._broadcast.stage.entities(None))
        for node in self._known_nodes.values():
            facts = node_facts(node, False, False, self._about.get(node.id))
            known["node", str(node.id)] = facts
        failed = FailedCall("Metadata", None, str(error))
        before = known.get(("cluster", "")) or cluster_facts(
            self._reader.view, self._bootstrap, self._reader.totals, 0, {}, ()
        )
        known["cluster", ""] = {**before, "controller": None, "errors": [failed.facts()]}
        return known
