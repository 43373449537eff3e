"""Controller requests for older brokers: laid out flat, or without a flag per partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from minikafka.core.controller.request_batch import ControlRequest
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicV1,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)

LEADER_AND_ISR_BY_TOPIC = 2
LEADER_RECOVERY = 6
STOP_REPLICA_BY_TOPIC = 1
STOP_REPLICA_FLAG_EACH = 3
UPDATE_METADATA_BY_TOPIC = 5
PLAINTEXT_ID = 0


def for_version(request: ControlRequest, version: int) -> list[ControlRequest]:
    """``request``, which is laid out for the newest version, as one or more of ``version``. The
    answers to several are one together: ``merged``."""
    if isinstance(request, LeaderAndIsrRequest):
        return [_leader_and_isr(request, version)]
    if isinstance(request, StopReplicaRequest):
        return [*_stop_replica(request, version)]
    return [_update_metadata(request, version)]


def _leader_and_isr(request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrRequest:
    if version >= LEADER_RECOVERY:
        return request
    topics = [
        replace(
            topic,
            # Brokers from before KIP-704 do not know whether a leader has to recover.
            partition_states=[replace(s, leader_recovery_state=0) for s in topic.partition_states],
        )
        for topic in request.topic_states
    ]
    if version >= LEADER_AND_ISR_BY_TOPIC:
        return replace(request, topic_states=topics)
    flat = [
        replace(state, topic_name=topic.topic_name)
        for topic in topics
        for state in topic.partition_states
    ]
    return replace(request, topic_states=[], ungrouped_partition_states=flat)


def _stop_replica(request: StopReplicaRequest, version: int) -> Iterable[StopReplicaRequest]:
    """One flag for all of them before version 3: those that only stop, then those that go."""
    if version >= STOP_REPLICA_FLAG_EACH:
        yield request
        return
    for delete in (False, True):
        wanted = {
            topic.topic_name: [
                s.partition_index for s in topic.partition_states if s.delete_partition is delete
            ]
            for topic in request.topic_states
        }
        topics = [StopReplicaTopicV1(name, indexes) for name, indexes in wanted.items() if indexes]
        if not topics:
            continue
        one = replace(request, topic_states=[], delete_partitions=delete)
        if version >= STOP_REPLICA_BY_TOPIC:
            yield replace(one, topics=topics)
        else:
            flat = [
                StopReplicaPartitionV0(topic.name, index)
                for topic in topics
                for index in topic.partition_indexes
            ]
            yield replace(one, ungrouped_partitions=flat)


def _update_metadata(request: UpdateMetadataRequest, version: int) -> UpdateMetadataRequest:
    if version >= UPDATE_METADATA_BY_TOPIC:
        return request
    flat = [
        replace(state, topic_name=topic.topic_name)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    brokers = [_one_address(broker) for broker in request.live_brokers]
    return replace(request, topic_states=[], ungrouped_partition_states=flat, live_brokers=brokers)


def _one_address(broker: UpdateMetadataBroker) -> UpdateMetadataBroker:
    """Fill the fields that version 0 alone encodes: the address of the plaintext listener."""
    for endpoint in broker.endpoints:
        if endpoint.security_protocol == PLAINTEXT_ID:
            return replace(broker, v0_host=endpoint.host, v0_port=endpoint.port)
    return broker
