"""LeaderAndIsr: the controller makes this broker leader or follower."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import TypeAlias
from uuid import UUID

from minikafka.broker.context import RequestContext
from minikafka.broker.controller_fence import ControllerFence
from minikafka.broker.partition import Instruction
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.kernel.cluster import (
    ZERO_UUID,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

FIRST_VERSION_BY_ID = 5
# Partitions applied in one breath: some tens of milliseconds. Each slice makes the fetchers begin
# anew, so they are not smaller.
SLICE = 500

# Hears of a partition, whether it is led here now, and in which leader epoch.
RoleTaken: TypeAlias = Callable[[TopicPartition, bool, int], None]


def instructions(request: LeaderAndIsrRequest) -> Iterator[Instruction]:
    """Whatever the shape of the version, one instruction per partition."""
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


class LeaderAndIsrHandler:
    """A TaskHandler: topics not seen before have their settings read first, and ``get_ready`` for
    what the request names is awaited. Then everything is applied, a slice in one breath, and
    ``role_taken`` hears of each partition that obeyed. Others are served between slices; if one of
    them was a newer order, the rest is refused."""

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
        told = list(instructions(request))
        number = self._fence.arrived()
        topics = sorted({instruction.topic_partition.topic for instruction in told})
        await self._replicas.load_topic_configs(topics)
        if self._get_ready is not None:
            await self._get_ready(topics)
        live_leaders = {
            leader.broker_id: Endpoint(leader.host_name, leader.port)
            for leader in request.live_leaders
        }
        errors: dict[TopicPartition, ErrorCode] = {}
        for start in range(0, max(1, len(told)), SLICE):
            if start:
                await asyncio.sleep(0)
            error = self._fence.check(
                "LeaderAndIsr",
                request.controller_id,
                request.controller_epoch,
                request.broker_epoch,
                number,
            )
            if error is not ErrorCode.NONE:
                return LeaderAndIsrResponse(error_code=error)
            errors |= self._apply(told[start : start + SLICE], live_leaders)
        return _response(context.header.api_version, told, errors)

    def _apply(
        self, told: list[Instruction], live_leaders: Mapping[int, Endpoint]
    ) -> dict[TopicPartition, ErrorCode]:
        errors = self._replicas.leadership.apply(told, live_leaders)
        if self._role_taken is not None:
            me = self._replicas.config.broker_id
            for instruction in told:
                if errors[instruction.topic_partition] is ErrorCode.NONE:
                    role = instruction.leader_and_isr
                    self._role_taken(
                        instruction.topic_partition, role.leader == me, role.leader_epoch
                    )
        return errors


def _response(
    version: int, told: list[Instruction], errors: dict[TopicPartition, ErrorCode]
) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse()
    topics: dict[UUID, LeaderAndIsrTopicError] = {}
    for instruction in told:
        topic, partition = instruction.topic_partition
        error = errors[instruction.topic_partition]
        if version < FIRST_VERSION_BY_ID:
            response.partition_errors.append(LeaderAndIsrPartitionError(topic, partition, error))
            continue
        topic_id = instruction.topic_id or ZERO_UUID
        answer = topics.get(topic_id)
        if answer is None:
            answer = topics[topic_id] = LeaderAndIsrTopicError(topic_id)
            response.topics.append(answer)
        answer.partition_errors.append(
            LeaderAndIsrPartitionError(partition_index=partition, error_code=error)
        )
    return response
