"""The cases that truncation by high watermark, and the first truncation by epoch, got wrong."""

from __future__ import annotations

import random

import pytest

from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from tests.support.broker.replicas import TP, ReplicaCluster

PAIR = (1, 2)
SOON_MS = 2_000


@pytest.fixture(params=["2.0-IV1", "2.6-IV0", "2.7-IV1", "3.4-IV0", "3.9-IV0"])
def fetcher(request: pytest.FixtureRequest) -> ReplicaFetcherConfig:
    """Brokers of release 2.0 compare epochs before the first Fetch, others in every Fetch."""
    return ReplicaFetcherConfig(inter_broker_protocol=InterBrokerProtocol.parse(request.param))


async def lead(
    cluster: ReplicaCluster, leader: int, epoch: int, tell: tuple[int, ...] = PAIR
) -> None:
    """An election among two replicas whose ISR is the leader alone: acks=1 is all it takes."""
    await cluster.elect(leader, isr=[leader], replicas=PAIR, epoch=epoch, tell=tell)


async def alone(cluster: ReplicaCluster, leader: int, epoch: int, *values: str) -> None:
    """Broker ``leader`` leads and appends; the other broker gets no request."""
    other = 3 - leader
    cluster.freeze(other)
    await lead(cluster, leader, epoch, tell=(leader,))
    cluster[leader].produce(*values, acks=1)
    await cluster.clock.settle()
    cluster.thaw(other)


def contents(cluster: ReplicaCluster) -> list[list[str]]:
    return [cluster[broker_id].held() for broker_id in PAIR]


async def test_kip_101_restarted_follower_keeps_acknowledged_records_when_elected(
    fetcher: ReplicaFetcherConfig,
) -> None:
    """Its high watermark is one record behind. Cut there, and elected before it has fetched the
    record again, it would have lost it for all."""
    async with ReplicaCluster(PAIR, fetcher=fetcher) as cluster:
        await cluster.elect(1, isr=PAIR, replicas=PAIR)
        cluster[1].produce("m1")
        await cluster.clock.advance(SOON_MS)
        acknowledged = cluster[1].produce("m2")
        await cluster.clock.advance(1)
        assert [answer.error_code for answer in acknowledged] == [0]
        assert cluster[2].partition().high_watermark == 1
        for epoch in (1, 2):  # twice, around the election
            files = await cluster.stop(2)
            cluster.freeze(1)
            await cluster.start(2, files)
            await cluster.elect(1, isr=PAIR, replicas=PAIR, epoch=epoch, tell=[2])
            await cluster.clock.advance(SOON_MS)
            assert cluster[2].held() == ["m1", "m2"]
        await cluster.elect(2, isr=[2], replicas=PAIR, epoch=3, tell=[2])
        cluster.thaw(1)
        await cluster.elect(2, isr=[2], replicas=PAIR, epoch=4)
        await cluster.clock.advance(SOON_MS)
        assert contents(cluster) == [["m1", "m2"]] * 2
        assert cluster[1].partition().high_watermark == 2


async def test_kip_101_returning_leader_truncates_diverging_records(
    fetcher: ReplicaFetcherConfig,
) -> None:
    """Both lost power; one lost a record by it and led first. Only the epochs show that the
    records at one offset differ."""
    async with ReplicaCluster(PAIR, fetcher=fetcher) as cluster:
        await cluster.elect(1, isr=PAIR, replicas=PAIR)
        cluster[1].produce("m1")
        await cluster.clock.advance(SOON_MS)
        await alone(cluster, 1, 1, "m2")
        assert cluster[1].partition().high_watermark == 2
        await alone(cluster, 2, 2, "m3")
        await lead(cluster, 2, 3)
        await cluster.clock.advance(SOON_MS)
        assert contents(cluster) == [["m1", "m3"]] * 2


async def test_kip_279_fast_flips_leave_epochs_that_the_other_has_never_seen(
    fetcher: ReplicaFetcherConfig,
) -> None:
    """The follower's last epoch is unknown to the leader, and so is the one before to the follower:
    one round of truncation is not enough."""
    async with ReplicaCluster(PAIR, fetcher=fetcher) as cluster:
        await cluster.elect(1, isr=PAIR, replicas=PAIR)
        cluster[1].produce("both")
        await cluster.clock.advance(SOON_MS)
        await alone(cluster, 1, 1, "one-a", "one-b")
        await alone(cluster, 2, 2, "two-a")
        await alone(cluster, 2, 3, "two-b", "two-c", "two-d")
        await alone(cluster, 1, 4, "one-c")
        await lead(cluster, 1, 5)
        await cluster.clock.advance(SOON_MS)
        assert contents(cluster) == [["both", "one-a", "one-b", "one-c"]] * 2
        await lead(cluster, 2, 6)
        await cluster.clock.advance(SOON_MS)
        assert contents(cluster)[0] == contents(cluster)[1]


async def test_response_of_a_deposed_leader_is_ignored(
    fetcher: ReplicaFetcherConfig,
) -> None:
    """A parked fetch of a follower outlives its leader's role; its response must be ignored."""
    async with ReplicaCluster(PAIR, fetcher=fetcher) as cluster:
        await cluster.elect(1, isr=PAIR, replicas=PAIR)
        cluster[1].produce("m1")
        await cluster.clock.advance(SOON_MS)
        cluster.latency_ms = lambda: 20
        cluster[1].produce("m2", acks=1)  # on its way to 2
        await lead(cluster, 2, 1)
        cluster[2].produce("m3", acks=1)
        await cluster.clock.advance(SOON_MS)
        assert contents(cluster) == [["m1", "m3"]] * 2


@pytest.mark.parametrize("seed", range(25))
async def test_after_any_flips_both_logs_are_that_of_the_last_leader(
    seed: int, fetcher: ReplicaFetcherConfig
) -> None:
    """Unclean elections without end: both logs become that of the last leader, to the byte."""
    dice = random.Random(seed)
    async with ReplicaCluster(PAIR, fetcher=fetcher) as cluster:
        await cluster.elect(1, isr=PAIR, replicas=PAIR)
        epoch = 0
        for _ in range(dice.randrange(3, 12)):
            epoch += 1
            leader = dice.choice(PAIR)
            if dice.random() < 0.3:
                await lead(cluster, leader, epoch)
                await cluster.clock.advance(dice.choice([1, 100, SOON_MS]))
            else:
                values = [f"{epoch}-{n}" for n in range(dice.randrange(4))]
                if values:
                    await alone(cluster, leader, epoch, *values)
        leader = dice.choice(PAIR)
        expected = cluster[leader].held() if cluster[leader].partition().log.log_end_offset else []
        await lead(cluster, leader, epoch + 1)
        await cluster.clock.advance(4 * SOON_MS)
        assert contents(cluster) == [expected] * 2
        logs = [cluster[broker_id].partition().log for broker_id in PAIR]
        epochs = [  # a leader knows of its own before it has written anything
            [entry for entry in log.epochs.cache.entries if entry.start_offset < len(expected)]
            for log in logs
        ]
        assert epochs[0] == epochs[1]
        assert cluster.nodes[3 - leader].partition(TP).high_watermark == len(expected)
