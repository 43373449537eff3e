"""Random failures: nothing acknowledged is lost, and committed prefixes agree at every step."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.protocol.messages.produce import PartitionProduceResponse
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.broker.replication.isr import IsrConfig
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from tests.support.broker.replicas import TP, ReplicaCluster

BROKERS = (1, 2, 3)


class Story:
    """A controller with little sense, a producer, and a network that comes and goes."""

    def __init__(self, cluster: ReplicaCluster, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)
        self.frozen: set[int] = set()
        self.epoch = 0
        self.sent = 0
        self.waiting: list[tuple[str, Sequence[PartitionProduceResponse]]] = []
        self.acknowledged: dict[int, str] = {}

    async def elect(self) -> None:
        """Like the controller: among the live members of the ISR that ZooKeeper holds."""
        state = self.cluster.znodes.states[TP]
        live = [broker for broker in state.isr if broker not in self.frozen]
        if not live:
            return
        self.epoch += 1
        leader = state.leader if state.leader in live else self.dice.choice(live)
        if self.dice.random() < 0.5:
            leader = self.dice.choice(live)
        told = [broker for broker in BROKERS if broker not in self.frozen]
        await self.cluster.elect(leader, isr=live, epoch=self.epoch, tell=told)

    def produce(self, acks: int) -> None:
        """To every broker that takes itself for the leader."""
        leaders = [n for n in self.cluster.nodes.values() if n.partition().is_leader]
        if leaders:
            value = f"v{self.sent}"
            self.sent += 1
            node = self.dice.choice(leaders)
            answers = node.produce(value, acks=acks, timeout_ms=self.dice.choice([500, 20_000]))
            if acks == -1:
                self.waiting.append((value, answers))

    async def step(self) -> None:
        what = self.dice.random()
        if what < 0.5:
            self.produce(self.dice.choice([-1, -1, 1]))
        elif what < 0.6:
            broker = self.dice.choice(BROKERS)
            if broker in self.frozen:
                self.frozen.remove(broker)
                self.cluster.thaw(broker)
            elif len(self.frozen) < 2:
                self.frozen.add(broker)
                self.cluster.freeze(broker)
        elif what < 0.85:
            await self.elect()
        await self.cluster.clock.advance(self.dice.choice([0, 0, 1, 5, 50, 700, 3_000]))

    def check(self) -> None:
        still = []
        for value, answers in self.waiting:
            if not answers:
                still.append((value, answers))
            elif answers[0].error_code == 0:
                self.acknowledged[answers[0].base_offset] = value
        self.waiting = still
        committed = [
            node.held()[: node.partition().high_watermark] for node in self.cluster.nodes.values()
        ]
        longest = max(committed, key=len)
        for prefix in committed:
            assert prefix == longest[: len(prefix)]
        # High watermarks go back when a new leader has not heard of the latest yet, but whoever
        # ZooKeeper says is in sync, and so may lead next, holds all that was acknowledged.
        for broker in self.cluster.znodes.states[TP].isr:
            held = self.cluster[broker].held()
            for offset, value in self.acknowledged.items():
                assert held[offset] == value

    async def end(self) -> None:
        """Everything heals."""
        self.cluster.thaw(*BROKERS)
        self.frozen.clear()
        await self.elect()
        await self.cluster.clock.advance(10_000)
        self.check()
        held = [node.held() for node in self.cluster.nodes.values()]
        assert held[0] == held[1] == held[2]
        assert sorted(self.cluster.znodes.states[TP].isr) == [1, 2, 3]
        for offset, value in self.acknowledged.items():
            assert held[0][offset] == value


@pytest.mark.parametrize("min_insync_replicas", [1, 2])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("protocol", ["2.0-IV1", "2.6-IV0", "3.9-IV0"])
async def test_nothing_acknowledged_is_lost(
    seed: int, min_insync_replicas: int, protocol: str
) -> None:
    async with ReplicaCluster(
        isr=IsrConfig(replica_lag_time_max_ms=2_000),
        fetcher=ReplicaFetcherConfig(inter_broker_protocol=InterBrokerProtocol.parse(protocol)),
    ) as cluster:
        cluster.configs.by_topic[TP.topic] = TopicConfig(min_insync_replicas=min_insync_replicas)
        await cluster.elect(1)
        story = Story(cluster, seed)
        cluster.latency_ms = lambda: story.dice.choice([0, 0, 1, 20, 300])
        for _ in range(80):
            await story.step()
            story.check()
        await story.end()
