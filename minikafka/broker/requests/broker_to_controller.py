"""AlterPartition, UpdateFeatures, Envelope, AllocateProducerIds: requests to the controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minikafka.broker.ports import Controller
from minikafka.broker.requests.routes import Reply, RequestContext, UnreadableRequest
from minikafka.core.controller.feature_updates import FeatureUpdate, UpgradeType
from minikafka.kernel.cluster import LeaderAndIsr, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from minikafka.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
)
from minikafka.protocol.messages.envelope import EnvelopeRequest
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

# The first whose topics have ids, and whose errors have INELIGIBLE_REPLICA (KIP-841).
FIRST_VERSION_BY_ID: Final = 2
# The first whose ISR has broker epochs (KIP-903), which a controller with ZooKeeper does not check.
FIRST_VERSION_WITH_EPOCHS: Final = 3


class AlterPartitionHandler:
    """Serves AlterPartition (a ``TaskHandler``).

    It waits for the event in the controller's queue. The response names the topics as the request
    does: by name, or by id from version 2 on."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: AlterPartitionRequest
    ) -> AlterPartitionResponse:
        version = context.header.api_version
        names: list[str | None] = []
        topics: list[AlteredTopic] = []
        async for topic in in_slices(request.topics):
            names.append(self._name(topic, version))
            topics.append(AlteredTopic(topic.topic_name, topic.topic_id))
        states: dict[TopicPartition, LeaderAndIsr] = {}
        async for number, row in in_slices(_rows(request)):
            name = names[number]
            if name is not None:
                requested = _requested(request.broker_id, row, version)
                states[TopicPartition(name, row.partition_index)] = requested
        try:
            results = await self._controller.alter_partitions(
                request.broker_id, request.broker_epoch, states, version >= FIRST_VERSION_BY_ID
            )
        except KafkaError as error:
            return AlterPartitionResponse(error_code=error.code)
        async for number, row in in_slices(_rows(request)):
            name = names[number]
            result: LeaderAndIsr | ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID
            if name is not None:
                result = results[TopicPartition(name, row.partition_index)]
            topics[number].partitions.append(_altered(row.partition_index, result))
        return AlterPartitionResponse(topics=topics)

    def _name(self, topic: AlterPartitionTopic, version: int) -> str | None:
        if version < FIRST_VERSION_BY_ID:
            return topic.topic_name
        return self._controller.topic_name(topic.topic_id)


def _rows(request: AlterPartitionRequest) -> Iterator[tuple[int, AlterPartitionPartition]]:
    """Yield each partition with the place of its topic in the request."""
    for number, topic in enumerate(request.topics):
        for row in topic.partitions:
            yield number, row


def _requested(leader: int, row: AlterPartitionPartition, version: int) -> LeaderAndIsr:
    isr = row.new_isr
    if version >= FIRST_VERSION_WITH_EPOCHS:
        isr = [member.broker_id for member in row.new_isr_with_epochs]
    return LeaderAndIsr(
        leader, row.leader_epoch, tuple(isr), row.partition_epoch, row.leader_recovery_state
    )


def _altered(partition: int, result: LeaderAndIsr | ErrorCode) -> AlteredPartition:
    if isinstance(result, LeaderAndIsr):
        return AlteredPartition(
            partition,
            ErrorCode.NONE,
            result.leader,
            result.leader_epoch,
            list(result.isr),
            result.leader_recovery_state,
            result.zk_version,
        )
    return AlteredPartition(partition, result)


class AllocateProducerIdsHandler:
    """Serves AllocateProducerIds (a ``TaskHandler``).

    It waits for the event in the controller's queue."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        try:
            block = await self._controller.allocate_producer_ids(
                request.broker_id, request.broker_epoch
            )
        except KafkaError as error:
            return AllocateProducerIdsResponse(error_code=error.code)
        return AllocateProducerIdsResponse(
            producer_id_start=block.start, producer_id_len=len(block)
        )


class UpdateFeaturesHandler:
    """Serves UpdateFeatures (a ``TaskHandler``).

    It waits for the event in the controller's queue."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: UpdateFeaturesRequest
    ) -> UpdateFeaturesResponse:
        updates = [_feature_update(row, context.version) for row in request.feature_updates]
        try:
            results = await self._controller.update_features(updates, request.validate_only)
        except KafkaError as error:
            return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
        return UpdateFeaturesResponse(
            error_message=None,
            results=[_feature_result(feature, error) for feature, error in results.items()],
        )


def _feature_update(row: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version == 0:
        kind = UpgradeType.SAFE_DOWNGRADE if row.allow_downgrade else UpgradeType.UPGRADE
    else:
        known = row.upgrade_type in UpgradeType.__members__.values()
        kind = UpgradeType(row.upgrade_type) if known else UpgradeType.UNKNOWN
    return FeatureUpdate(row.feature, row.max_version_level, kind)


def _feature_result(feature: str, error: KafkaError | None) -> UpdatableFeatureResult:
    if error is None:
        return UpdatableFeatureResult(feature, ErrorCode.NONE, None)
    return UpdatableFeatureResult(feature, error.code, error.message)


def refuse_envelope(context: RequestContext, request: EnvelopeRequest, reply: Reply) -> None:
    """Close the connection (an ``ImmediateHandler``). Brokers of a ZooKeeper cluster list Envelope
    in ApiVersions, but do not forward requests: Kafka closes the connection, too."""
    raise UnreadableRequest("forwarding has not been enabled")
