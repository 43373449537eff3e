"""Where a producer's records go: which partitions count, and when the choice moves on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from minikafka.client import Producer
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.api_keys import ApiKey
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.scenes import producing
from tests.support.world.client_world import jumping

LEADERLESS = (0, 3)
AVAILABLE = {1, 2, 4}


async def without_leaders(producer: Producer, cluster: FakeCluster, *numbers: int) -> None:
    for number in numbers:
        cluster.move_leader(TopicPartition("t", number), -1)
    await producer.session.metadata.topic("t", 1_000)


async def partitions_of(producer: Producer, count: int, key: bytes | None = None) -> list[int]:
    """Where each of ``count`` records went that are sent one by one, a batch each."""
    return [(await producer.send_and_wait("t", b"v", key)).partition for _ in range(count)]


@pytest.mark.mission("PAR-3")
@jumping
async def test_a_key_stays_with_its_partition_while_that_has_no_leader() -> None:
    """abc hashes to 479470107, which is 2 of 5 partitions; of the four available it is 4."""
    async with producing(partitions=5) as (producer, cluster):
        await without_leaders(producer, cluster, 2)
        waiting = await producer.send("t", b"v", b"abc")
        await asyncio.sleep(5)
        assert not waiting.done(), "it waits for the leader of its partition"
        assert sum(len(partition.batches) for partition in cluster.partitions.values()) == 0
        cluster.move_leader(TopicPartition("t", 2), 1)
        assert (await waiting).partition == 479470107 % 5 == 2


@pytest.mark.mission("PAR-4")
@jumping
async def test_round_robin_takes_turns_among_partitions_with_a_leader() -> None:
    async with producing(partitions=5, partitioner="round_robin") as (producer, cluster):
        await without_leaders(producer, cluster, *LEADERLESS)
        chosen = await partitions_of(producer, 12)
        assert Counter(chosen) == dict.fromkeys(AVAILABLE, 4)
        assert all(one != other for one, other in pairwise(chosen))


@pytest.mark.mission("PAR-4")
@jumping
async def test_round_robin_takes_turns_among_all_partitions_when_none_has_a_leader() -> None:
    async with producing(partitions=5, partitioner="round_robin") as (producer, cluster):
        await without_leaders(producer, cluster, *range(5))
        waiting = [await producer.send("t", b"v") for _ in range(10)]
        for number in range(5):
            cluster.move_leader(TopicPartition("t", number), 1)
        places = await asyncio.gather(*waiting)
        assert Counter(place.partition for place in places) == dict.fromkeys(range(5), 2)


@pytest.mark.mission("PAR-5", "PAR-6")
@jumping
async def test_sticky_moves_with_every_batch_among_partitions_with_a_leader() -> None:
    async with producing(partitions=5) as (producer, cluster):
        await without_leaders(producer, cluster, *LEADERLESS)
        chosen = await partitions_of(producer, 40)
        assert set(chosen) == AVAILABLE
        assert all(one != other for one, other in pairwise(chosen))


@pytest.mark.mission("PAR-5")
@jumping
async def test_sticky_fills_one_batch_before_it_moves() -> None:
    async with producing(partitions=5, linger_ms=60_000, batch_size=1_000) as (producer, cluster):
        waiting = [await producer.send("t", b"x" * 79) for _ in range(90)]
        await producer.flush()
        chosen = [promise.result().partition for promise in waiting]
        runs = [chosen[at : at + 9] for at in range(0, 90, 9)]  # 61 + 9 * (79 + 21) <= 1000
        assert all(len(set(run)) == 1 for run in runs)
        assert all(one[0] != other[0] for one, other in pairwise(runs))
        batches = [batch for p in cluster.partitions.values() for batch in p.batches]
        assert len(batches) == 10


@pytest.mark.mission("PAR-5")
@jumping
async def test_keys_do_not_move_the_sticky_partition() -> None:
    async with producing(partitions=5, linger_ms=60_000) as (producer, _):
        waiting = []
        for number in range(30):
            waiting.append(await producer.send("t", b"v"))
            await producer.send("t", b"v", b"%d" % number)
        await producer.flush()
        assert len({promise.result().partition for promise in waiting}) == 1


class Sticky:
    """A sticky partitioner as an application writes it: in order, and with a log of its calls."""

    def __init__(self) -> None:
        self.current = 0
        self.new_batches: list[int] = []
        self.asked = 0

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition_count: int,
        available: Sequence[int],
    ) -> int:
        self.asked += 1
        return self.current

    def on_new_batch(
        self, topic: str, partition_count: int, available: Sequence[int], previous: int
    ) -> None:
        assert (topic, partition_count) == ("t", 3)
        self.new_batches.append(previous)
        others = [number for number in available if number > previous]
        self.current = others[0] if others else available[0]


@pytest.mark.mission("PAR-10")
@jumping
async def test_a_custom_partitioner_is_notified_of_a_new_batch() -> None:
    partitioner = Sticky()
    async with producing(
        partitions=3, partitioner=partitioner, linger_ms=60_000, batch_size=1_000
    ) as (producer, _):
        waiting = [await producer.send("t", b"x" * 79, b"key") for _ in range(36)]
        await producer.send("t", b"by its own choice", partition=0)
        await producer.flush()
        chosen = [promise.result().partition for promise in waiting]
        assert chosen == [*[1] * 9, *[2] * 9, *[0] * 9, *[1] * 9]
        assert partitioner.new_batches == [0, 1, 2, 0]
        assert partitioner.asked == 36 + 4, "once more for each batch"


@jumping
async def test_a_partitioner_without_on_new_batch_is_called_once_per_record() -> None:
    asked = []

    def by_turns(
        topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]
    ) -> int:
        asked.append((topic, key, value, count, list(available)))
        return len(asked) % count

    async with producing(partitions=3, partitioner=by_turns) as (producer, _):
        assert await partitions_of(producer, 4, b"k") == [1, 2, 0, 1]
        assert asked == [("t", b"k", b"v", 3, [0, 1, 2])] * 4


class Index:
    """An integer of another type, as numpy's are."""

    def __index__(self) -> int:
        return 2


@jumping
async def test_a_partitioner_may_choose_with_any_integer_type() -> None:
    async with producing(partitions=3, partitioner=lambda *_: Index()) as (producer, _):
        assert await partitions_of(producer, 1, b"k") == [2]


@pytest.mark.parametrize("wrong", [3, -1, 1.0, None])
def test_a_partition_out_of_range_is_refused(wrong: object) -> None:
    @jumping
    async def scenario() -> None:
        async with producing(partitions=3, partitioner=lambda *_: wrong) as (producer, cluster):
            with pytest.raises(ValueError, match=f"the partitioner chose {wrong} of 3 partitions"):
                await producer.send("t", b"v")
            assert not cluster.requests(ApiKey.PRODUCE)

    scenario()
