"""What a broker's answer to a controller request means: one event, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from minikafka.core.controller.events import (
    ControllerEvent,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponse,
)
from minikafka.core.controller.request_batch import ControlRequest
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from minikafka.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


def answer_event(broker_id: int, request: ControlRequest, response: Any) -> ControllerEvent | None:
    """The event for ``response`` (of ``request``'s kind). A StopReplica that deleted nothing needs
    no answer, as in Kafka."""
    epoch = request.controller_epoch
    if isinstance(request, LeaderAndIsrRequest):
        return LeaderAndIsrResponseReceived(broker_id, epoch, request.broker_epoch, response)
    if isinstance(request, StopReplicaRequest):
        errors = _deletion_errors(request, response)
        if not errors:
            return None
        error = ErrorCode(response.error_code)
        return TopicDeletionStopReplicaResponseReceived(broker_id, epoch, error, errors)
    return UpdateMetadataResponse(broker_id, epoch, ErrorCode(response.error_code))


def replica_errors(
    response: LeaderAndIsrResponse, topic_names: Mapping[UUID, str]
) -> dict[TopicPartition, ErrorCode]:
    """How each replica took its LeaderAndIsr. Topics that have gone meanwhile are left out."""
    by_name = [(error.topic_name, error) for error in response.partition_errors]
    by_id = [
        (topic_names[topic.topic_id], error)
        for topic in response.topics
        if topic.topic_id in topic_names
        for error in topic.partition_errors
    ]
    return {
        TopicPartition(topic, error.partition_index): ErrorCode(error.error_code)
        for topic, error in (*by_name, *by_id)
    }


def _deletion_errors(
    request: StopReplicaRequest, response: StopReplicaResponse
) -> dict[TopicPartition, ErrorCode]:
    """Errors of the partitions that ``request`` said to delete.

    When the request failed as a whole the answer may name no partition; then all of them failed.
    """
    deleted = [
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    ]
    answered = {
        TopicPartition(e.topic_name, e.partition_index): ErrorCode(e.error_code)
        for e in response.partition_errors
    }
    overall = ErrorCode(response.error_code)
    if overall is not ErrorCode.NONE:
        return {tp: answered.get(tp, overall) for tp in deleted}
    return {tp: answered[tp] for tp in deleted if tp in answered}
