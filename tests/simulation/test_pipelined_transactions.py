"""Five transactional Produce requests in flight on one connection, a transaction a round."""

from __future__ import annotations

import asyncio
import random

import pytest

from minikafka.kernel.cluster import TRANSACTION_STATE_TOPIC, TopicPartition
from minikafka.network.channel import Channel
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated import pipelining as pipe

ROUNDS = 30
IN_FLIGHT = 5
WHERE = TopicPartition("flights", 0)


async def begun(controls: Channel, name: str, producer: tuple[int, int]) -> None:
    """The partition is in the transaction; while markers of the last one are on their way, that is
    refused."""
    while True:
        request = pipe.add_partitions(name, producer, WHERE)
        added = await controls.request(request, 3, pipe.TIMEOUT_MS)
        (topic,) = added.results_by_topic_v3_and_below
        if topic.results_by_partition[0].partition_error_code == 0:
            return
        await asyncio.sleep(0.05)


@pytest.mark.mission("ORD-2")
@pytest.mark.parametrize("seed", range(2))
def test_five_in_flight_are_appended_in_order_in_every_transaction(seed: int) -> None:
    failed: dict[int, list[int]] = {}

    async def scenario(cluster: SimCluster) -> list[str]:
        leader = await pipe.ready(cluster)
        other = next(b for b in cluster.broker_ids if b != leader)
        name = pipe.coordinated(cluster, TRANSACTION_STATE_TOPIC, "tx", other)
        produces = await pipe.connected(cluster, leader)
        controls = await pipe.connected(cluster, other)
        await pipe.create(produces, WHERE.topic, [(leader, other)])
        found = await controls.request(pipe.init(name), 4, pipe.TIMEOUT_MS)
        producer = found.producer_id, found.producer_epoch
        rng = random.Random(seed)
        for round_ in range(ROUNDS):
            await begun(controls, name, producer)
            first = round_ * IN_FLIGHT
            batches = [
                pipe.records(str(sequence), producer, sequence, transactional=True)
                for sequence in range(first, first + IN_FLIGHT)
            ]
            requests = [pipe.produce((WHERE, batch), transactional_id=name) for batch in batches]
            responses = await pipe.send(produces, [(request, 9) for request in requests], rng)
            errors = [r.responses[0].partition_responses[0].error_code for r in responses]
            if any(errors):
                failed[round_] = errors
            await controls.request(pipe.end(name, producer, True), 3, pipe.TIMEOUT_MS)
        return pipe.values(pipe.held(cluster, leader, WHERE))

    appended = SimCluster(seed, (1, 2), pipe.SETTINGS).run(scenario)
    assert failed == {}
    assert appended == [str(number) for number in range(ROUNDS * IN_FLIGHT)]


@pytest.mark.mission("TV2-7")
def test_transactions_of_version_2_follow_each_other_without_a_pause() -> None:
    """The leader adds the partition when the transaction before is completed."""

    async def scenario(cluster: SimCluster) -> list[str]:
        leader = await pipe.ready(cluster)
        other = next(b for b in cluster.broker_ids if b != leader)
        name = pipe.coordinated(cluster, TRANSACTION_STATE_TOPIC, "tx", other)
        produces = await pipe.connected(cluster, leader)
        controls = await pipe.connected(cluster, other)
        await pipe.create(produces, WHERE.topic, [(leader, other)])
        found = await controls.request(pipe.init(name), 4, pipe.TIMEOUT_MS)
        for round_ in range(ROUNDS):
            producer = found.producer_id, found.producer_epoch
            assert producer[1] == round_
            batches = [
                pipe.records(str(round_ * IN_FLIGHT + n), producer, n, transactional=True)
                for n in range(IN_FLIGHT)
            ]
            requests = [pipe.produce((WHERE, batch), transactional_id=name) for batch in batches]
            rng = random.Random(round_)
            responses = await pipe.send(produces, [(request, 12) for request in requests], rng)
            errors = [r.responses[0].partition_responses[0].error_code for r in responses]
            assert errors == [0] * IN_FLIGHT
            found = await controls.request(pipe.end(name, producer, True), 5, pipe.TIMEOUT_MS)
            assert found.error_code == 0
        return pipe.values(pipe.held(cluster, leader, WHERE))

    appended = SimCluster(1, (1, 2), pipe.SETTINGS).run(scenario)
    assert appended == [str(number) for number in range(ROUNDS * IN_FLIGHT)]
