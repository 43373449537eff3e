"""What a broker counts by topic."""

from __future__ import annotations

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.records.legacy import encode_message_set
from minikafka.protocol.records.record import Record
from minikafka.server.broker.record_formats import num_records
from minikafka.server.broker.replication.record_appends import AppendEntry
from minikafka.server.broker.replication.record_preparation import RecordPreparation
from minikafka.server.broker.topic_metrics import LINGERING_TOPICS, TopicMetrics
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster, batch, error_of
from tests.support.metric_names import figures
from tests.support.world.manual_workers import ManualWorkers


def count(node: Node, name: str, tag: str = f",topic={TOPIC}") -> float:
    return figures(node.metrics, "kafka.server")[f"{name}{tag}"]


@pytest.mark.mission("GLASS-3")
async def test_appends_and_fetches_count_in_all_and_for_their_topic() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        leader = cluster[1]
        assert error_of(leader.produce("a", acks=1)) is ErrorCode.NONE
        assert error_of(leader.produce("b", acks=1)) is ErrorCode.NONE
        size = 2 * len(batch("a"))
        for tag in ("", f",topic={TOPIC}"):
            assert count(leader, "MessagesInPerSec", tag) == 2
            assert count(leader, "BytesInPerSec", tag) == size
            assert count(leader, "TotalProduceRequestsPerSec", tag) == 2
        await cluster.clock.advance(1_000)
        before = count(leader, "TotalFetchRequestsPerSec")
        leader.fetch(0, max_wait_ms=0)
        assert count(leader, "TotalFetchRequestsPerSec") == before + 1
        assert count(leader, "BytesOutPerSec") == size
        assert count(leader, "ReplicationBytesOutPerSec", "") == size
        assert count(cluster[2], "ReplicationBytesInPerSec", "") == size
        assert count(leader, "FailedFetchRequestsPerSec") == 0


@pytest.mark.mission("GLASS-3")
async def test_refused_requests_count_as_failed() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(2, isr=[1, 2], replicas=[1, 2])
        follower = cluster[1]
        assert error_of(follower.produce("a")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert count(follower, "FailedProduceRequestsPerSec") == 1
        assert count(follower, "TotalProduceRequestsPerSec") == 1
        assert count(follower, "MessagesInPerSec") == 0
        follower.fetch(100, max_wait_ms=0)
        assert count(follower, "FailedFetchRequestsPerSec") == 1


@pytest.mark.mission("GLASS-3")
async def test_a_topic_without_partitions_here_is_forgotten() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        leader = cluster[1]
        assert error_of(leader.produce("a", acks=1)) is ErrorCode.NONE
        assert f"MessagesInPerSec,topic={TOPIC}" in figures(leader.metrics, "kafka.server")
        leader.replicas.hosted.remove(leader.partition().topic_partition)
        shown = figures(leader.metrics, "kafka.server")
        assert f"MessagesInPerSec,topic={TOPIC}" not in shown
        assert shown["MessagesInPerSec"] == 1


@pytest.mark.mission("GLASS-3")
def test_names_that_clients_make_up_are_forgotten_before_the_counts_are_read() -> None:
    counts = TopicMetrics(Metrics(), lambda: {"here"})
    counts.appended("here", messages=2, size=100)
    for number in range(5 * LINGERING_TOPICS):
        counts.append_failed(f"not-here-{number}")
        counts.fetch_failed(f"not-here-{number}")
    assert len(counts._topics) <= LINGERING_TOPICS + 2
    assert counts.of("here").messages_in == 2
    assert counts.total("failed_produce_requests") == 5 * LINGERING_TOPICS
    assert counts.total("fetch_requests") == 5 * LINGERING_TOPICS
    assert counts.total("messages_in") == 2


@pytest.mark.mission("GLASS-58")
async def test_messages_of_old_formats_are_counted_when_they_become_batches() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        leader = cluster[1]
        topics = leader.replicas.topic_metrics
        preparation = RecordPreparation(
            ManualWorkers(), cluster.clock, leader.replicas.hosted, topics.produce_converted
        )
        records = [Record(0, 1234, None, b"v", []) for _ in range(3)]
        for magic in (0, 1):
            assert preparation.prepare([AppendEntry(TP, encode_message_set(records, magic))])
        assert preparation.prepare([AppendEntry(TP, batch("a", "b"))])  # of the present format
        for tag in ("", f",topic={TOPIC}"):
            assert count(leader, "ProduceMessageConversionsPerSec", tag) == 6
        topics.fetch_converted(TOPIC, 5)
        assert count(leader, "FetchMessageConversionsPerSec") == 5
        assert count(leader, "MessagesInPerSec") == 0


@pytest.mark.mission("GLASS-58")
def test_records_are_counted_up_to_an_invalid_batch() -> None:
    two, three = bytes(batch("a", "b")), bytes(batch("a", "b", "c"))
    assert num_records(two + three) == 5
    damaged = two + three[:16] + bytes([7]) + three[17:]
    assert num_records(damaged) == 2
