"""Brokers' replica managers in one process: real logs in memory, requests over loopback channels.

The test plays the controller (``elect``) and ZooKeeper (``StateZnodes``), and moves the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from uuid import UUID

from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import (
    Broker,
    Endpoint,
    LeaderAndIsr,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.network.channel import Channel, Receive
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import (
    RequestHeader,
)
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.registry import response_class
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import decode_records
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence
from minikafka.server.broker.apis.brokers.leader_and_isr import LeaderAndIsrHandler
from minikafka.server.broker.apis.brokers.stop_replica import StopReplicaHandler
from minikafka.server.broker.apis.records.delete_records import DeleteRecordsHandler
from minikafka.server.broker.apis.records.fetch import FetchConfig, FetchHandler
from minikafka.server.broker.apis.records.list_offsets import ListOffsetsHandler
from minikafka.server.broker.apis.records.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from minikafka.server.broker.apis.records.produce import ProduceHandler
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.fetch.reader import FetchReader, PreferredReplicas
from minikafka.server.broker.fetch.record_fetches import RecordFetches
from minikafka.server.broker.fetch.sessions import FetchSessions
from minikafka.server.broker.record_formats import FormatConversion
from minikafka.server.broker.replication.fetcher_manager import ReplicaFetcherManager
from minikafka.server.broker.replication.isr import IsrConfig, IsrWrites
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.broker.replication.record_preparation import RecordPreparation
from minikafka.server.broker.replication.replica_manager import ReplicaManager, ReplicaManagerConfig
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.storage.directories.log_manager import LogManager, LogManagerConfig
from minikafka.server.storage.scrubber import LogScrubberConfig
from minikafka.world.sim.entropy import SimEntropy
from tests.support.broker.replica_fakes import Configs, Metadata, StateZnodes
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.transactions import unverified_appends
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

TOPIC = "flights"
TOPIC_ID = UUID(int=7)
TP = TopicPartition(TOPIC, 0)


def batch(*values: str, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    return build_batch([(timestamp_ms + i, None, v.encode(), []) for i, v in enumerate(values)])


def values_in(records: Any) -> list[str]:
    return [str(r.value, "ascii") for r in decode_records(records or b"") if r.value is not None]


class LoopbackChannel(Channel):
    """Requests of one broker to another, through the codec and the other one's handlers."""

    def __init__(self, cluster: ReplicaCluster, source: int, target: int) -> None:
        self._cluster, self._source, self._target = cluster, source, target
        self._closed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._parked: Receive | None = None  # of the request in flight

    def begin(self, message: Any, version: int, timeout_ms: int, receive: Receive) -> None:
        if self._closed.done():
            raise ConnectionError("closed")

        def done(response: asyncio.Task[Any]) -> None:
            self._parked = None
            error = response.exception()
            if not self._closed.done():
                receive(*((response.result(), None) if error is None else (None, error)))

        self._parked = receive
        served = self._serve(self._send(message, version), version, timeout_ms)
        asyncio.ensure_future(served).add_done_callback(done)

    async def request(self, message: Any, version: int, timeout_ms: int) -> Any:
        return await self._serve(self._send(message, version), version, timeout_ms)

    def _send(self, message: Any, version: int) -> Any:
        sent = decode(type(message), version, encode(message, version))
        self._cluster.requests.append((self._source, self._target, sent, version))
        return sent

    async def _serve(self, request: Any, version: int, timeout_ms: int) -> Any:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._travel()
        if not self._cluster.is_cut(self._source, self._target):
            serve = self._cluster.nodes[self._target].serve
            serve(request, version, lambda r: None if reply.done() else reply.set_result(r))
        timer = self._cluster.clock.call_later(
            timeout_ms, lambda: None if reply.done() else reply.set_exception(TimeoutError())
        )
        try:
            await asyncio.wait({reply, self._closed}, return_when="FIRST_COMPLETED")
            if not reply.done() or self._cluster.is_cut(self._source, self._target):
                raise ConnectionError("closed")
            response = reply.result()
            await self._travel()
            if self._closed.done():
                raise ConnectionError("closed")
        finally:
            timer.cancel()
            reply.cancel()
        return decode(type(response), version, encode(response, version))

    async def _travel(self) -> None:
        if latency_ms := self._cluster.latency_ms():
            await self._cluster.clock.sleep(latency_ms)

    def close(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
            if self._parked is not None:
                self._parked(None, ConnectionError("closed"))


@dataclass
class Node:
    """One broker's replica manager, logs and request handlers."""

    id: int
    files: InstantFiles
    logs: LogManager
    replicas: ReplicaManager
    fetches: RecordFetches
    fence: ControllerFence
    handlers: dict[ApiKey, Any]
    metrics: Metrics
    tasks: asyncio.TaskGroup
    serving: set[asyncio.Task[Any]] = field(default_factory=set)  # cancelled as by ``Apis.close``
    listener: str = "PLAINTEXT"

    async def stop(self) -> None:
        for task in self.serving:
            task.cancel()
        await self.fetches.stop()
        await self.replicas.stop()

    def context(self, api_key: ApiKey, version: int, client_id: str | None) -> RequestContext:
        return RequestContext(
            RequestHeader(api_key, version, 1, client_id), self.listener, "10.0.0.9"
        )

    def serve(self, request: Any, version: int, reply: Any, client_id: str | None = "c") -> None:
        key = request.SPEC.api_key
        rest = self.handlers[key](self.context(key, version, client_id), request, reply)
        if rest is not None:
            task = self.tasks.create_task(rest)
            self.serving.add(task)
            task.add_done_callback(self.serving.discard)

    def ask(self, request: Any, version: int, client_id: str | None = "c") -> list[Any]:
        """Handle a request. The returned list gets the response, now or when a parked request
        completes."""
        replies: list[Any] = []

        def reply(response: Any) -> None:
            if isinstance(response, KafkaError):
                raise response
            if response is not None:
                response = decode(response_class(request), version, encode(response, version))
            replies.append(response)

        decoded = decode(type(request), version, encode(request, version))
        self.serve(decoded, version, reply, client_id)
        return replies

    async def command(self, request: Any, version: int) -> Any:
        key = request.SPEC.api_key
        decoded = decode(type(request), version, encode(request, version))
        response = await self.handlers[key](self.context(key, version, "controller"), decoded)
        return decode(type(response), version, encode(response, version))

    def partition(self, topic_partition: TopicPartition = TP) -> Partition:
        return self.replicas.hosted.require(topic_partition)

    def held(self, topic_partition: TopicPartition = TP) -> list[str]:
        """Return the values in the log, committed or not."""
        log = self.partition(topic_partition).log
        read = log.read(log.log_start_offset, 1 << 30, log.log_end_offset, True)
        return values_in(read.records)

    def produce(
        self,
        *values: str,
        acks: int = -1,
        timeout_ms: int = 1_000,
        topic_partition: TopicPartition = TP,
        version: int = 9,
    ) -> list[PartitionProduceResponse]:
        """Produce to one partition. The returned list gets the partition's response."""
        records = bytearray(batch(*values))
        data = PartitionProduceData(topic_partition.partition, records)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(topic_partition.topic, partition_data=[data])],
        )
        responses: list[PartitionProduceResponse] = []
        self.serve(
            request,
            version,
            lambda r: responses.extend(r.responses[0].partition_responses[:1] if r else []),
        )
        return responses

    def fetch(
        self,
        offset: int,
        *,
        replica_id: int = -1,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        topic_partition: TopicPartition = TP,
        version: int = 12,
        isolation_level: int = 0,
        **fields: Any,
    ) -> list[PartitionData]:
        """Fetch from one partition. The returned list gets the partition's response."""
        partition = FetchPartition(
            partition=topic_partition.partition,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            **fields,
        )
        request = FetchRequest(
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic_partition.topic, partitions=[partition])],
        )
        responses: list[PartitionData] = []
        self.serve(request, version, lambda r: responses.append(r.responses[0].partitions[0]))
        return responses


class ReplicaCluster:
    """``isr``, ``fetcher``, ``session_slots``, ``selector``, ``memory``: settings of every broker.
    ``memory`` is the account that all brokers share."""

    scrubber = LogScrubberConfig()

    def __init__(
        self,
        broker_ids: Iterable[int] = (1, 2, 3),
        isr: IsrConfig | None = None,
        fetcher: ReplicaFetcherConfig | None = None,
        session_slots: int = 1_000,
        selector: str | None = None,
        memory: MemoryBudget | None = None,
        isr_writes: IsrWrites | None = None,
    ) -> None:
        self.memory = memory or MemoryBudget()
        self.isr_writes = isr_writes  # of all brokers, instead of ZooKeeper
        self.clock = VirtualClock()
        self.workers = ManualWorkers()
        self.znodes = StateZnodes()
        self.metadata = Metadata(topic_ids={TOPIC_ID: TOPIC})
        for broker_id in (1, 2, 3):
            self._announce(broker_id)  # a test may play some of them itself
        self.configs = Configs()
        self.nodes: dict[int, Node] = {}
        self.requests: list[tuple[int, int, Any, int]] = []
        self.latency_ms: Callable[[], int] = lambda: 0
        self._cut: set[int] = set()
        self._config = partial(
            ReplicaManagerConfig,
            isr=isr or IsrConfig(replica_lag_time_max_ms=10_000),
            fetcher=fetcher or ReplicaFetcherConfig(),
            replica_selector_class=selector,
        )
        self._selector = selector
        self._session_slots = session_slots
        self.tasks: asyncio.TaskGroup | None = None
        self._ids = list(broker_ids)

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    # -- life

    async def __aenter__(self) -> ReplicaCluster:
        self.tasks = asyncio.TaskGroup()
        await self.tasks.__aenter__()
        for broker_id in self._ids:
            await self.start(broker_id)
        return self

    async def __aexit__(self, *failure: Any) -> None:
        assert self.tasks is not None
        for node in list(self.nodes.values()):
            await node.stop()
        await self.tasks.__aexit__(*failure)

    async def start(self, broker_id: int, files: InstantFiles | None = None) -> Node:
        assert self.tasks is not None
        files = files or InstantFiles()
        logs = LogManager(
            files,
            self.clock,
            self.workers,
            LogManagerConfig(log_dirs=("/data", "/more"), scrubber=self.scrubber),
        )
        await logs.start()
        metrics = Metrics()
        replicas = ReplicaManager(
            self._config(broker_id),
            self.clock,
            logs,
            cast(Any, self.metadata),
            cast(Any, self.configs),
            cast(Any, lambda: self.znodes),
            cast(Any, lambda host, port: self._connect(broker_id, port)),
            lambda: 100 + broker_id,
            metrics,
            self.isr_writes,
        )
        fetches = self._make_fetches(replicas, metrics)
        sessions = FetchSessions(
            self.clock,
            SimEntropy(broker_id),
            metrics,
            replicas.hosted,
            logs.starts,
            self._session_slots,
            self.memory,
        )
        fence = ControllerFence(broker_id, lambda: 100 + broker_id)
        conversion = FormatConversion(self.workers)
        conversion.start(self.tasks)
        metadata = cast(Any, self.metadata)
        fetch = FetchHandler(replicas, fetches, metadata, sessions, conversion, FetchConfig())
        preparation = RecordPreparation(self.workers, self.clock, replicas.hosted)
        preparation.start(self.tasks)
        list_offsets = ListOffsetsHandler(replicas, self.clock, self.workers)
        handlers = {
            ApiKey.PRODUCE: ProduceHandler(
                unverified_appends(replicas, preparation),
                replicas.hosted,
                cast(Any, self.metadata),
            ),
            ApiKey.FETCH: fetch,
            ApiKey.LIST_OFFSETS: list_offsets,
            ApiKey.DELETE_RECORDS: DeleteRecordsHandler(replicas.deletion),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochHandler(replicas),
            ApiKey.LEADER_AND_ISR: LeaderAndIsrHandler(replicas, fence),
            ApiKey.STOP_REPLICA: StopReplicaHandler(replicas, fence),
        }
        node = Node(broker_id, files, logs, replicas, fetches, fence, handlers, metrics, self.tasks)
        self.nodes[broker_id] = node
        self._announce(broker_id)
        fetches.start(self.tasks)
        await replicas.start(self.tasks)
        return node

    def _make_fetches(self, replicas: ReplicaManager, metrics: Metrics) -> RecordFetches:
        preferred = PreferredReplicas(cast(Any, self.metadata), self._selector)
        throttle = replicas.throttles.leader
        hosted, disk_failed = replicas.hosted, replicas.disk_failed
        return RecordFetches(
            self.clock,
            hosted,
            replicas.purgatories,
            FetchReader(hosted, preferred, disk_failed, throttle, self.memory),
            metrics,
            self.memory,
            replicas.topic_metrics,
        )

    def _announce(self, broker_id: int) -> None:
        self.metadata.alive[broker_id] = Broker(
            broker_id, (Endpoint(f"host{broker_id}", broker_id),), rack=f"r{broker_id}"
        )

    async def _connect(self, source: int, target: int) -> LoopbackChannel:
        if self.is_cut(source, target) or target not in self.nodes:
            raise ConnectionError("connection refused")
        return LoopbackChannel(self, source, target)

    def freeze(self, *broker_ids: int) -> None:
        """Cut brokers off from the others. Requests in flight get no response."""
        self._cut |= set(broker_ids)

    def thaw(self, *broker_ids: int) -> None:
        self._cut -= set(broker_ids)

    def is_cut(self, source: int, target: int) -> bool:
        return source in self._cut or target in self._cut

    async def stop(self, broker_id: int) -> InstantFiles:
        """Stop a broker in order and return its files."""
        node = self.nodes.pop(broker_id)
        self.metadata.alive.pop(broker_id)
        await node.stop()
        await node.logs.shutdown()
        return node.files

    # -- the controller

    async def elect(
        self,
        leader: int,
        isr: Sequence[int] = (1, 2, 3),
        *,
        epoch: int = 0,
        replicas: Sequence[int] = (1, 2, 3),
        partitions: Sequence[int] = (0,),
        topic: str = TOPIC,
        topic_id: UUID = TOPIC_ID,
        tell: Sequence[int] | None = None,
        version: int = 7,
    ) -> dict[int, LeaderAndIsrResponse]:
        """Write the partition states and send LeaderAndIsr to the replicas (or those in ``tell``),
        without an await in between. Return the responses by broker id."""
        states = []
        for index in partitions:
            topic_partition = TopicPartition(topic, index)
            known = self.znodes.states.get(topic_partition)
            state = LeaderAndIsr(
                leader, epoch, tuple(isr), 0 if known is None else known.zk_version + 1
            )
            self.znodes.states[topic_partition] = state
            self.metadata.leaders[topic_partition] = (leader, epoch)
            states.append(
                LeaderAndIsrPartitionState(
                    topic_name=topic if version < 2 else "",
                    partition_index=index,
                    controller_epoch=1,
                    leader=leader,
                    leader_epoch=epoch,
                    isr=list(isr),
                    partition_epoch=state.zk_version,
                    replicas=list(replicas),
                )
            )
        request = LeaderAndIsrRequest(
            controller_id=9,
            controller_epoch=1,
            live_leaders=[LeaderAndIsrLiveLeader(leader, f"host{leader}", leader)],
        )
        if version < 2:
            request.ungrouped_partition_states = states
        else:
            request.topic_states = [LeaderAndIsrTopicState(topic, topic_id, states)]
        return {
            broker_id: await self.nodes[broker_id].command(request, version)
            for broker_id in (replicas if tell is None else tell)
            if broker_id in self.nodes
        }


def error_of(responses: Sequence[Any]) -> ErrorCode:
    """Return the error code of a request that has got its one response."""
    assert len(responses) == 1, f"{len(responses)} responses"
    return ErrorCode(responses[0].error_code)


def fetch_state(
    fetchers: ReplicaFetcherManager, leader: int, partition: TopicPartition = TP
) -> PartitionFetchState | None:
    """Return the fetcher's state of a partition; None if it does not fetch it."""
    fetcher = fetchers.fetcher(leader)
    assert fetcher is not None
    return fetcher.state_of(partition)


def failures(fetchers: ReplicaFetcherManager, leader: int, partition: TopicPartition = TP) -> int:
    """Return the number of failures in a row when fetching the partition."""
    state = fetch_state(fetchers, leader, partition)
    assert state is not None
    return state.failures
