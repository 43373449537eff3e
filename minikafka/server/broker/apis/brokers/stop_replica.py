"""StopReplica (key 5): the controller stops replicas, and deletes their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence, EntryRefusals
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.leadership import Stop
from minikafka.server.broker.replication.replica_manager import ReplicaManager

STOP_SLICE = 200  # partitions stopped without a pause, and their logs renamed: some milliseconds


def stops(request: StopReplicaRequest) -> Iterator[Stop]:
    """Yield one ``Stop`` per partition, for any version of StopReplica."""
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
    """Serves StopReplica (a ``TaskHandler``).

    It stops replicas in slices, and responds when the logs to be deleted are gone. ``deleted``
    is called with each partition that is deleted. Other requests are served between slices;
    after a newer order the rest is refused."""

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
        order = self._fence.arrived("StopReplica", request, context.client_host)
        stale = order.staleness()
        if stale is not ErrorCode.NONE:  # before the entries are read: there may be 100,000
            return StopReplicaResponse(error_code=stale)
        refusals = EntryRefusals(self._fence.broker_id)
        errors: dict[TopicPartition, ErrorCode] = {}
        received: list[Stop] = []
        async for stop in in_slices(stops(request)):
            error = refusals.partition("StopReplica", stop.topic_partition)
            if error is ErrorCode.NONE:
                received.append(stop)
            else:
                errors[stop.topic_partition] = error
        for start in range(0, max(1, len(received)), STOP_SLICE):
            if start:
                await asyncio.sleep(0)
            error = order.refusal()
            if error is not ErrorCode.NONE:
                return StopReplicaResponse(error_code=error)
            errors |= await self._stop(received[start : start + STOP_SLICE])
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_partition.topic, topic_partition.partition, code)
                async for topic_partition, code in in_slices(errors.items())
            ]
        )

    async def _stop(self, received: Sequence[Stop]) -> dict[TopicPartition, ErrorCode]:
        errors, to_delete = self._replicas.leadership.stop(received)
        if self._deleted is not None:
            for topic_partition in to_delete:
                self._deleted(topic_partition)
        return errors | dict(await self._replicas.delete_logs(to_delete))


STOP_REPLICA = Api(
    key=ApiKey.STOP_REPLICA,
    handler=lambda broker: StopReplicaHandler(broker.replicas, broker.fence, broker.replica_gone),
    task=True,
    authorization=needs(AclOperation.CLUSTER_ACTION),
    quota=Quota.EXEMPT,
    changes_state=True,
    senders=Senders.BROKERS,
)
