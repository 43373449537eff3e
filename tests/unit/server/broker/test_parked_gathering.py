"""Parked fetches of followers: one response for consecutive appends, within a bounded time."""

from __future__ import annotations

import asyncio

from tests.support.broker.replicas import ReplicaCluster, values_in


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_appends_in_consecutive_turns_complete_a_parked_fetch_once() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        parked = cluster[1].fetch(0, replica_id=2)
        for value in "abc":
            cluster[1].produce(value, acks=1)
            await turns(1)
        assert parked == []
        await turns(3)
        assert [values_in(data.records) for data in parked] == [["a", "b", "c"]]


async def test_one_alone_waits_for_a_turn_and_not_for_time() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        parked = cluster[1].fetch(0, replica_id=2)
        cluster[1].produce("a", acks=1)
        await turns(3)
        assert [values_in(data.records) for data in parked] == [["a"]]


async def test_an_endless_stream_of_appends_delays_a_parked_fetch_for_a_bounded_time() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        parked = cluster[1].fetch(0, replica_id=2)
        for number in range(30):
            cluster[1].produce("a", acks=1)
            await turns(1)
            if parked:
                break
            cluster.clock.now_ms += number % 10 == 9  # ten of them take a millisecond
        assert 10 < len(values_in(parked[0].records)) < 30
