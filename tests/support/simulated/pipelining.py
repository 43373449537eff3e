"""Requests on one connection to a simulated broker: in flight together, or one at a time."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any

from minikafka.core.coordinator_shard import partition_for
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from minikafka.kernel.events import event_log
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.batch import CONTROL_FLAG, RecordBatch, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import decode_batch
from minikafka.protocol.schema import Message
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name

TIMEOUT_MS = 60_000
COORDINATOR_PARTITIONS = 4
SETTINGS = {
    "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "100",
}
AT_MS = 1_700_000_000_000  # the timestamp of every record


async def connected(cluster: SimCluster, broker_id: int) -> Channel:
    world = cluster.client_host.world
    return await Channel.open(
        world.network,
        world.clock,
        host_name(broker_id),
        PORT,
        "pipelining",
        ChannelConfig(max_in_flight=10_000),
        event_log("pipelining"),
    )


async def ready(cluster: SimCluster) -> int:
    """Start the cluster and create the coordinators' topics. Returns the id of the controller."""
    cluster.start()
    brokers = cluster.broker_ids
    await cluster.until("brokers up", lambda: len(cluster.nodes()) == len(brokers))
    controller = cluster.controller_id()
    assert controller is not None
    channel = await connected(cluster, controller)
    for topic in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
        await create(
            channel,
            topic,
            [
                brokers[i % len(brokers) :] + brokers[: i % len(brokers)]
                for i in range(COORDINATOR_PARTITIONS)
            ],
        )
    await asyncio.sleep(2)
    channel.close()
    return controller


async def create(channel: Channel, topic: str, replicas: Sequence[Sequence[int]]) -> None:
    """Create a topic with these replicas of each partition, the leader first."""
    assignments = [CreatableReplicaAssignment(i, list(ids)) for i, ids in enumerate(replicas)]
    request = CreateTopicsRequest([CreatableTopic(topic, -1, -1, assignments)], TIMEOUT_MS)
    (created,) = (await channel.request(request, 7, TIMEOUT_MS)).topics
    assert created.error_code == 0, created


def coordinated(cluster: SimCluster, topic: str, prefix: str, broker_id: int) -> str:
    """Return an id that begins with ``prefix`` and belongs to the first partition of ``topic`` that
    the broker leads."""
    led = [
        partition
        for partition in range(COORDINATOR_PARTITIONS)
        if cluster.leader(TopicPartition(topic, partition)) == broker_id
    ]
    names = (f"{prefix}-{number}" for number in itertools.count())
    return next(n for n in names if partition_for(n, COORDINATOR_PARTITIONS) == led[0])


def records(
    value: str,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    return build_batch(
        [(AT_MS, None, value.encode(), [])],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
    )


def produce(
    *batches: tuple[TopicPartition, bytes], acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    topics = [
        TopicProduceData(tp.topic, partition_data=[PartitionProduceData(tp.partition, data)])
        for tp, data in batches
    ]
    return ProduceRequest(transactional_id, acks, TIMEOUT_MS, topics)


def init(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id, TIMEOUT_MS)


def add_partitions(
    transactional_id: str, producer: tuple[int, int], *partitions: TopicPartition
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(t, [p]) for t, p in partitions],
    )


def end(transactional_id: str, producer: tuple[int, int], committed: bool) -> EndTxnRequest:
    return EndTxnRequest(transactional_id, *producer, committed)


def held(cluster: SimCluster, broker_id: int, where: TopicPartition) -> list[RecordBatch]:
    """Return the batches in a broker's log."""
    log = cluster.replicas(where)[broker_id].log
    found: list[RecordBatch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = parse_batches(log.read(offset, 1 << 20, log.log_end_offset, True).records)
        found += batches
        offset = batches[-1].last_offset + 1
    return found


def values(batches: Iterable[RecordBatch]) -> list[str]:
    """Return the values of the records that are not markers."""
    return [
        bytes(record.value or b"").decode()
        for batch in batches
        if not batch.attributes & CONTROL_FLAG
        for record in decode_batch(batch)
    ]


async def send(
    channel: Channel,
    requests: Sequence[tuple[Message, int]],
    rng: random.Random | None,
    pause_ms: float = 2,
) -> list[Any]:
    """Send requests and return the responses in order, None for a closed connection or for a
    request without a response. With ``rng`` they are all in flight together, with random pauses;
    with None each is sent after the response to the last one."""
    sent: list[asyncio.Future[Any]] = []
    for message, version in requests:
        try:
            if isinstance(message, ProduceRequest) and message.acks == 0:
                await channel.send(message, version, TIMEOUT_MS)
                nothing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                nothing.set_result(None)
                sent.append(nothing)
                if rng is None:
                    await asyncio.sleep(0.05)  # its effect
                continue
            sent.append(asyncio.ensure_future(channel.request(message, version, TIMEOUT_MS)))
        except ConnectionError:
            break
        if rng is None:
            await asyncio.wait([sent[-1]])
        elif rng.random() < 0.6:
            await asyncio.sleep(rng.uniform(0, pause_ms) / 1000)
    responses = await asyncio.gather(*sent, return_exceptions=True)
    closed = [None] * (len(requests) - len(sent))
    return [None if isinstance(r, BaseException) else r for r in responses] + closed
