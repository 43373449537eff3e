"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown: the controller's APIs (4 to 7)."""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import field
from typing import Protocol, TypeAlias
from uuid import UUID

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.ports import Controller
from minikafka.broker.replication.leadership import Stop
from minikafka.broker.replication.partition import Instruction
from minikafka.broker.replication.replica_manager import ReplicaManager
from minikafka.broker.requests.routes import RequestContext
from minikafka.core.metadata_image import MetadataUpdate, update_steps
from minikafka.core.replication.partition_state import isr_problem
from minikafka.core.topic_names import address_problem, require_valid_partition
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
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.slices import in_slices, run_in_slices
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
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)


class ControllerRequest(Protocol):
    """The fields that LeaderAndIsr, StopReplica and UpdateMetadata share."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class Order:
    """One controller request, from its arrival until it has been applied."""

    def __init__(
        self,
        fence: ControllerFence,
        api: str,
        request: ControllerRequest,
        number: int,
        client_host: str,
    ) -> None:
        self.client_host = client_host
        self._fence = fence
        self.api = api
        self.request = request
        self.number = number

    def refusal(self) -> ErrorCode:
        """Return NONE while the order may be applied, otherwise the error of the response. Call
        this again after every await."""
        return self._fence.check(self)

    def staleness(self) -> ErrorCode:
        """As ``refusal``, for an order that is not applied yet: nothing is remembered."""
        return self._fence.refuse(self)


class ControllerFence:
    """Refuses stale controller requests: those of former controllers, those for former
    registrations of this broker, and those that a later request has overtaken.

    A controller sends one request at a time, and sends requests without a response again over its
    next connection. So an overtaken request, which waited in its handler, arrived over a connection
    that is closed by now. It is refused, since it would undo the later ones. (Kafka applies it.)
    ``broker_epoch`` returns the epoch of this broker's current registration."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self.broker_id = broker_id
        self.controller_epoch = 0  # the highest seen
        self._arrived = 0
        self._applied = 0
        self._broker_epoch = broker_epoch
        self._log = event_log("state-change", broker=broker_id)

    def arrived(self, api: str, request: ControllerRequest, client_host: str = "") -> Order:
        """Number a request by its arrival. Call this before the first await of a handler."""
        self._arrived += 1
        return Order(self, api, request, self._arrived, client_host)

    def check(self, order: Order) -> ErrorCode:
        """Return the error of an order that must not be applied. Otherwise NONE, and remember its
        controller epoch."""
        error = self.refuse(order)
        if error is ErrorCode.NONE:
            self.controller_epoch = order.request.controller_epoch
            self._applied = order.number
        return error

    def refuse(self, order: Order) -> ErrorCode:
        """Return STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH for an order that must not be
        applied, and log it; otherwise NONE. The broker epoch is -1, and not checked, in versions
        without the field."""
        request, error = order.request, ErrorCode.NONE
        if request.broker_epoch != NO_EPOCH and request.broker_epoch < self._broker_epoch():
            error = ErrorCode.STALE_BROKER_EPOCH
        elif request.controller_epoch < self.controller_epoch or order.number < self._applied:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        if error is not ErrorCode.NONE:
            self._log.warning(
                "controller_request_refused",
                api=order.api,
                client=order.client_host,
                error=error.name,
                controller=request.controller_id,
                controller_epoch=request.controller_epoch,
                known_controller_epoch=self.controller_epoch,
                broker_epoch=request.broker_epoch,
            )
        return error


class EntryRefusals:
    """Refuses single entries of controller requests: those whose names must not become paths of
    files or znodes, and leaders that are not in their ISR.

    A controller does not send such entries, but any client can, and a controller may have read
    them in a znode that something else wrote. They are logged as errors, and bounded as the events
    of one client, since one request may have a hundred thousand; the rest of the request is
    applied."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._log = event_log("state-change", broker=broker_id).bind(client="controller")

    def partition(self, api: str, topic_partition: TopicPartition) -> ErrorCode:
        """Return the error of an entry that is refused, otherwise NONE."""
        try:
            require_valid_partition(topic_partition)
        except KafkaError as error:
            self._say(api, str(error), topic_partition)
            return error.code
        return ErrorCode.NONE

    def instruction(self, instruction: Instruction) -> ErrorCode:
        """Return the error of an instruction that is refused, otherwise NONE."""
        topic_partition = instruction.topic_partition
        error = self.partition("LeaderAndIsr", topic_partition)
        if error is not ErrorCode.NONE or self._broker_id not in instruction.assignment.replicas:
            return error
        problem = isr_problem(instruction.leader_and_isr, self._broker_id)
        if problem is None:
            return ErrorCode.NONE
        self._say("LeaderAndIsr", problem, topic_partition)
        return ErrorCode.INVALID_REQUEST

    async def drop_metadata(self, request: UpdateMetadataRequest) -> list[str]:
        """Remove the refused partitions and listeners from the request, in slices. Return its
        topics, each once, in its order."""
        topics: dict[str, None] = {}
        flat: list[UpdateMetadataPartitionState] = []
        async for state in in_slices(request.ungrouped_partition_states):
            if self._is_kept(state.topic_name, state):
                topics[state.topic_name] = None
                flat.append(state)
        kept: list[tuple[UpdateMetadataTopicState, list[UpdateMetadataPartitionState]]] = []
        of_topics = ((topic, s) for topic in request.topic_states for s in topic.partition_states)
        async for topic, state in in_slices(of_topics):
            if self._is_kept(topic.topic_name, state):
                topics[topic.topic_name] = None
                if not kept or kept[-1][0] is not topic:
                    kept.append((topic, []))
                kept[-1][1].append(state)
        async for topic, states in in_slices(kept):
            topic.partition_states = states
        brokers = request.live_brokers
        request.ungrouped_partition_states = flat
        request.topic_states = [topic for topic, _ in kept]
        request.live_brokers = [
            broker async for broker in in_slices(brokers) if self._is_reachable(broker)
        ]
        return list(topics)

    def _is_kept(self, topic: str, state: UpdateMetadataPartitionState) -> bool:
        topic_partition = TopicPartition(topic, state.partition_index)
        return self.partition("UpdateMetadata", topic_partition) is ErrorCode.NONE

    def _is_reachable(self, broker: UpdateMetadataBroker) -> bool:
        """Remove listeners with an impossible address. Return whether the broker has any left."""
        addresses = [(e.host, e.port) for e in broker.endpoints] or [
            (broker.v0_host, broker.v0_port)
        ]
        problems = [address_problem(host, port) for host, port in addresses]
        for problem in problems:
            if problem is not None:
                self._say("UpdateMetadata", f"broker {broker.id}: {problem}")
        if broker.endpoints:
            kept = zip(broker.endpoints, problems, strict=True)
            broker.endpoints = [endpoint for endpoint, problem in kept if problem is None]
        return None in problems

    def _say(self, api: str, problem: str, topic_partition: TopicPartition | None = None) -> None:
        named = {} if topic_partition is None else {"partition": str(topic_partition)}
        self._log.error("controller_request_entry_refused", api=api, problem=problem, **named)


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


# Called with partitions that were deleted.
PartitionsDeleted: TypeAlias = Callable[[Sequence[TopicPartition]], None]


class UpdateMetadataHandler:
    """Serves UpdateMetadata (a ``TaskHandler``).

    ``get_ready`` is awaited with the topics of the request before the cache is updated. The next
    image of the cache is computed in slices, between which other requests are served from the
    current one, and replaces it at once unless a newer order has been applied meanwhile.
    Afterwards ``topic_changed`` is called for each of them, to complete operations that wait for
    a topic, and ``brokers_changed`` if other brokers are live than before. ``drop_strays``
    removes replicas that were reassigned while this broker was away."""

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
        self._refusals = EntryRefusals(self._fence.broker_id)

    async def __call__(
        self, context: RequestContext, request: UpdateMetadataRequest
    ) -> UpdateMetadataResponse:
        order = self._fence.arrived("UpdateMetadata", request, context.client_host)
        stale = order.staleness()
        if stale is not ErrorCode.NONE:  # before the entries are read: there may be 100,000
            return UpdateMetadataResponse(error_code=stale)
        topics = await self._refusals.drop_metadata(request)
        if self._get_ready is not None:
            await self._get_ready(topics)
        while True:
            steps = update_steps(self._cache.image, request)
            update = await run_in_slices(steps)
            error = order.refusal()
            if error is not ErrorCode.NONE:
                return UpdateMetadataResponse(error_code=error)
            if update.before is self._cache.image:
                break  # otherwise an earlier order has been applied meanwhile
        self._cache.replace(update, request)
        await self._after(update, request, topics)
        return UpdateMetadataResponse()

    async def _after(
        self, update: MetadataUpdate, request: UpdateMetadataRequest, topics: Sequence[str]
    ) -> None:
        self._log.info(
            "metadata_updated",
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            brokers=len(request.live_brokers),
            topics=len(topics),
            deleted_partitions=len(update.deleted),
        )
        if update.deleted and self._partitions_deleted is not None:
            self._partitions_deleted(update.deleted)
        if (
            self._brokers_changed is not None
            and update.after.brokers.keys() != update.before.brokers.keys()
        ):
            self._brokers_changed()
        await run_in_slices(self._cache.report_different_listeners())
        async for topic in in_slices(topics):
            self._topic_changed(topic)
        if self._drop_strays is not None:
            await self._drop_strays(request)


class ControlledShutdownHandler:
    """Serves ControlledShutdown (a ``TaskHandler``).

    It waits for the event in the controller's queue."""

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
