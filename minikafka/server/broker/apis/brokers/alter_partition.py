"""AlterPartition (key 56): a leader asks the controller for another ISR (KIP-497)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import LeaderAndIsr, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.ports import Controller
from minikafka.server.broker.quotas import Quota

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


ALTER_PARTITION = Api(
    key=ApiKey.ALTER_PARTITION,
    handler=lambda broker: AlterPartitionHandler(broker.controller),
    task=True,
    authorization=needs(AclOperation.CLUSTER_ACTION),
    quota=Quota.EXEMPT,
    changes_state=False,
    senders=Senders.BROKERS,
)
