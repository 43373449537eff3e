"""A follower that fetches by session has the leader's offsets at every step, and stays in sync."""

from __future__ import annotations

import random

import pytest

from minikafka.core.client.fetch_session import FetchSessionHandler
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.support.broker.replicas import TOPIC, ReplicaCluster

PARTITIONS = 4
VERSION = 12
LAG_MS = 10_000


class Follower:
    """Broker 2, played by the test: its log ends, and the offsets it received."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.cluster = cluster
        self.handler: FetchSessionHandler[FetchPartition] = FetchSessionHandler()
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.starts = dict.fromkeys(range(PARTITIONS), 0)
        self.received: dict[int, tuple[int, int]] = {}  # high watermark, log start
        self.wanted = set(range(PARTITIONS))

    def fetch(self, lost: bool) -> None:
        fetch = self.handler.build(
            {
                (TOPIC, i): FetchPartition(
                    i, -1, self.ends[i], log_start_offset=self.starts[i], partition_max_bytes=500
                )
                for i in self.wanted
            },
            False,
        )
        gone = [partition for _, partition in fetch.forgotten]
        request = FetchRequest(
            replica_id=2,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=[FetchTopic(TOPIC, ZERO_UUID, list(fetch.named.values()))],
            forgotten_topics_data=[ForgottenTopic(TOPIC, ZERO_UUID, gone)],
        )
        try:
            response: FetchResponse = self.cluster[1].ask(request, VERSION)[0]
        except KafkaError as error:
            response = FetchResponse(error_code=error.code)
        if lost:
            self.handler.handle_error()
            return
        rows = [row for topic in response.responses for row in topic.partitions]
        keys = [(TOPIC, row.partition_index) for row in rows]
        code = ErrorCode(response.error_code)
        if not self.handler.handle_response(code, response.session_id, keys):
            assert code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            return
        for row in rows:
            index = row.partition_index
            self.received[index] = row.high_watermark, row.log_start_offset
            self.starts[index] = max(self.starts[index], row.log_start_offset)
            if row.records:
                partition = self.cluster[1].partition(TopicPartition(TOPIC, index))
                read = partition.log.read(self.ends[index], 500, 1 << 40, True)
                assert bytes(row.records) == bytes(read.records)
                self.ends[index] += 1  # one batch of one record at a time
        self.check()

    def check(self) -> None:
        for index in self.wanted:
            partition = self.cluster[1].partition(TopicPartition(TOPIC, index))
            assert self.received[index] == (
                partition.high_watermark,
                partition.log.log_start_offset,
            )
            # A settled partition is not read, but its follower counts as caught up.
            times = partition.followers[2].last_fetch_ms, partition.last_caught_up_ms(2)
            assert max(times) == self.cluster.clock.monotonic_ms()


@pytest.mark.mission("FET-7", "FET-9")
@pytest.mark.parametrize("seed", range(12))
async def test_follower_knows_the_high_watermark_and_log_start_of_each_partition(seed: int) -> None:
    dice = random.Random(seed)
    async with ReplicaCluster([1], session_slots=dice.choice([0, 1, 1_000])) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=range(PARTITIONS), tell=[1])
        follower = Follower(cluster)
        for _ in range(60):
            for _ in range(dice.choice([0, 0, 1, 3])):
                index = dice.randrange(PARTITIONS)
                big = "x" * 450  # so that a fetch brings one batch
                cluster[1].produce(big, acks=1, topic_partition=TopicPartition(TOPIC, index))
            if dice.random() < 0.2:
                partition = cluster[1].partition(TopicPartition(TOPIC, dice.randrange(PARTITIONS)))
                partition.delete_records(dice.randint(0, partition.high_watermark))
            if dice.random() < 0.2:
                follower.wanted = set(dice.sample(range(PARTITIONS), dice.randint(1, PARTITIONS)))
            follower.fetch(lost=dice.random() < 0.1)
            await cluster.clock.advance(dice.choice([0, 1, 400]))
        follower.wanted = set(range(PARTITIONS))
        for _ in range(300):  # of rest, but for the fetches
            follower.fetch(lost=False)
            await cluster.clock.advance(LAG_MS // 50)
        ends = [cluster[1].partition(TopicPartition(TOPIC, i)) for i in range(PARTITIONS)]
        assert [p.log.log_end_offset for p in ends] == list(follower.ends.values())
        assert [p.high_watermark for p in ends] == list(follower.ends.values())
        assert all(p.state.isr.committed == (1, 2) for p in ends)
