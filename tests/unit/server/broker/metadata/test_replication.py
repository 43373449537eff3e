"""Three replicas: what is committed when, how a failover truncates."""

from __future__ import annotations

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from tests.support.broker.replicas import TP, ReplicaCluster, error_of, values_in


@pytest.mark.mission("DOP-1")
async def test_followers_copy_and_the_high_watermark_follows_them() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        answers = cluster[1].produce("a", "b", acks=1)
        assert error_of(answers) is ErrorCode.NONE
        assert cluster[1].partition().high_watermark == 0
        await cluster.clock.settle()
        assert cluster[1].partition().high_watermark == 2
        assert cluster[2].held() == cluster[3].held() == ["a", "b"]
        assert cluster[2].partition().high_watermark == 0  # learnt with the next answer
        cluster[1].produce("c", acks=1)
        await cluster.clock.settle()
        assert cluster[2].partition().high_watermark >= 2
        await cluster.clock.advance(600)
        assert cluster[2].partition().high_watermark == 3


@pytest.mark.mission("DOP-1")
async def test_acks_all_waits_for_the_whole_isr() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        answers = cluster[1].produce("a", timeout_ms=5_000)
        await cluster.clock.settle()
        assert answers == []
        assert cluster[2].held() == ["a"]
        cluster.thaw(3)
        await cluster.clock.advance(1_500)
        assert error_of(answers) is ErrorCode.NONE
        assert answers[0].base_offset == 0
        assert cluster[1].partition().high_watermark == 1


@pytest.mark.mission("PRD-6", "R-12")
async def test_frozen_followers_time_the_request_out_and_thawed_ones_let_it_succeed() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(2, 3)
        late = cluster[1].produce("a", timeout_ms=700)
        patient = cluster[1].produce("b", timeout_ms=9_000)
        await cluster.clock.advance(699)
        assert late == []
        await cluster.clock.advance(2)
        assert error_of(late) is ErrorCode.REQUEST_TIMED_OUT
        assert late[0].base_offset == 0  # it is in the log all the same
        assert patient == []
        cluster.thaw(2, 3)
        await cluster.clock.advance(2_000)
        assert error_of(patient) is ErrorCode.NONE
        assert cluster[2].held() == cluster[3].held() == ["a", "b"]


@pytest.mark.mission("DOP-4")
async def test_a_consumer_sees_nothing_until_the_followers_have_it() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(2, 3)
        cluster[1].produce("a", acks=1)
        fetched = cluster[1].fetch(0, max_wait_ms=8_000)
        await cluster.clock.advance(500)
        assert fetched == []
        cluster.thaw(2, 3)
        await cluster.clock.advance(1_500)
        assert values_in(fetched[0].records) == ["a"]
        assert fetched[0].high_watermark == 1


@pytest.mark.mission("DOP-3")
async def test_a_parked_follower_is_woken_by_the_append_not_by_the_high_watermark() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        parked = cluster[1].fetch(0, replica_id=2, max_wait_ms=10_000)
        assert parked == []
        cluster[1].produce("a", acks=1)
        cluster[1].produce("b", acks=1)  # by the same read from a connection
        await cluster.clock.settle()
        assert values_in(parked[0].records) == ["a", "b"]
        assert cluster[1].partition().high_watermark == 0


async def test_a_follower_fetch_completes_a_parked_produce_synchronously() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], tell=[1])
        produced = cluster[1].produce("a")
        assert produced == []
        cluster[1].fetch(1, replica_id=2, max_wait_ms=10_000)
        assert error_of(produced) is ErrorCode.NONE


@pytest.mark.mission("FET-2")
async def test_a_broker_that_is_no_replica_may_not_fetch_as_one() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        assert error_of(cluster[1].fetch(0, replica_id=8)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        answers = cluster[1].fetch(0, replica_id=8, current_leader_epoch=0)
        assert error_of(answers) is ErrorCode.UNKNOWN_LEADER_EPOCH


# --------------------------------------------------------------------------- min.insync.replicas


async def test_too_few_in_sync_replicas_refuse_acks_all_before_the_append() -> None:
    async with ReplicaCluster() as cluster:
        cluster.configs.by_topic[TP.topic] = TopicConfig(min_insync_replicas=2)
        await cluster.elect(1, isr=[1])
        refused = cluster[1].produce("a")
        assert error_of(refused) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster[1].held() == []
        accepted = cluster[1].produce("b", acks=1)
        assert error_of(accepted) is ErrorCode.NONE
        assert cluster[1].partition().is_under_min_isr
        assert cluster[1].partition().high_watermark == 0  # nobody is promised what one broker has


async def test_produce_request_waits_until_the_isr_regains_its_minimum() -> None:
    async with ReplicaCluster([1]) as cluster:
        cluster.configs.by_topic[TP.topic] = TopicConfig(min_insync_replicas=2)
        await cluster.elect(1, isr=[1, 2, 3], tell=[1])
        node, partition = cluster[1], cluster[1].partition()
        produced = node.produce("a", timeout_ms=60_000)
        node.fetch(1, replica_id=2)
        node.fetch(1, replica_id=3)
        assert error_of(produced) is ErrorCode.NONE
        again = node.produce("b", timeout_ms=60_000)
        await cluster.clock.advance(20_000)  # both lag, the ISR shrinks to the leader alone
        assert partition.state.isr.committed == (1,)
        assert again == []
        node.fetch(2, replica_id=2)
        await cluster.clock.settle()
        assert partition.state.isr.committed == (1, 2)  # type: ignore[comparison-overlap]  # changed since
        assert error_of(again) is ErrorCode.NONE


async def test_a_topic_s_minimum_can_be_changed_while_it_runs() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, isr=[1])
        assert error_of(cluster[1].produce("a")) is ErrorCode.NONE
        cluster.configs.by_topic[TP.topic] = TopicConfig(min_insync_replicas=3)
        cluster[1].replicas.topic_configs_changed([TP.topic])
        assert error_of(cluster[1].produce("b")) is ErrorCode.NOT_ENOUGH_REPLICAS


# -------------------------------------------------------------------------------------- failover


async def test_old_leader_truncates_uncommitted_records_under_the_new_leader() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a")
        await cluster.clock.advance(1_000)
        cluster.freeze(1)
        lost = cluster[1].produce("lost1", "lost2", acks=1)
        assert error_of(lost) is ErrorCode.NONE
        await cluster.elect(2, isr=[2, 3], epoch=1, tell=[2, 3])
        await cluster.clock.advance(1_000)
        kept = cluster[2].produce("kept")
        await cluster.clock.advance(1_000)
        assert error_of(kept) is ErrorCode.NONE
        assert cluster[1].held() == ["a", "lost1", "lost2"]
        cluster.thaw(1)
        await cluster.elect(2, isr=[2, 3], epoch=2)
        await cluster.clock.advance(3_000)
        assert [cluster[i].held() for i in (1, 2, 3)] == [["a", "kept"]] * 3
        assert cluster[2].partition().state.isr.committed == (2, 3, 1)
        assert [
            cluster[i].partition().log.end_offset_for_epoch(0).start_offset for i in (1, 2)
        ] == [
            1,
            1,
        ]


async def test_a_longer_log_of_the_same_epoch_is_kept() -> None:
    """Truncation goes by epochs: a follower ahead of its high watermark loses nothing committed."""
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a")
        await cluster.clock.settle()
        assert cluster[2].partition().high_watermark == 0  # not told yet
        await cluster.elect(2, isr=[1, 2, 3], epoch=1)
        await cluster.clock.advance(1_000)
        assert [cluster[i].held() for i in (1, 2, 3)] == [["a"]] * 3
        assert cluster[2].partition().high_watermark == 1


async def test_a_demoted_leader_completes_its_parked_requests() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(2, 3)
        produced = cluster[1].produce("a", timeout_ms=60_000)
        fetched = cluster[1].fetch(0, max_wait_ms=60_000, version=9)
        await cluster.clock.settle()
        assert produced == []
        assert fetched == []
        await cluster.elect(2, isr=[2, 3], epoch=1)
        assert error_of(produced) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error_of(fetched) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_unclean_election_takes_the_follower_down_to_the_leader_s_end() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        cluster[1].produce("a", "b", "c")
        await cluster.clock.advance(1_000)
        cluster.freeze(2)
        await cluster.elect(3, isr=[3], replicas=[1, 3], epoch=1, tell=[1, 3])  # 3 has nothing
        await cluster.clock.advance(5_000)
        assert cluster[1].held() == []
        produced = cluster[3].produce("d")
        await cluster.clock.advance(1_000)
        assert error_of(produced) is ErrorCode.NONE
        assert cluster[1].held() == ["d"]


async def test_a_follower_behind_the_leader_s_log_start_restarts_there() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        cluster[1].produce("a", "b", "c")
        await cluster.clock.advance(1_000)
        log = cluster[1].partition().log
        log.increment_log_start_offset(3)
        cluster[1].produce("d")
        await cluster.elect(1, isr=[1, 2], epoch=1)
        await cluster.clock.advance(3_000)
        assert cluster[3].held() == ["d"]
        assert cluster[3].partition().log.log_start_offset == 3
        assert cluster[2].partition().log.log_start_offset == 3
        assert cluster[1].partition().state.isr.committed == (1, 2, 3)


async def test_a_restarted_follower_remembers_its_high_watermark_and_catches_up() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a", "b")
        await cluster.clock.advance(6_000)
        files = await cluster.stop(3)
        cluster[1].produce("c", acks=1)
        await cluster.clock.advance(1_000)
        node = await cluster.start(3, files)
        assert node.replicas.checkpoint.get(TP) == 2
        await cluster.elect(1, isr=[1, 2], epoch=1)
        assert cluster[3].partition().high_watermark == 2
        await cluster.clock.advance(2_000)
        assert cluster[3].held() == ["a", "b", "c"]
        assert cluster[1].partition().state.isr.committed == (1, 2, 3)
