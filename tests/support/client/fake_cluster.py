"""Brokers that respond to a client from dictionaries, with faults that tests inject."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import World
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode
from minikafka.protocol.frames import (
    FrameError,
    FrameReader,
    decode_request_header,
    encode_response,
)
from minikafka.protocol.messages import fetch, produce
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from minikafka.protocol.messages.init_producer_id import InitProducerIdResponse
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.messages.sasl import SaslHandshakeResponse
from minikafka.protocol.schema import Message
from tests.support.client.fake_partition import FakePartition

__all__ = ["HANG_UP", "SERVED", "SILENCE", "FakeCluster", "FakePartition"]

SERVED = [
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.INIT_PRODUCER_ID,
]
LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
HANG_UP = "hang up"
SILENCE = "silence"


class FakeCluster:
    """Brokers in one process, for tests of one client.

    ``faults[api]`` has the faults of the next requests of that API: HANG_UP, SILENCE, or an error
    code for every partition or topic in the request (None: no fault). ``seen`` lists (broker,
    request) of every request. ``versions`` are the supported versions of each API.
    """

    def __init__(self, world: World, brokers: int = 2, loopback: bool = False) -> None:
        self.world = world
        self.loopback = loopback
        self.addresses = {broker: (f"host-{broker}", 9092) for broker in range(1, brokers + 1)}
        self.brokers = list(range(1, brokers + 1))
        self.controller = 1
        self.auto_create = False
        self.partitions: dict[TopicPartition, FakePartition] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.faults: dict[ApiKey, deque[Any]] = {}
        self.seen: list[tuple[int, Any]] = []
        self.versions = {int(key): (0, key.max_version) for key in SERVED}
        self.acked: list[bytes] = []
        self.names_leaders = False  # beside NOT_LEADER_OR_FOLLOWER, as Kafka from 3.7 on (KIP-951)
        self.frozen: set[int] = set()  # brokers that accept connections and send no responses
        self._producer_ids = itertools.count(1000)
        self._topic_ids = itertools.count(1)
        self._listeners: dict[int, Any] = {}
        self._connections: dict[int, list[asyncio.Transport]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    async def start(self) -> None:
        for broker in self.brokers:
            await self.start_broker(broker)

    async def start_broker(self, broker: int) -> None:
        host, port = ("127.0.0.1", 0) if self.loopback else self.addresses[broker]
        listener = await self.world.network.listen(
            lambda: _FakeConnection(self, broker), host, port
        )
        self._listeners[broker] = listener
        self.addresses[broker] = (host, listener.port)

    def stop_broker(self, broker: int) -> None:
        self._listeners.pop(broker).close()
        for transport in self._connections.pop(broker, []):
            transport.abort()

    def freeze(self, broker: int) -> None:
        self.frozen.add(broker)

    def create(self, topic: str, partitions: int = 2) -> None:
        self.topic_ids[topic] = UUID(int=next(self._topic_ids))
        for number in range(partitions):
            leader = self.brokers[number % len(self.brokers)]
            self.partitions[TopicPartition(topic, number)] = FakePartition(leader)

    def delete(self, topic: str) -> None:
        del self.topic_ids[topic]
        for tp in [tp for tp in self.partitions if tp.topic == topic]:
            del self.partitions[tp]

    def recreate(self, topic: str, partitions: int) -> None:
        """Delete the topic and create it again, empty, under a new topic id."""
        self.delete(topic)
        self.create(topic, partitions)

    def move_leader(self, tp: TopicPartition, leader: int) -> None:
        self.partitions[tp].leader = leader
        self.partitions[tp].leader_epoch += 1

    def fail(self, api: ApiKey, *faults: Any) -> None:
        self.faults.setdefault(api, deque()).extend(faults)

    def requests(self, api: ApiKey) -> list[Any]:
        return [request for _, request in self.seen if request.SPEC.api_key == api]

    def values(self, tp: TopicPartition) -> list[bytes | None]:
        return [record.value for record in self.partitions[tp].records()]

    # -- responses, called by connections

    def opened(self, broker: int, transport: asyncio.Transport) -> None:
        self._connections.setdefault(broker, []).append(transport)

    def respond(
        self, broker: int, request: Any, version: int, reply: Callable[[Any], None]
    ) -> str | None:
        """Reply now or later; HANG_UP or SILENCE instead of that."""
        api = request.SPEC.api_key
        self.seen.append((broker, request))
        if broker in self.frozen:
            return SILENCE
        queue = self.faults.get(api)
        fault = queue.popleft() if queue else None
        if fault in (HANG_UP, SILENCE):
            return cast(str, fault)
        handler = getattr(self, f"_{api.name.lower()}")
        handler(broker, request, fault or ErrorCode.NONE, reply)
        return None

    def _api_versions(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        rows = [ApiVersion(key, *span) for key, span in self.versions.items()]
        reply(ApiVersionsResponse(error_code=fault, api_keys=rows))

    def _sasl_handshake(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        reply(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))  # no logins, as PLAINTEXT

    def _metadata(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        names = sorted(self.topic_ids)
        if request.topics is not None:
            names = [topic.name for topic in request.topics]
        rows = []
        for name in names:
            if name not in self.topic_ids and self.auto_create:
                if request.allow_auto_topic_creation:
                    self.create(name)
                fault = ErrorCode.LEADER_NOT_AVAILABLE
                rows.append(MetadataResponseTopic(error_code=fault, name=name))
                continue
            code = fault if name in self.topic_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            rows.append(
                MetadataResponseTopic(
                    error_code=code,
                    name=name,
                    topic_id=self.topic_ids.get(name, UUID(int=0)),
                    is_internal=name.startswith("__"),
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=tp.partition,
                            leader_id=partition.leader,
                            leader_epoch=partition.leader_epoch,
                            replica_nodes=list(self.brokers),
                            isr_nodes=list(self.brokers),
                        )
                        for tp, partition in self.partitions.items()
                        if tp.topic == name and code is ErrorCode.NONE
                    ],
                )
            )
        nodes = [
            MetadataResponseBroker(node, *self.addresses[node]) for node in sorted(self._listeners)
        ]
        reply(
            MetadataResponse(
                brokers=nodes, cluster_id="fake", controller_id=self.controller, topics=rows
            )
        )

    def _init_producer_id(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        reply(InitProducerIdResponse(0, fault, next(self._producer_ids), 0))

    def _leader_error(self, broker: int, tp: TopicPartition, epoch: int = -1) -> ErrorCode:
        partition = self.partitions.get(tp)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != broker:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch != -1 and epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _named_leader(self, tp: TopicPartition, code: ErrorCode) -> tuple[int, int] | None:
        if not self.names_leaders or code not in LEADER_ERRORS:
            return None
        return self.partitions[tp].leader, self.partitions[tp].leader_epoch

    def _endpoints(self, response: Any, kind: Callable[[int, str, int], Any]) -> Any:
        """Return the response with the addresses of all brokers, if it names leaders."""
        if self.names_leaders:
            nodes = [kind(node, *self.addresses[node]) for node in sorted(self._listeners)]
            response.node_endpoints = nodes
        return response

    def _produce(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        topics = []
        for topic in request.topic_data:
            rows = []
            for data in topic.partition_data:
                tp = TopicPartition(topic.name, data.index)
                code = fault or self._leader_error(broker, tp)
                base = -1
                if code is ErrorCode.NONE:
                    code, base = self.partitions[tp].produce(data.records)
                row = PartitionProduceResponse(data.index, code, base)
                if (leader := self._named_leader(tp, code)) is not None:
                    row.current_leader = produce.LeaderIdAndEpoch(*leader)
                rows.append(row)
            topics.append(TopicProduceResponse(topic.name, partition_responses=rows))
        if request.acks:
            reply(self._endpoints(ProduceResponse(responses=topics), produce.NodeEndpoint))

    def _fetch(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}

        def attempt() -> None:
            topics, ready = [], False
            for topic in request.topics:
                rows = []
                for requested in topic.partitions:
                    name = topic.topic or names.get(topic.topic_id, "")
                    tp = TopicPartition(name, requested.partition)
                    row = self._read(broker, tp, requested, fault)
                    ready = ready or bool(row.records) or row.error_code != 0
                    rows.append(row)
                topics.append(FetchableTopicResponse(topic.topic, topic.topic_id, rows))
            loop = asyncio.get_running_loop()
            if ready or loop.time() >= deadline:
                reply(self._endpoints(FetchResponse(responses=topics), fetch.NodeEndpoint))
            else:
                loop.call_later(0.01, attempt)

        attempt()

    def _read(
        self, broker: int, tp: TopicPartition, requested: Any, fault: ErrorCode
    ) -> PartitionData:
        code = fault or self._leader_error(broker, tp, requested.current_leader_epoch)
        if code is ErrorCode.NONE:
            partition = self.partitions[tp]
            if partition.log_start <= requested.fetch_offset <= partition.end:
                data = partition.read(requested.fetch_offset, requested.partition_max_bytes)
                return PartitionData(
                    tp.partition,
                    high_watermark=partition.end,
                    last_stable_offset=partition.end,
                    records=data,
                )
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        row = PartitionData(tp.partition, code, -1)
        if (leader := self._named_leader(tp, code)) is not None:
            row.current_leader = fetch.LeaderIdAndEpoch(*leader)
        return row

    def _list_offsets(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        topics = []
        for topic in request.topics:
            rows = []
            for requested in topic.partitions:
                tp = TopicPartition(topic.name, requested.partition_index)
                code = fault or self._leader_error(broker, tp, requested.current_leader_epoch)
                offset, timestamp = -1, -1
                if code is ErrorCode.NONE:
                    offset, timestamp = self._find(self.partitions[tp], requested.timestamp)
                rows.append(
                    ListOffsetsPartitionResponse(
                        tp.partition, code, timestamp=timestamp, offset=offset
                    )
                )
            topics.append(ListOffsetsTopicResponse(topic.name, rows))
        reply(ListOffsetsResponse(topics=topics))

    def _find(self, partition: FakePartition, timestamp: int) -> tuple[int, int]:
        if timestamp == -1:
            return partition.end, -1
        if timestamp == -2:
            return partition.log_start, -1
        hits = (r for r in partition.records() if r.timestamp >= timestamp)
        return next(((r.offset, r.timestamp) for r in hits), (-1, -1))

    def _controller_error(self, broker: int) -> ErrorCode:
        return ErrorCode.NONE if broker == self.controller else ErrorCode.NOT_CONTROLLER

    def _create_topics(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        rows = []
        for topic in request.topics:
            code = fault or self._controller_error(broker)
            if code is ErrorCode.NONE and topic.name in self.topic_ids:
                code = ErrorCode.TOPIC_ALREADY_EXISTS
            if code is ErrorCode.NONE and not request.validate_only:
                self.create(topic.name, max(1, topic.num_partitions))
            rows.append(
                CreatableTopicResult(
                    topic.name,
                    self.topic_ids.get(topic.name, UUID(int=0)),
                    code,
                    num_partitions=topic.num_partitions,
                    replication_factor=1,
                )
            )
        reply(CreateTopicsResponse(topics=rows))

    def _delete_topics(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        rows = []
        for name in [topic.name for topic in request.topics] or request.topic_names:
            code = fault or self._controller_error(broker)
            if code is ErrorCode.NONE and name not in self.topic_ids:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code is ErrorCode.NONE:
                self.delete(name)
            rows.append(DeletableTopicResult(name, error_code=code))
        reply(DeleteTopicsResponse(responses=rows))

    def _delete_records(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        topics = []
        for topic in request.topics:
            rows = []
            for requested in topic.partitions:
                tp = TopicPartition(topic.name, requested.partition_index)
                code = fault or self._leader_error(broker, tp)
                low_watermark = -1
                if code is ErrorCode.NONE:
                    partition = self.partitions[tp]
                    low_watermark = partition.end if requested.offset == -1 else requested.offset
                    if low_watermark > partition.end:
                        low_watermark, code = -1, ErrorCode.OFFSET_OUT_OF_RANGE
                    else:
                        partition.log_start = low_watermark
                rows.append(DeleteRecordsPartitionResult(tp.partition, low_watermark, code))
            topics.append(DeleteRecordsTopicResult(topic.name, rows))
        reply(DeleteRecordsResponse(topics=topics))

    def _describe_cluster(self, broker: int, request: Any, fault: ErrorCode, reply: Any) -> None:
        brokers = [DescribeClusterBroker(node, *self.addresses[node]) for node in self._listeners]
        reply(
            DescribeClusterResponse(
                cluster_id="fake", controller_id=self.controller, brokers=brokers
            )
        )


REQUESTS_BY_NUMBER: dict[int, type[Message]] = {int(key): cls for key, cls in REQUESTS.items()}


class _FakeConnection(asyncio.BufferedProtocol):
    """Replies leave in the order of the requests, whenever they come."""

    def __init__(self, cluster: FakeCluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker
        self._reader = FrameReader(1 << 30, reuse=False)
        self._slots: deque[list[bytes]] = deque()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._cluster.opened(self._broker, self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._reader.buffer_updated(nbytes)
        except FrameError:
            self._transport.close()
            return
        for frame in frames:
            header, start = decode_request_header(frame)
            request = decode(REQUESTS_BY_NUMBER[header.api_key], header.api_version, frame, start)
            slot: list[bytes] = []
            if getattr(request, "acks", 1):
                self._slots.append(slot)

            def reply(message: Any, slot: list[bytes] = slot, header: Any = header) -> None:
                slot.append(encode_response(header.correlation_id, message, header.api_version))
                while self._slots and self._slots[0]:
                    self._transport.write(self._slots.popleft()[0])

            outcome = self._cluster.respond(self._broker, request, header.api_version, reply)
            if outcome == HANG_UP:
                self._transport.abort()
                return
