"""A broker's response becomes one event, or none."""

from typing import Any
from uuid import UUID

import pytest

from minikafka.core.controller import events
from minikafka.core.controller.events import replica_errors, response_event
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def stop_replica(*deletes: Any) -> Any:
    return StopReplicaRequest(
        controller_epoch=5,
        topic_states=[
            StopReplicaTopicState(tp.topic, [StopReplicaPartitionState(tp.partition, 3, delete)])
            for tp, delete in zip((A, B), deletes, strict=True)
        ],
    )


def stopped(*errors: Any, error: Any = 0) -> Any:
    return StopReplicaResponse(
        error_code=error,
        partition_errors=[
            StopReplicaPartitionError(tp.topic, tp.partition, code)
            for tp, code in zip((A, B), errors, strict=False)
        ],
    )


@pytest.mark.mission("CEL-15")
def test_leader_and_isr_and_update_metadata() -> None:
    response = LeaderAndIsrResponse()
    assert response_event(1, LeaderAndIsrRequest(controller_epoch=5, broker_epoch=8), response) == (
        events.LeaderAndIsrResponseReceived(1, 5, 8, response)
    )
    stale = UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    assert response_event(1, UpdateMetadataRequest(controller_epoch=5), stale) == (
        events.UpdateMetadataResponseReceived(1, 5, ErrorCode.STALE_CONTROLLER_EPOCH)
    )


@pytest.mark.mission("RSM-13")
def test_only_stop_replica_with_deletion_yields_an_event() -> None:
    assert response_event(1, stop_replica(False, False), stopped(0, 0)) is None
    event = response_event(1, stop_replica(True, False), stopped(56, 0))
    assert isinstance(event, events.TopicDeletionStopReplicaResponseReceived)
    assert event.partition_errors == {A: ErrorCode.KAFKA_STORAGE_ERROR}
    assert (event.broker_id, event.controller_epoch, event.error) == (1, 5, ErrorCode.NONE)


@pytest.mark.mission("RSM-15")
@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_refusal_of_the_whole_request_is_one_of_every_deletion(error: Any) -> None:
    event = response_event(1, stop_replica(True, True), stopped(error=error))
    assert isinstance(event, events.TopicDeletionStopReplicaResponseReceived)
    assert event.error is error
    assert event.partition_errors == {A: error, B: error}


@pytest.mark.mission("RSM-14", "RSM-15")
def test_a_deletion_that_the_response_does_not_name_has_no_result() -> None:
    event = response_event(1, stop_replica(True, True), stopped(0))
    assert isinstance(event, events.TopicDeletionStopReplicaResponseReceived)
    assert event.partition_errors == {A: ErrorCode.NONE}


def test_errors_by_topic_id_and_by_name() -> None:
    names = {UUID(int=1): "a"}
    response = LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(UUID(int=1), [LeaderAndIsrPartitionError(error_code=56)]),
            LeaderAndIsrTopicError(UUID(int=2), [LeaderAndIsrPartitionError()]),  # gone since
        ],
        partition_errors=[LeaderAndIsrPartitionError("b", 1, 0)],
    )
    assert replica_errors(response, names) == {
        B: ErrorCode.NONE,
        A: ErrorCode.KAFKA_STORAGE_ERROR,
    }
