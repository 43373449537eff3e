"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown: the controller's APIs (4 to 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.ports import Controller
from minikafka.broker.replication.leadership import Stop
from minikafka.broker.replication.partition import Instruction
from minikafka.broker.replication.replica_manager import ReplicaManager
from minikafka.broker.requests.context import RequestContext
from minikafka.core.metadata_image import topics_of
from minikafka.kernel.cluster import (
    NO_EPOCH,
    ZERO_UUID,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)


class ControllerFence:
    """Remembers the highest controller epoch heard of, for all requests of controllers.

    A controller says one thing at a time, and what was not answered again over its next
    connection. So an order that a later one overtook, as it waited for something here, came over a
    connection that is gone: it is refused, or it would undo what the later ones did (Kafka does
    obey it). ``broker_epoch`` is the epoch of this broker's current registration."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self.controller_epoch = 0
        self._arrived = 0
        self._obeyed = 0
        self._broker_epoch = broker_epoch
        self._log = event_log("state-change", broker=broker_id)

    def arrived(self) -> int:
        """The number of an order that comes in."""
        self._arrived += 1
        return self._arrived

    def check(
        self,
        api: str,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        number: int | None = None,
    ) -> ErrorCode:
        """STALE_BROKER_EPOCH for a request that was meant for an earlier life of this broker,
        STALE_CONTROLLER_EPOCH for one of a controller of the past, or one overtaken by another
        order (``number``: see ``arrived``). Otherwise NONE, and the controller's epoch is
        remembered. ``broker_epoch`` -1: too old a version to tell."""
        error = ErrorCode.NONE
        if broker_epoch != NO_EPOCH and broker_epoch < self._broker_epoch():
            error = ErrorCode.STALE_BROKER_EPOCH
        elif controller_epoch < self.controller_epoch or (
            number is not None and number < self._obeyed
        ):
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        if error is ErrorCode.NONE:
            self.controller_epoch = controller_epoch
            self._obeyed = number or self._obeyed
        else:
            self._log.warning(
                "controller_request_refused",
                api=api,
                error=error.name,
                controller=controller_id,
                controller_epoch=controller_epoch,
                known_controller_epoch=self.controller_epoch,
                broker_epoch=broker_epoch,
            )
        return error


FIRST_VERSION_BY_ID = 5
# Partitions applied in one breath: some tens of milliseconds. Each slice makes the fetchers begin
# anew, so they are not smaller.
LEADERSHIP_SLICE = 500

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
        for start in range(0, max(1, len(told)), LEADERSHIP_SLICE):
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
            errors |= self._apply(told[start : start + LEADERSHIP_SLICE], live_leaders)
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


STOP_SLICE = 200  # partitions stopped in one breath, and their logs put aside: some milliseconds


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
        for start in range(0, max(1, len(told)), STOP_SLICE):
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
            errors |= await self._obey(told[start : start + STOP_SLICE])
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


# Hears of partitions that are gone.
PartitionsDeleted: TypeAlias = Callable[[Sequence[TopicPartition]], None]


class UpdateMetadataHandler:
    """A TaskHandler. ``topic_changed`` is called for every topic that the request says something
    of, after the cache has taken it over: who waits for a topic to come or go looks again.
    ``get_ready`` is awaited, with the same topics, before that. ``brokers_changed`` hears of
    brokers that came or went. ``drop_strays`` removes what this broker still hosts of partitions
    that went elsewhere while it was away."""

    def __init__(
        self,
        cache: MetadataCache,
        fence: ControllerFence,
        topic_changed: Callable[[str], None],
        partitions_deleted: PartitionsDeleted | None = None,
        brokers_changed: Callable[[], None] | None = None,
        drop_strays: Callable[[UpdateMetadataRequest], Awaitable[None]] | None = None,
        get_ready: Callable[[Collection[str]], Awaitable[None]] | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._cache = cache
        self._fence = fence
        self._topic_changed = topic_changed
        self._partitions_deleted = partitions_deleted
        self._brokers_changed = brokers_changed
        self._drop_strays = drop_strays
        self._get_ready = get_ready
        self._log = log or event_log("state-change")

    async def __call__(
        self, context: RequestContext, request: UpdateMetadataRequest
    ) -> UpdateMetadataResponse:
        topics = topics_of(request)
        number = self._fence.arrived()
        if self._get_ready is not None:
            await self._get_ready(topics)
        error = self._fence.check(
            "UpdateMetadata",
            request.controller_id,
            request.controller_epoch,
            request.broker_epoch,
            number,
        )
        if error is not ErrorCode.NONE:
            return UpdateMetadataResponse(error_code=error)
        alive = self._cache.image.brokers.keys()
        deleted = self._cache.update(request)
        self._log.info(
            "metadata_updated",
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            brokers=len(request.live_brokers),
            topics=len(topics),
            deleted_partitions=len(deleted),
        )
        if deleted and self._partitions_deleted is not None:
            self._partitions_deleted(deleted)
        if self._brokers_changed is not None and self._cache.image.brokers.keys() != alive:
            self._brokers_changed()
        for topic in topics:
            self._topic_changed(topic)
        if self._drop_strays is not None:
            await self._drop_strays(request)
        return UpdateMetadataResponse()


class ControlledShutdownHandler:
    """A TaskHandler: it waits for the controller's event queue. Broker epoch -1 means unknown."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        try:
            remaining = await self._controller.controlled_shutdown(
                request.broker_id, request.broker_epoch
            )
        except KafkaError as error:
            return ControlledShutdownResponse(error_code=error.code)
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=tp.topic, partition_index=tp.partition)
                for tp in remaining
            ]
        )
