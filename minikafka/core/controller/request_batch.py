"""Requests from the controller to brokers: gathered into a batch, and laid out for older versions.

The batch is Kafka's ControllerBrokerRequestBatch. Requests are built for the newest version;
``for_version`` rewrites one for a broker that supports an older version only.

Several brokers get the topics of an UpdateMetadata request as the same bytes. The metadata of
100,000 partitions take 0.2 s to encode. A broker that starts gets them, and after a failover all
brokers do. So they are encoded in steps, and once.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Generator, Iterable
from dataclasses import replace
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
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.slices import run_at_once
from minikafka.protocol.codec import encode_struct
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)


class _EncodedPartitionState(UpdateMetadataPartitionState):
    """A partition of which only the bytes can be read."""

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded


class EncodedTopicState(UpdateMetadataTopicState):
    """A topic with its bytes in one version. Its fields can be read as those of any other."""

    __slots__ = ("encoded", "version")

    def __init__(self, topic: UpdateMetadataTopicState, encoded: bytes, version: int) -> None:
        self.topic_name = topic.topic_name
        self.topic_id = topic.topic_id
        self.partition_states = topic.partition_states
        self.encoded = encoded
        self.version = version


def encoding_steps(
    topics: Iterable[UpdateMetadataTopicState], version: int
) -> Generator[None, None, list[UpdateMetadataTopicState]]:
    """Return the topics with their bytes; yield after each partition. ``version`` is one that has
    topics (from 5 on)."""
    encoded: list[UpdateMetadataTopicState] = []
    for topic in topics:
        rows: list[UpdateMetadataPartitionState] = []
        for state in topic.partition_states:
            rows.append(
                _EncodedPartitionState(encode_struct(state, UpdateMetadataRequest, version))
            )
            yield
        whole = UpdateMetadataTopicState(topic.topic_name, topic.topic_id, rows)
        encoded.append(
            EncodedTopicState(topic, encode_struct(whole, UpdateMetadataRequest, version), version)
        )
    return encoded


def topics_for(
    topics: list[UpdateMetadataTopicState], version: int
) -> list[UpdateMetadataTopicState]:
    """Return the topics for a request of ``version``: without their bytes, if these are of
    another."""
    if all(
        not isinstance(topic, EncodedTopicState) or topic.version == version for topic in topics
    ):
        return topics
    return [
        UpdateMetadataTopicState(topic.topic_name, topic.topic_id, topic.partition_states)
        for topic in topics
    ]


SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """One request to one broker, laid out for the newest version of its API."""

    broker_id: int
    message: ControlRequest


class RequestBatch:
    """Gathers requests so that each broker gets at most one of each kind.

    Call ``new_batch``, then any number of ``add_...``, then ``send_requests_to_brokers``.
    """

    def __init__(self, broker_id: int, context: ControllerContext, listener: str) -> None:
        """``broker_id`` is the controller's id, ``listener`` the name of the inter-broker
        listener."""
        self._controller_id = broker_id
        self._context = context
        self._listener = listener
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._metadata_brokers: set[int] = set()
        self._metadata: dict[TopicPartition, None] = {}  # an ordered set
        self._held: tuple[set[int], dict[TopicPartition, None]] = (set(), {})  # for the next batch

    def new_batch(self) -> None:
        """Start a batch. Raises ``RuntimeError`` if the last one has requests that were not sent:
        the brokers would never get them."""
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
        """Drop everything that was added and not sent."""
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
        """Add the partition's state to the LeaderAndIsr requests of ``broker_ids``, and to the
        UpdateMetadata requests of all live brokers. A replica that was added with ``is_new`` keeps
        the flag within the batch."""
        state = _leader_and_isr_state(partition, leadership, assignment, is_new)
        for broker_id in broker_ids:
            states = self._leader_and_isr.setdefault(broker_id, {})
            earlier = states.get(partition)
            assert earlier is None or state.leader_epoch >= earlier.leader_epoch, (
                f"{partition}: leader epoch {state.leader_epoch} after {earlier.leader_epoch}"
            )
            still_new = earlier is not None and earlier.is_new
            states[partition] = replace(state, is_new=True) if still_new else state
        self.add_update_metadata(self._context.brokers, (partition,))

    def add_stop_replica(
        self, broker_ids: Iterable[int], partition: TopicPartition, delete: bool
    ) -> None:
        """Add the partition to the StopReplica requests of ``broker_ids``. A replica that was added
        with ``delete`` keeps the flag within the batch."""
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
        """Add UpdateMetadata requests for ``broker_ids`` and ``partitions``. They list all live
        brokers, and the partitions' states when the batch is sent. Partitions that never had a
        leader are left out."""
        self._metadata_brokers.update(broker_ids)
        self._metadata.update(dict.fromkeys(partitions))

    def send_requests_to_brokers(
        self, controller_epoch: int, unfinished: Container[str] = ()
    ) -> list[BrokerRequest]:
        """Return the requests for live brokers and empty the batch. They are sorted by kind in
        Kafka's order, and then by broker id.

        ``unfinished`` are topics that continue in the next batch. Their UpdateMetadata is held back
        until then, because a producer takes the partitions in its metadata for the whole topic.
        """
        assert controller_epoch == self._context.epoch, "requests of another controller's term"
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
        """Add the partitions held back from the last batch, and return those to hold back now, with
        the brokers that are to get them."""
        brokers, partitions = self._held
        self._metadata_brokers |= brokers
        everything = self._metadata = partitions | self._metadata
        held = {tp: None for tp in everything if tp.topic in unfinished}
        if not held:
            return set(), {}
        recipients = set(self._metadata_brokers)
        self._metadata = {tp: None for tp in everything if tp not in held}
        if not self._metadata:
            self._metadata_brokers.clear()
        return recipients, held

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

    def metadata_steps(
        self, broker_ids: Collection[int], partitions: Iterable[TopicPartition], version: int
    ) -> Generator[None, None, list[BrokerRequest]]:
        """Return UpdateMetadata requests for ``broker_ids`` with these partitions, beside the
        batch; yield after each step. They may be all partitions of the cluster, in one request: a
        broker shows its clients what it knows, which must not be a part of the topics. So the
        topics are encoded here, for the ``version`` that most brokers get."""
        topics = yield from self._topic_states(partitions)
        if version >= UPDATE_METADATA_BY_TOPIC:
            topics = yield from encoding_steps(topics, version)
        return [*self._metadata_requests(self._context.epoch, broker_ids, topics)]

    def _update_metadata_requests(self, controller_epoch: int) -> Iterable[BrokerRequest]:
        topics = run_at_once(self._topic_states(self._metadata))
        return self._metadata_requests(controller_epoch, self._metadata_brokers, topics)

    def _topic_states(
        self, partitions: Iterable[TopicPartition]
    ) -> Generator[None, None, list[UpdateMetadataTopicState]]:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in partitions:
            yield
            leadership = self._context.leadership.get(partition)
            if leadership is None:
                continue
            topic = partition.topic
            if topic not in topics:
                topic_id = self._context.topic_ids.get(topic, ZERO_UUID)
                topics[topic] = UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id)
            topics[topic].partition_states.append(self._metadata_state(partition, leadership))
        return list(topics.values())

    def _metadata_requests(
        self,
        controller_epoch: int,
        broker_ids: Collection[int],
        topics: list[UpdateMetadataTopicState],
    ) -> Iterable[BrokerRequest]:
        live = [_metadata_broker(self._context.brokers[b]) for b in sorted(self._context.brokers)]
        for broker_id in sorted(self._context.brokers.keys() & broker_ids):
            yield BrokerRequest(
                broker_id,
                UpdateMetadataRequest(
                    controller_id=self._controller_id,
                    controller_epoch=controller_epoch,
                    broker_epoch=self._context.brokers[broker_id].epoch,
                    topic_states=topics,
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


# ------------------------------------------------------------------------------- older versions

# The first version of each layout or field.
LEADER_AND_ISR_BY_TOPIC = 2
LEADER_RECOVERY = 6
STOP_REPLICA_BY_TOPIC = 1
STOP_REPLICA_FLAG_EACH = 3
UPDATE_METADATA_BY_TOPIC = 5
PLAINTEXT_ID = 0


def request_version(request: ControlRequest, protocol: InterBrokerProtocol) -> int:
    """Return the version in which a broker of ``protocol`` sends ``request``."""
    if isinstance(request, LeaderAndIsrRequest):
        return protocol.leader_and_isr_version
    if isinstance(request, StopReplicaRequest):
        return protocol.stop_replica_version
    return protocol.update_metadata_version


def for_version(request: ControlRequest, version: int) -> list[ControlRequest]:
    """Rewrite ``request``, which is laid out for the newest version, as one or more requests of
    ``version``."""
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
            # Versions before KIP-704 do not have the leader's recovery state.
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
    """Before version 3 a request has one deletion flag for all its partitions: yield a request for
    those that are only stopped, then one for those that are also deleted."""
    if version >= STOP_REPLICA_FLAG_EACH:
        yield request
        return
    for delete in (False, True):
        selected = {
            topic.topic_name: [
                s.partition_index for s in topic.partition_states if s.delete_partition is delete
            ]
            for topic in request.topic_states
        }
        topics = [
            StopReplicaTopicV1(name, indexes) for name, indexes in selected.items() if indexes
        ]
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
        topics = topics_for(request.topic_states, version)
        return request if topics is request.topic_states else replace(request, topic_states=topics)
    flat = [
        replace(state, topic_name=topic.topic_name)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    brokers = [_one_address(broker) for broker in request.live_brokers]
    return replace(request, topic_states=[], ungrouped_partition_states=flat, live_brokers=brokers)


def _one_address(broker: UpdateMetadataBroker) -> UpdateMetadataBroker:
    """Fill the fields that only version 0 encodes: the address of the plaintext listener."""
    for endpoint in broker.endpoints:
        if endpoint.security_protocol == PLAINTEXT_ID:
            return replace(broker, v0_host=endpoint.host, v0_port=endpoint.port)
    return broker
