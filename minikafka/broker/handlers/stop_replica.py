"""StopReplica: the controller stops replicas, and deletes some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from minikafka.broker.context import RequestContext
from minikafka.broker.controller_fence import ControllerFence
from minikafka.broker.leadership import Stop
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)

SLICE = 200  # partitions stopped in one breath, and their logs put aside: some milliseconds


def stops(request: StopReplicaRequest) -> Iterator[Stop]:
    """Whatever the shape of the version, one stop per partition."""
    for flat in request.ungrouped_partitions:
        yield Stop(
            TopicPartition(flat.topic_name, flat.partition_index), delete=request.delete_partitions
        )
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield Stop(TopicPartition(topic.name, index), delete=request.delete_partitions)
    for states in request.topic_states:
        for state in states.partition_states:
            yield Stop(
                TopicPartition(states.topic_name, state.partition_index),
                state.leader_epoch,
                state.delete_partition,
            )


class StopReplicaHandler:
    """A TaskHandler: replicas stop, a slice in one breath, and their logs are gone when it answers.
    ``deleted`` hears of the partitions that are to be deleted. Others are served between slices; if
    one of them was a newer order, the rest is refused."""

    def __init__(
        self,
        replicas: ReplicaManager,
        fence: ControllerFence,
        deleted: Callable[[TopicPartition], None] | None = None,
    ) -> None:
        self._replicas = replicas
        self._fence = fence
        self._deleted = deleted

    async def __call__(
        self, context: RequestContext, request: StopReplicaRequest
    ) -> StopReplicaResponse:
        told = list(stops(request))
        number = self._fence.arrived()
        errors: dict[TopicPartition, ErrorCode] = {}
        for start in range(0, max(1, len(told)), SLICE):
            if start:
                await asyncio.sleep(0)
            error = self._fence.check(
                "StopReplica",
                request.controller_id,
                request.controller_epoch,
                request.broker_epoch,
                number,
            )
            if error is not ErrorCode.NONE:
                return StopReplicaResponse(error_code=error)
            errors |= await self._obey(told[start : start + SLICE])
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_partition.topic, topic_partition.partition, code)
                for topic_partition, code in errors.items()
            ]
        )

    async def _obey(self, told: Sequence[Stop]) -> dict[TopicPartition, ErrorCode]:
        errors, to_delete = self._replicas.leadership.stop(told)
        if self._deleted is not None:
            for topic_partition in to_delete:
                self._deleted(topic_partition)
        return errors | dict(await self._replicas.delete_logs(to_delete))
