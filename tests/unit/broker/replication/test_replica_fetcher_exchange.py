"""A fetcher that goes on without its task does what it does with it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from minikafka.broker.metadata.topic_configs import TopicConfig
from minikafka.broker.replication.isr import IsrConfig
from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.fetch import FetchRequest
from tests.support.broker.replicas import TOPIC, ReplicaCluster

PARTITIONS = (0, 1)
BROKERS = (1, 2, 3)
CONFIGS = (LogConfig(), LogConfig(segment_bytes=300), LogConfig(flush_messages=2))


class Story:
    """Plays random steps: mostly appends, which one partition gets for a while."""

    def __init__(self, cluster: ReplicaCluster, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)
        self.epoch = 0
        self.busy = 0
        self.responses: list[list[Any]] = []

    async def step(self) -> None:
        cluster, dice = self.cluster, self.dice
        what = dice.random()
        if what < 0.75:
            self._produce()
        elif what < 0.8:
            self.busy = dice.choice(PARTITIONS)
        elif what < 0.85:
            await self.elect()
        elif what < 0.9:
            broker = dice.choice(BROKERS)
            dice.choice([cluster.freeze, cluster.thaw, cluster.thaw])(broker)
        elif what < 0.95:
            config = TopicConfig(log=dice.choice(CONFIGS))
            for node in cluster.nodes.values():
                for index in PARTITIONS:
                    node.partition(TopicPartition(TOPIC, index)).configure(config)
        else:
            self._delete_records()
        await cluster.clock.advance(dice.choice([1, 3, 5, 20, 60, 600]))

    async def elect(self) -> None:
        self.epoch += 1
        leaders = [self.dice.choice(BROKERS) for _ in PARTITIONS]
        for index, leader in zip(PARTITIONS, leaders, strict=True):
            await self.cluster.elect(leader, epoch=self.epoch, partitions=[index])

    def _produce(self) -> None:
        topic_partition = TopicPartition(TOPIC, self.busy)
        for _ in range(self.dice.choice([1, 1, 3])):
            for node in self.cluster.nodes.values():
                if node.partition(topic_partition).is_leader:
                    value = f"v{len(self.responses)}"
                    acks = self.dice.choice([-1, -1, 1])
                    response = node.produce(value, acks=acks, topic_partition=topic_partition)
                    self.responses.append(response)

    def _delete_records(self) -> None:
        topic_partition = TopicPartition(TOPIC, self.dice.choice(PARTITIONS))
        for node in self.cluster.nodes.values():
            partition = node.partition(topic_partition)
            if partition.is_leader:
                try:
                    partition.delete_records(-1)
                except KafkaError:
                    continue

    def state(self) -> dict[str, Any]:
        """Return what both ways must have in common."""
        cluster = self.cluster
        fetches: dict[tuple[int, int], list[Any]] = {}
        for source, target, request, version in cluster.requests:
            if isinstance(request, FetchRequest):
                session_id = min(1, request.session_id)  # they are random
                sent = replace(request, session_id=session_id)
                fetches.setdefault((source, target), []).append((sent, version))
        partitions = {}
        for number, node in cluster.nodes.items():
            for index in PARTITIONS:
                found = node.partition(TopicPartition(TOPIC, index))
                log, held = found.log, node.held(TopicPartition(TOPIC, index))
                bounds = (
                    log.log_start_offset,
                    found.high_watermark,
                    log.recovery_point,  # what is flushed
                    log.log_end_offset,
                )
                isr = found.state.isr, dict(found.followers)
                partitions[number, index] = held, bounds, isr
        responses = [list(each) for each in self.responses]
        return {"fetches": fetches, "partitions": partitions, "responses": responses}


async def played(seed: int, exchanges: bool) -> tuple[list[dict[str, Any]], int]:
    """Play a story. Return the state after each step, and how many responses were taken."""
    isr = IsrConfig(replica_lag_time_max_ms=2_000)
    async with ReplicaCluster(isr=isr) as cluster:
        cluster.exchanges = exchanges
        cluster.latency_ms = lambda: 1
        story = Story(cluster, seed)
        await story.elect()
        states = []
        for _ in range(60):
            await story.step()
            states.append(story.state())
        return states, cluster.taken


@pytest.mark.mission("FET-24")
@pytest.mark.parametrize("seed", range(12))
async def test_both_ways_have_the_same_effects(seed: int) -> None:
    by_task, none = await played(seed, exchanges=False)
    alone, taken = await played(seed, exchanges=True)
    assert none == 0
    assert taken > 5
    for number, (expected, found) in enumerate(zip(by_task, alone, strict=True)):
        for key, value in expected.items():
            assert found[key] == value, f"{key} after step {number}"
