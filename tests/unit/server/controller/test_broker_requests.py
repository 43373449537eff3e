"""AlterPartition, AllocateProducerIds and UpdateFeatures, from the handler to the znodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.cluster import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import Levels, UpgradeType
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrMember,
)
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from minikafka.server.broker.apis.brokers.allocate_producer_ids import AllocateProducerIdsHandler
from minikafka.server.broker.apis.brokers.alter_partition import AlterPartitionHandler
from minikafka.server.broker.apis.cluster.update_features import UpdateFeaturesHandler
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.znodes import FeatureZnode
from tests.support.controller.controller_lab import ClusterOfControllers, InShort, NewCluster
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element

VERSIONS = range(4)
COUNT = 2_000
UNSUPPORTED = (
    "Could not apply finalized feature update because the provided feature is not supported."
)


def context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(RequestHeader(key, version, 1, "2"), "127.0.0.1", "PLAINTEXT")


def epoch(cluster: ClusterOfControllers, broker_id: int) -> int:
    return cluster.active.context.brokers[broker_id].epoch


def request(
    cluster: ClusterOfControllers, tp: TopicPartition, isr: tuple[int, ...], partition_epoch: int
) -> AlterPartitionRequest:
    """Return the request of leader 1 in its first leader epoch, for any version."""
    row = AlterPartitionPartition(
        tp.partition,
        0,
        list(isr),
        [IsrMember(broker_id) for broker_id in isr],
        0,
        partition_epoch,
    )
    topic_id = cluster.active.context.topic_ids[tp.topic]
    topic = AlterPartitionTopic(tp.topic, topic_id, [row])
    return AlterPartitionRequest(1, epoch(cluster, 1), [topic])


async def alter(
    cluster: ClusterOfControllers, message: AlterPartitionRequest, version: int
) -> AlterPartitionResponse:
    handler = AlterPartitionHandler(cluster.active)
    return await handler(context(ApiKey.ALTER_PARTITION, version), message)


@pytest.mark.mission("MIX-1")
@pytest.mark.parametrize("version", VERSIONS)
async def test_an_isr_is_written_and_sent_to_all_brokers(
    new_cluster: NewCluster, in_short: InShort, version: int
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        cluster.brokers.take()
        response = await alter(cluster, request(cluster, tp, (1,), 0), version)
        assert response.error_code == ErrorCode.NONE
        (topic,) = response.topics
        assert topic.partitions == [AlteredPartition(0, 0, 1, 0, [1], 0, 1)]
        assert await cluster.state(tp) == (1, (1,), 0)
        await cluster.settle()
        assert in_short(cluster.brokers.take()) == [
            ("UpdateMetadata", 1, {"t-0": (1, (1,))}),
            ("UpdateMetadata", 2, {"t-0": (1, (1,))}),
        ]
        # The same request again: its response was lost.
        again = await alter(cluster, request(cluster, tp, (1,), 0), version)
        assert again.topics == response.topics
        grown = await alter(cluster, request(cluster, tp, (1, 2), 1), version)
        assert grown.topics[0].partitions == [AlteredPartition(0, 0, 1, 0, [1, 2], 0, 2)]


@pytest.mark.mission("MIX-1")
async def test_a_state_that_the_leader_wrote_itself_is_read_again(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        leader = ZkStore(cluster.zookeeper.new_session())
        await leader.update_isrs({tp: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1,)), 1)})
        # The controller has not read version 1, which the leader wrote and has not announced.
        grown = await alter(cluster, request(cluster, tp, (1, 2), 1), 3)
        assert grown.topics[0].partitions == [AlteredPartition(0, 0, 1, 0, [1, 2], 0, 2)]


@pytest.mark.mission("MIX-1")
async def test_a_state_that_was_written_already_is_no_race(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2, 3))
        leader = ZkStore(cluster.zookeeper.new_session())
        await leader.update_isrs({tp: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1,)), 1)})
        # The leader has no response to its own write, and requests it of the controller.
        done = await alter(cluster, request(cluster, tp, (1,), 0), 3)
        assert done.topics[0].partitions == [AlteredPartition(0, 0, 1, 0, [1], 0, 1)]
        # Another state is a race that the leader has lost.
        await leader.update_isrs(
            {tp: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1, 2), 1), 1)}
        )
        lost = await alter(cluster, request(cluster, tp, (1, 3), 1), 3)
        assert lost.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.mission("MIX-1")
@pytest.mark.mission("MIX-7")
async def test_errors_are_those_of_the_version(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2, 3))  # 3 is not alive, so not in the ISR
        good = request(cluster, tp, (1, 2, 3), 0)
        kept = AlteredPartition(0, 0, 1, 0, [1, 2], 0, 0)  # no version up to 1 has an error for it
        refused = AlteredPartition(0, ErrorCode.INELIGIBLE_REPLICA)
        for version, expected in ((0, kept), (1, kept), (2, refused), (3, refused)):
            response = await alter(cluster, good, version)
            assert response.topics[0].partitions == [expected]
        unknown = AlterPartitionTopic("t", UUID(int=1), good.topics[0].partitions)
        response = await alter(cluster, replace(good, topics=[unknown, *good.topics]), 3)
        assert [topic.partitions[0].error_code for topic in response.topics] == [
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INELIGIBLE_REPLICA,
        ]
        stale = await alter(cluster, replace(good, broker_epoch=good.broker_epoch - 1), 3)
        assert (stale.error_code, stale.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
        await controller.stop()
        moved = await AlterPartitionHandler(controller)(context(ApiKey.ALTER_PARTITION, 3), good)
        assert moved.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.mission("MIX-1")
async def test_a_reassignment_ends_when_the_leader_adds_the_replica(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await controller.alter_partition_reassignments({tp: (1, 3)})
        await cluster.settle()
        assert tp in controller.context.partitions_being_reassigned
        current = controller.context.leadership[tp].leader_and_isr
        message = request(cluster, tp, (1, 2, 3), current.zk_version)
        message.topics[0].partitions[0].leader_epoch = current.leader_epoch
        response = await alter(cluster, message, 3)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        await cluster.settle()
        assert controller.context.assignment(tp).replicas == (1, 3)


@pytest.mark.mission("MIX-2")
async def test_blocks_of_producer_ids_follow_each_other(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        handler = AllocateProducerIdsHandler(controller)

        async def ask(broker_id: int, broker_epoch: int) -> tuple[int, int, int]:
            response = await handler(
                context(ApiKey.ALLOCATE_PRODUCER_IDS, 0),
                AllocateProducerIdsRequest(broker_id, broker_epoch),
            )
            return response.error_code, response.producer_id_start, response.producer_id_len

        assert await ask(1, epoch(cluster, 1)) == (ErrorCode.NONE, 0, 1000)
        assert await ask(2, epoch(cluster, 2)) == (ErrorCode.NONE, 1000, 1000)
        assert await ask(3, 5) == (ErrorCode.BROKER_ID_NOT_REGISTERED, 0, 0)
        assert await ask(2, epoch(cluster, 2) - 1) == (ErrorCode.STALE_BROKER_EPOCH, 0, 0)
        cluster.zookeeper.set("/latest_producer_id_block", b"?")
        assert await ask(2, epoch(cluster, 2)) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0)
        await controller.stop()
        assert await ask(2, 5) == (ErrorCode.NOT_CONTROLLER, 0, 0)


@pytest.mark.mission("MIX-5")
async def test_features_are_refused_one_by_one(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        handler = UpdateFeaturesHandler(controller)

        async def update(version: int, *rows: FeatureUpdateKey, check: bool = False) -> Any:
            response = await handler(
                context(ApiKey.UPDATE_FEATURES, version),
                UpdateFeaturesRequest(feature_updates=list(rows), validate_only=check),
            )
            return response.error_code, {r.feature: r.error_code for r in response.results}

        refused = (ErrorCode.NONE, {"a": ErrorCode.INVALID_REQUEST})
        assert await update(1, FeatureUpdateKey("a", 1)) == refused
        assert await update(1, FeatureUpdateKey("a", 1, upgrade_type=9)) == refused
        znode = cluster.zookeeper.nodes["/feature"].data
        assert znode == b'{"features":{},"version":2,"status":1}'
        # A feature that another release has finalized may be deleted.
        finalized = znode.replace(b"{}", b'{"a":{"max_version_level":3}}')
        cluster.zookeeper.set("/feature", finalized)
        deletion = FeatureUpdateKey("a", 0, allow_downgrade=True, upgrade_type=2)
        deleted = (ErrorCode.NONE, {"a": ErrorCode.NONE})
        assert await update(1, deletion, check=True) == deleted
        assert cluster.zookeeper.nodes["/feature"].data == finalized
        assert await update(0, deletion) == deleted
        assert cluster.zookeeper.nodes["/feature"].data == znode
        cluster.zookeeper.set("/feature", b"?")
        assert await update(1, deletion) == (ErrorCode.FEATURE_UPDATE_FAILED, {})
        await controller.stop()
        assert await update(1, deletion) == (ErrorCode.NOT_CONTROLLER, {})


@pytest.mark.mission("MIX-5")
async def test_a_level_is_finalized_if_all_registered_brokers_support_it(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(supported_features={"f": Levels(0, 2)}) as cluster:
        (controller, _) = await cluster.start(1, 2)
        handler = UpdateFeaturesHandler(controller)

        async def update(level: int, upgrade_type: UpgradeType) -> str | None:
            row = FeatureUpdateKey("f", level, upgrade_type=upgrade_type)
            response = await handler(
                context(ApiKey.UPDATE_FEATURES, 1), UpdateFeaturesRequest(feature_updates=[row])
            )
            (result,) = response.results
            message: str | None = result.error_message
            return message

        def levels() -> dict[str, int]:
            return FeatureZnode.decode(cluster.zookeeper.nodes["/feature"].data).features

        assert levels() == {"f": 2}
        assert await update(1, UpgradeType.SAFE_DOWNGRADE) is None
        assert levels() == {"f": 1}
        older = replace(cluster.broker_node(2), features={"f": Levels(0, 1)})
        await cluster.nodes[2].store.update_broker(older)
        refused = await update(2, UpgradeType.UPGRADE)
        assert refused is not None
        assert refused.endswith("brokers were found to have incompatible versions for the feature.")
        assert levels() == {"f": 1}
        await cluster.nodes[2].store.update_broker(cluster.broker_node(2))
        assert await update(2, UpgradeType.UPGRADE) is None
        assert levels() == {"f": 2}
        assert await update(0, UpgradeType.SAFE_DOWNGRADE) is None
        assert levels() == {}


@pytest.mark.mission("MIX-5")
async def test_one_refused_feature_fails_all_since_version_2(new_cluster: NewCluster) -> None:
    async with new_cluster(supported_features={"f": Levels(0, 2)}) as cluster:
        (controller, _) = await cluster.start(1, 2)
        down = FeatureUpdateKey("f", 1, upgrade_type=UpgradeType.SAFE_DOWNGRADE)

        async def update(*rows: FeatureUpdateKey) -> tuple[int, str | None]:
            response = await UpdateFeaturesHandler(controller)(
                context(ApiKey.UPDATE_FEATURES, 2), UpdateFeaturesRequest(feature_updates=[*rows])
            )
            read = decode(type(response), 2, encode(response, 2))
            assert read.results == []
            return read.error_code, read.error_message

        def levels() -> dict[str, int]:
            return FeatureZnode.decode(cluster.zookeeper.nodes["/feature"].data).features

        code, message = await update(down, FeatureUpdateKey("a", 1))
        assert code == ErrorCode.INVALID_REQUEST
        assert message is not None
        assert message.endswith("had an error: " + UNSUPPORTED)
        assert levels() == {"f": 2}
        assert await update(down) == (0, None)
        assert levels() == {"f": 1}
        await controller.stop()
        code, _ = await update(down)
        assert code == ErrorCode.NOT_CONTROLLER


@pytest.mark.mission("MIX-14")
async def test_no_feature_is_updated_before_2_7(new_cluster: NewCluster) -> None:
    protocol = InterBrokerProtocol.parse("2.6")
    async with new_cluster(inter_broker_protocol=protocol) as cluster:
        (controller,) = await cluster.start(1)
        response = await UpdateFeaturesHandler(controller)(
            context(ApiKey.UPDATE_FEATURES, 1),
            UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("a", 1)]),
        )
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert cluster.zookeeper.nodes["/feature"].data == (
            b'{"features":{},"version":1,"status":0}'
        )


@pytest.mark.mission("SAFE-37")
@pytest.mark.parametrize("topics", [1, COUNT])
async def test_isrs_of_thousands_of_partitions_are_decided_in_slices(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch, topics: int
) -> None:
    pause_at_every_element(monkeypatch)
    rows = [AlterPartitionPartition(number, 7, [1]) for number in range(COUNT // topics)]
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        names = [f"unknown-{number}" for number in range(topics)]
        message = AlterPartitionRequest(
            1, epoch(cluster, 1), [AlterPartitionTopic(name, partitions=rows) for name in names]
        )
        handler = AlterPartitionHandler(cluster.active)
        response, most = await most_calls_in_a_turn(
            handler(context(ApiKey.ALTER_PARTITION, 1), message)
        )
    assert [topic.topic_name for topic in response.topics] == names
    results = [row for topic in response.topics for row in topic.partitions]
    assert len(results) == COUNT
    assert {row.error_code for row in results} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert most < COUNT
