"""The requests that one step of the controller owes the brokers (ControllerBrokerRequestBatch)."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import (
    LEADER_DURING_DELETE,
    ZERO_UUID,
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """One request to one broker, laid out for the newest version of its API."""

    broker_id: int
    message: ControlRequest


class RequestBatch:
    """Gathers what brokers have to be told; one request per broker and kind leaves it.

    ``new_batch``, then any number of ``add_...``, then ``send_requests_to_brokers``. A batch that
    was filled and not sent is a lost instruction: ``new_batch`` refuses to cover it up.
    """

    def __init__(self, broker_id: int, context: ControllerContext, listener: str) -> None:
        """``broker_id`` is the controller's, ``listener`` the name of the inter-broker one."""
        self._controller_id = broker_id
        self._context = context
        self._listener = listener
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._metadata_brokers: set[int] = set()
        self._metadata: dict[TopicPartition, None] = {}  # as a set that keeps its order
        self._held: tuple[set[int], dict[TopicPartition, None]] = (set(), {})  # for the next batch

    def new_batch(self) -> None:
        """Raises ``RuntimeError`` when something of the last batch was never sent."""
        unsent = [
            name
            for name, content in (
                ("LeaderAndIsr", self._leader_and_isr),
                ("StopReplica", self._stop_replica),
                ("UpdateMetadata", self._metadata_brokers),
            )
            if content
        ]
        if unsent:
            raise RuntimeError(
                "Controller to broker state change requests batch is not empty while creating a "
                f"new one. Some {', '.join(unsent)} state changes might be lost"
            )

    def clear(self) -> None:
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._metadata_brokers.clear()
        self._metadata.clear()
        self._held = (set(), {})

    def add_leader_and_isr(
        self,
        broker_ids: Iterable[int],
        partition: TopicPartition,
        leadership: LeaderIsrAndControllerEpoch,
        assignment: ReplicaAssignment,
        is_new: bool,
    ) -> None:
        """Tell those of these brokers that live who leads, and every live broker by UpdateMetadata.
        Once new, a replica stays new within the batch."""
        state = _leader_and_isr_state(partition, leadership, assignment, is_new)
        for broker_id in broker_ids:
            states = self._leader_and_isr.setdefault(broker_id, {})
            earlier = states.get(partition)
            still_new = earlier is not None and earlier.is_new
            states[partition] = replace(state, is_new=True) if still_new else state
        self.add_update_metadata(self._context.brokers, (partition,))

    def add_stop_replica(
        self, broker_ids: Iterable[int], partition: TopicPartition, delete: bool
    ) -> None:
        """Tell those of these brokers that live to stop the replica. Once to be deleted, it stays
        so."""
        leader_epoch = self._context.leader_epoch(partition)
        for broker_id in broker_ids:
            states = self._stop_replica.setdefault(broker_id, {})
            earlier = states.get(partition)
            states[partition] = StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=leader_epoch,
                delete_partition=delete or (earlier is not None and earlier.delete_partition),
            )

    def add_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Tell these brokers of all live brokers and of these partitions, as the context knows them
        when the batch is sent. A partition that never had a leader is left out."""
        self._metadata_brokers.update(broker_ids)
        self._metadata.update(dict.fromkeys(partitions))

    def send_requests_to_brokers(
        self, controller_epoch: int, unfinished: Container[str] = ()
    ) -> list[BrokerRequest]:
        """The requests for live brokers, and an empty batch: for each kind by broker id, in
        Kafka's order of kinds, so that a broker knows a leader's address before it follows.

        ``unfinished``: topics of which there is more in the next batch. UpdateMetadata of them
        waits for it: a producer that saw a part of a topic would take it for the whole.
        """
        held = self._hold_back(unfinished)
        requests = [
            *self._leader_and_isr_requests(controller_epoch),
            *self._update_metadata_requests(controller_epoch),
            *self._stop_replica_requests(controller_epoch),
        ]
        self.clear()
        self._held = held
        return requests

    def _hold_back(self, unfinished: Container[str]) -> tuple[set[int], dict[TopicPartition, None]]:
        """Add what was held back to this batch, and take from it what is to be now."""
        brokers, partitions = self._held
        self._metadata_brokers |= brokers
        everything = self._metadata = partitions | self._metadata
        held = {tp: None for tp in everything if tp.topic in unfinished}
        if not held:
            return set(), {}
        whom = set(self._metadata_brokers)
        self._metadata = {tp: None for tp in everything if tp not in held}
        if not self._metadata:
            self._metadata_brokers.clear()
        return whom, held

    # --------------------------------------------------------------------------------- messages

    def _metadata_state(
        self, partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch
    ) -> UpdateMetadataPartitionState:
        known = leadership.leader_and_isr
        if self._context.is_queued_for_deletion(partition.topic):
            known = LeaderAndIsr(LEADER_DURING_DELETE, 0, known.isr)
        replicas = self._context.assignment(partition).replicas
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=known.leader,
            leader_epoch=known.leader_epoch,
            isr=list(known.isr),
            zk_version=known.zk_version,
            replicas=list(replicas),
            offline_replicas=[
                r for r in replicas if not self._context.is_replica_online(r, partition)
            ],
        )

    def _leader_and_isr_requests(self, controller_epoch: int) -> Iterable[BrokerRequest]:
        for broker_id in sorted(self._leader_and_isr.keys() & self._context.brokers.keys()):
            states = self._leader_and_isr[broker_id]
            leaders = {state.leader for state in states.values()}
            topics: dict[str, LeaderAndIsrTopicState] = {}
            for (topic, _), state in states.items():
                if topic not in topics:
                    topic_id = self._context.topic_ids.get(topic, ZERO_UUID)
                    topics[topic] = LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id)
                topics[topic].partition_states.append(state)
            yield BrokerRequest(
                broker_id,
                LeaderAndIsrRequest(
                    controller_id=self._controller_id,
                    controller_epoch=controller_epoch,
                    broker_epoch=self._context.brokers[broker_id].epoch,
                    topic_states=list(topics.values()),
                    live_leaders=self._live_leaders(leaders),
                ),
            )

    def _live_leaders(self, leaders: set[int]) -> list[LeaderAndIsrLiveLeader]:
        known = []
        for broker_id in sorted(leaders & self._context.brokers.keys()):
            endpoint = self._context.brokers[broker_id].endpoint(self._listener)
            if endpoint is not None:
                known.append(
                    LeaderAndIsrLiveLeader(
                        broker_id=broker_id, host_name=endpoint.host, port=endpoint.port
                    )
                )
        return known

    def _update_metadata_requests(self, controller_epoch: int) -> Iterable[BrokerRequest]:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in self._metadata:
            leadership = self._context.leadership.get(partition)
            if leadership is None:
                continue
            topic = partition.topic
            if topic not in topics:
                topic_id = self._context.topic_ids.get(topic, ZERO_UUID)
                topics[topic] = UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id)
            topics[topic].partition_states.append(self._metadata_state(partition, leadership))
        live = [_metadata_broker(self._context.brokers[b]) for b in sorted(self._context.brokers)]
        for broker_id in sorted(self._metadata_brokers & self._context.brokers.keys()):
            yield BrokerRequest(
                broker_id,
                UpdateMetadataRequest(
                    controller_id=self._controller_id,
                    controller_epoch=controller_epoch,
                    broker_epoch=self._context.brokers[broker_id].epoch,
                    topic_states=list(topics.values()),
                    live_brokers=live,
                ),
            )

    def _stop_replica_requests(self, controller_epoch: int) -> Iterable[BrokerRequest]:
        for broker_id in sorted(self._stop_replica.keys() & self._context.brokers.keys()):
            topics: dict[str, StopReplicaTopicState] = {}
            for (topic, _), state in self._stop_replica[broker_id].items():
                if topic not in topics:
                    topics[topic] = StopReplicaTopicState(topic_name=topic)
                topics[topic].partition_states.append(state)
            yield BrokerRequest(
                broker_id,
                StopReplicaRequest(
                    controller_id=self._controller_id,
                    controller_epoch=controller_epoch,
                    broker_epoch=self._context.brokers[broker_id].epoch,
                    topic_states=list(topics.values()),
                ),
            )


def _leader_and_isr_state(
    partition: TopicPartition,
    leadership: LeaderIsrAndControllerEpoch,
    assignment: ReplicaAssignment,
    is_new: bool,
) -> LeaderAndIsrPartitionState:
    known = leadership.leader_and_isr
    return LeaderAndIsrPartitionState(
        topic_name=partition.topic,
        partition_index=partition.partition,
        controller_epoch=leadership.controller_epoch,
        leader=known.leader,
        leader_epoch=known.leader_epoch,
        isr=list(known.isr),
        partition_epoch=known.zk_version,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        is_new=is_new,
        leader_recovery_state=known.leader_recovery_state,
    )


def _metadata_broker(broker: Broker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                host=endpoint.host,
                port=endpoint.port,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
    )
