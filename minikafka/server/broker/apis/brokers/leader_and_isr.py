"""LeaderAndIsr (key 4): the controller makes replicas leaders and followers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias
from uuid import UUID

from minikafka.core.security.acls import AclOperation
from minikafka.core.topic_names import address_problem
from minikafka.kernel.cluster import (
    ZERO_UUID,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence, EntryRefusals
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.partition import Instruction
from minikafka.server.broker.replication.replica_manager import ReplicaManager

FIRST_VERSION_BY_ID = 5
# The partitions applied without a pause, which takes some tens of milliseconds. Smaller slices
# would interrupt the fetchers more often.
LEADERSHIP_SLICE = 500
# Called with a partition, whether this broker leads it now, and the leader epoch.
RoleTaken: TypeAlias = Callable[[TopicPartition, bool, int], None]


def instructions(request: LeaderAndIsrRequest) -> Iterator[Instruction]:
    """Yield one instruction per partition, for any version of LeaderAndIsr."""
    for state in request.ungrouped_partition_states:
        yield _instruction(state.topic_name, None, state)
    for topic in request.topic_states:
        topic_id = None if topic.topic_id == ZERO_UUID else topic.topic_id
        for state in topic.partition_states:
            yield _instruction(topic.topic_name, topic_id, state)


def _instruction(
    topic: str, topic_id: UUID | None, state: LeaderAndIsrPartitionState
) -> Instruction:
    return Instruction(
        TopicPartition(topic, state.partition_index),
        LeaderAndIsr(
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            state.partition_epoch,
            state.leader_recovery_state,
        ),
        ReplicaAssignment(
            tuple(state.replicas), tuple(state.adding_replicas), tuple(state.removing_replicas)
        ),
        state.controller_epoch,
        state.is_new,
        topic_id,
    )


@dataclass(slots=True)
class CheckedInstructions:
    """The instructions of a request in its order: all of them, the ``errors`` of those that are
    refused, and the others. ``topics`` are those of the others, each once; of those that are
    ``replicated`` this broker is to have a replica."""

    named: list[Instruction] = field(default_factory=list)
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    received: list[Instruction] = field(default_factory=list)
    topics: dict[str, None] = field(default_factory=dict)
    replicated: dict[str, None] = field(default_factory=dict)


class LeaderAndIsrHandler:
    """Serves LeaderAndIsr (a ``TaskHandler``).

    It reads the configurations of new topics and awaits ``get_ready`` with the topics of the
    request. Then it applies the instructions in slices, and calls ``role_taken`` for each
    partition that has changed its role. Other requests are served between slices; after a newer
    order the rest is refused."""

    def __init__(
        self,
        replicas: ReplicaManager,
        fence: ControllerFence,
        role_taken: RoleTaken | None = None,
        get_ready: Callable[[Collection[str]], Awaitable[None]] | None = None,
    ) -> None:
        self._replicas = replicas
        self._fence = fence
        self._role_taken = role_taken
        self._get_ready = get_ready

    async def __call__(
        self, context: RequestContext, request: LeaderAndIsrRequest
    ) -> LeaderAndIsrResponse:
        order = self._fence.arrived("LeaderAndIsr", request, context.client_host)
        stale = order.staleness()
        if stale is not ErrorCode.NONE:  # not worth a read of ZooKeeper, which anyone could cause
            return LeaderAndIsrResponse(error_code=stale)
        checked = await self._check(request)
        received, errors = checked.received, checked.errors
        await self._replicas.load_topic_configs(sorted(checked.replicated))
        if self._get_ready is not None:
            await self._get_ready(checked.topics)
        live_leaders = {
            leader.broker_id: Endpoint(leader.host_name, leader.port)
            async for leader in in_slices(request.live_leaders)
            if address_problem(leader.host_name, leader.port) is None
        }
        for start in range(0, max(1, len(received)), LEADERSHIP_SLICE):
            if start:
                await asyncio.sleep(0)
            error = order.refusal()
            if error is not ErrorCode.NONE:
                return LeaderAndIsrResponse(error_code=error)
            errors |= self._apply(received[start : start + LEADERSHIP_SLICE], live_leaders)
        return await _response(context.header.api_version, checked.named, errors)

    async def _check(self, request: LeaderAndIsrRequest) -> CheckedInstructions:
        refusals = EntryRefusals(self._fence.broker_id)
        checked = CheckedInstructions()
        async for instruction in in_slices(instructions(request)):
            checked.named.append(instruction)
            error = refusals.instruction(instruction)
            if error is not ErrorCode.NONE:
                checked.errors[instruction.topic_partition] = error
        async for instruction in in_slices(checked.named):
            if instruction.topic_partition in checked.errors:
                continue
            checked.received.append(instruction)
            topic = instruction.topic_partition.topic
            checked.topics[topic] = None
            if self._fence.broker_id in instruction.assignment.replicas:
                checked.replicated[topic] = None
        return checked

    def _apply(
        self, received: list[Instruction], live_leaders: Mapping[int, Endpoint]
    ) -> dict[TopicPartition, ErrorCode]:
        errors = self._replicas.leadership.apply(received, live_leaders)
        if self._role_taken is not None:
            me = self._replicas.config.broker_id
            for instruction in received:
                if errors[instruction.topic_partition] is ErrorCode.NONE:
                    role = instruction.leader_and_isr
                    self._role_taken(
                        instruction.topic_partition, role.leader == me, role.leader_epoch
                    )
        return errors


async def _response(
    version: int, received: list[Instruction], errors: dict[TopicPartition, ErrorCode]
) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse()
    topics: dict[UUID, LeaderAndIsrTopicError] = {}
    async for instruction in in_slices(received):
        topic, partition = instruction.topic_partition
        error = errors[instruction.topic_partition]
        if version < FIRST_VERSION_BY_ID:
            response.partition_errors.append(LeaderAndIsrPartitionError(topic, partition, error))
            continue
        topic_id = instruction.topic_id or ZERO_UUID
        topic_error = topics.get(topic_id)
        if topic_error is None:
            topic_error = topics[topic_id] = LeaderAndIsrTopicError(topic_id)
            response.topics.append(topic_error)
        topic_error.partition_errors.append(
            LeaderAndIsrPartitionError(partition_index=partition, error_code=error)
        )
    return response


LEADER_AND_ISR = Api(
    key=ApiKey.LEADER_AND_ISR,
    handler=lambda broker: LeaderAndIsrHandler(
        broker.replicas, broker.fence, broker.role_taken, broker.internal_sizes.learn
    ),
    task=True,
    authorization=needs(AclOperation.CLUSTER_ACTION),
    quota=Quota.EXEMPT,
    changes_state=True,
    senders=Senders.BROKERS,
)
