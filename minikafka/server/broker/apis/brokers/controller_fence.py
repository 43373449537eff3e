"""Whether an order comes from the current controller and concerns this broker's registration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from minikafka.core.replication.partition_state import isr_problem
from minikafka.core.topic_names import address_problem, require_valid_partition
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.slices import in_slices
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from minikafka.server.broker.replication.partition import Instruction


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
        """Return the error of an order that is not applied yet, and do not note it as applied."""
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
