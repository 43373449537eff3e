"""The clients that a reader of a playback starts: producers, consumers, transactions."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

from minikafka.client import (
    AcknowledgeType,
    Consumer,
    ConsumerConfig,
    ConsumerRecord,
    Producer,
    ProducerConfig,
    RebalanceListener,
    ShareConsumer,
    ShareConsumerConfig,
    ShareRecord,
)
from minikafka.client.connections import Connections
from minikafka.client.producer.sender import RecordMetadata
from minikafka.client.session import ClusterSession, Coordinators
from minikafka.core.client.assignors.range import RANGE
from minikafka.core.client.consumer.group_calls import offset_commit
from minikafka.core.client.errors import FATAL_TO_PRODUCER
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.core.client.producer.calls import ProduceCall, produce
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.disk_errors import with_errno_names
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.builder import build_batch
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name

# Called with the place of a record that the cluster has acknowledged, when the client learns of it.
Acknowledged: TypeAlias = Callable[[TopicPartition, int], None]

POLL_MS = 200
MAX_SHOWN_VALUES = 40
FETCH_GRACE_MS = 50  # for the way of the response
ACKS: Mapping[str, int] = {"all": -1, "1": 1, "0": 0}
ANY_PARTITION = -1
OWN_EPOCH = -1
SESSION_MS = 10_000
DEFAULT_ASSIGNOR = "default"
BOOTSTRAP_SERVER = -1  # the node id of the first one
BY_HAND = "by_hand"
ACKNOWLEDGEMENTS: Mapping[str, AcknowledgeType] = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}


def reason(error: BaseException | None) -> str:
    """Return the text of an error, or of the first one in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return "" if error is None else with_errno_names(str(error) or type(error).__name__)


def _value(given: Mapping[str, Any], number: int) -> bytes:
    return f"{given['value']}{number}".encode()


def _note_sent(
    cluster: SimCluster, name: str, outcomes: Sequence[object], **facts: object
) -> BaseException | None:
    """Add an event with the number of records that were acknowledged; return the first error."""
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    error = {"error": reason(failed[0])} if failed else {}
    cluster.note(name, **facts, records=len(outcomes) - len(failed), **error)
    return failed[0] if failed else None


async def send(cluster: SimCluster, given: Mapping[str, Any], acknowledged: Acknowledged) -> None:
    """Send numbered records to the leaders that the brokers name, and note how many were
    acknowledged. ``acknowledged`` is called with each that is."""

    def settle(promise: asyncio.Future[RecordMetadata]) -> None:
        if not promise.cancelled() and promise.exception() is None:
            topic, number, offset, _ = promise.result()
            if offset >= 0:
                acknowledged(TopicPartition(topic, number), offset)

    world, key = cluster.client_host.world, given["key"].encode() or None
    config = ProducerConfig(
        acks=ACKS[given["acks"]],
        linger_ms=given["linger_ms"],
        partitioner=cast(Literal["sticky", "round_robin"], given["partitioner"]),
    )
    partition = None if given["partition"] == ANY_PARTITION else given["partition"]
    promises = []
    async with Producer(world, cluster.client_config, config) as producer:
        for number in range(given["records"]):
            value = _value(given, number)
            promise = await producer.send(given["topic"], value, key, partition=partition)
            promise.add_done_callback(settle)
            promises.append(promise)
            if given["every_ms"]:
                await world.clock.sleep(given["every_ms"])
        await producer.flush()
        outcomes = await asyncio.gather(*promises, return_exceptions=True)
        _note_sent(cluster, "produced", outcomes, topic=given["topic"])


async def send_to_broker(
    cluster: SimCluster, given: Mapping[str, Any], acknowledged: Acknowledged
) -> None:
    """Send numbered records to one broker, without metadata and retries: as a
    client does whose metadata are old. ``acknowledged`` is called with each that is."""
    world, broker = cluster.client_host.world, given["to"]
    config = replace(cluster.client_config, bootstrap_servers=f"{host_name(broker)}:{PORT}")
    connections = Connections(world, config)
    partition = TopicPartition(given["topic"], max(0, given["partition"]))
    acks, key = ACKS[given["acks"]], given["key"].encode() or None
    outcomes: list[object] = []
    try:
        for number in range(given["records"]):
            record = (world.clock.wall_ms(), key, _value(given, number), ())
            batch = build_batch([record])
            call = produce([(partition, batch)], acks, config.request_timeout_ms)
            outcome = await _outcome(connections, call, acks, partition)
            outcomes.append(outcome)
            if isinstance(outcome, int):
                acknowledged(partition, outcome)
            if given["every_ms"]:
                await world.clock.sleep(given["every_ms"])
    finally:
        connections.close()
    _note_sent(cluster, "produced", outcomes, topic=given["topic"], to=broker)


async def _outcome(
    connections: Connections, call: ProduceCall, acks: int, partition: TopicPartition
) -> KafkaError | int | None:
    """Send one record; return its offset, None without a response, or the error."""
    try:
        if not acks:
            await connections.send(BOOTSTRAP_SERVER, call.request, call.highest_version)
            return None
        response = await connections.request(
            BOOTSTRAP_SERVER, call.request, highest_version=call.highest_version
        )
        row = call.read(response)[partition]
    except KafkaError as error:
        return error
    code = ErrorCode(row.error_code)
    return row.base_offset if code is ErrorCode.NONE else KafkaError(code, str(partition))


async def read(cluster: SimCluster, given: Mapping[str, Any]) -> None:
    """Read a topic from its beginning to its present end, and note what was there."""
    config = ConsumerConfig(
        auto_offset_reset="earliest", isolation_level=_isolation(given["isolation"])
    )
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        await consumer.assign_topics(given["topic"])
        records = [record async for record in consumer.read_to()]
    _note_read(cluster, given, records)


async def fetch(cluster: SimCluster, given: Mapping[str, Any]) -> None:
    """Fetch from one partition until there are enough bytes, or the wait is over, and note what
    was there."""
    config = ConsumerConfig(
        auto_offset_reset="earliest",
        isolation_level=_isolation(given["isolation"]),
        fetch_min_bytes=given["min_bytes"],
        fetch_max_wait_ms=given["max_wait_ms"],
    )
    partition = TopicPartition(given["topic"], given["partition"])
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, given["offset"])
        records = await consumer.poll(given["max_wait_ms"] + FETCH_GRACE_MS)
    _note_read(cluster, given, records)


async def commit(
    cluster: SimCluster, member: GroupMetadata, partition: TopicPartition, offset: int
) -> None:
    """Commit an offset once, and note that it was accepted. Raises KafkaError."""
    config = ConsumerConfig()
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        call = offset_commit(member, {partition: OffsetAndMetadata(offset)})
        session = consumer.session
        error = (await Coordinators(session).call(call, session.deadline_ms()))[partition]
    if error is not None:
        raise error
    facts = {"partition": str(partition), "offset": offset, "epoch": member.generation}
    cluster.note("offset_committed", group=member.group_id, **facts)


def _isolation(name: str) -> Literal["read_uncommitted", "read_committed"]:
    return cast(Literal["read_uncommitted", "read_committed"], name)


def _note_read(
    cluster: SimCluster, given: Mapping[str, Any], records: Sequence[ConsumerRecord]
) -> None:
    values = [(record.value or b"").decode(errors="replace") for record in records]
    shown = " ".join(values[:MAX_SHOWN_VALUES])
    more = " ..." if len(values) > MAX_SHOWN_VALUES else ""
    facts = {name: given[name] for name in ("topic", "isolation")}
    cluster.note("read", **facts, records=len(values), values=shown + more)


class PlayedProducer:
    """A producer with a transactional id, started by ``live``. It lives until it ``has_failed``,
    vanishes or the simulation ends. The others are called one after the other, and raise
    KafkaError."""

    def __init__(
        self, cluster: SimCluster, transactional_id: str, instance: int, timeout_ms: int
    ) -> None:
        self.in_transaction = False
        self.has_failed = False
        self._cluster = cluster
        self._name = {"transactional_id": transactional_id, "instance": instance}
        config = ProducerConfig(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer = Producer(cluster.client_host.world, cluster.client_config, config)
        self._turn = asyncio.Lock()
        self._initialized = False
        self._end = asyncio.Event()
        self._living: asyncio.Task[None] | None = None

    async def live(self) -> None:
        """Start the producer, in a task for itself, and return when that has begun."""
        started = asyncio.Event()
        self._living = self._cluster.client_host.spawn(self._run(started))
        await started.wait()

    async def _run(self, started: asyncio.Event) -> None:
        async with self._producer:
            started.set()
            await self._end.wait()

    async def begin(self) -> None:
        """Begin a transaction. The first time, get the producer id, which fences other instances
        that have the transactional id."""
        async with self._working():
            if not self._initialized:
                await self._producer.init_transactions()
                self._initialized = True
            self._producer.begin_transaction()
            self.in_transaction = True
            self._cluster.note("transaction_begun", **self._name)

    async def send(self, given: Mapping[str, Any]) -> None:
        """Send numbered records, and note how many were acknowledged."""
        async with self._working():
            promises = [
                await self._producer.send(given["topic"], _value(given, number))
                for number in range(given["records"])
            ]
            outcomes = await asyncio.gather(*promises, return_exceptions=True)
            facts = self._name | {"topic": given["topic"]}
            error = _note_sent(self._cluster, "sent_in_transaction", outcomes, **facts)
            if error is not None:
                raise error

    async def commit(self) -> None:
        async with self._working():
            await self._producer.commit_transaction()
            self.in_transaction = False
            self._cluster.note("transaction_committed", **self._name)

    async def abort(self) -> None:
        async with self._working():
            await self._producer.abort_transaction()
            self.in_transaction = False
            self._cluster.note("transaction_aborted", **self._name)

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """Wait for earlier work. A producer that was fenced, or got no producer id, ends."""
        async with self._turn:
            try:
                yield
            except KafkaError as error:
                self.has_failed = error.code in FATAL_TO_PRODUCER or not self._initialized
                if self.has_failed:
                    self.in_transaction = False
                    self._end.set()
                raise

    def vanish(self) -> None:
        """End as if killed: only its time-out, or a new instance, ends an open transaction."""
        assert self._living is not None
        self.has_failed, self.in_transaction = True, False
        self._producer.session.connections.close()
        self._living.cancel()


def group_config(given: Mapping[str, Any]) -> ConsumerConfig:
    """Return the configuration of a member. Raises ValueError for an assignor that clients do not
    have, or a session time-out with the consumer protocol, where brokers set it."""
    group_id, session_ms = given["group"], given["session_ms"]
    assignor = None if given["assignor"] == DEFAULT_ASSIGNOR else given["assignor"]
    if given["protocol"] == "classic":
        return ConsumerConfig(
            group_id=group_id,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(assignor or RANGE.name,),
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 3,
        )
    if session_ms != SESSION_MS:
        raise ValueError("group.consumer.session.timeout.ms of the brokers sets the time-out")
    return ConsumerConfig(
        group_id=group_id,
        auto_offset_reset="earliest",
        group_protocol="consumer",
        group_remote_assignor=assignor,
    )


class _Listener(RebalanceListener):
    """Adds an event for the partitions that a member gets or gives up.

    ``revoke_ms`` is how long the application works before it gives partitions up.
    """

    def __init__(self, cluster: SimCluster, group: str, member: str, revoke_ms: int) -> None:
        self._cluster = cluster
        self._member = {"group": group, "member": member}
        self._revoke_ms = revoke_ms

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._note("partitions_assigned", partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if self._revoke_ms:
            await self._cluster.client_host.world.clock.sleep(self._revoke_ms)
        self._note("partitions_revoked", partitions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._note("partitions_lost", partitions)

    def _note(self, name: str, partitions: list[TopicPartition]) -> None:
        self._cluster.note(name, **self._member, partitions=[str(each) for each in partitions])


class _PlayedReader(ABC):
    """A member of a group, started by ``read``, that reads until it is stopped or vanishes."""

    def __init__(self, cluster: SimCluster, given: Mapping[str, Any]) -> None:
        self.has_ended = False
        self._stopping = False
        self._cluster = cluster
        self._facts = {"group": given["group"], "member": given["member"]}
        self._config = replace(cluster.client_config, client_id=given["member"])
        self._reading: asyncio.Task[None] | None = None

    async def read(self) -> None:
        self._reading = asyncio.ensure_future(self._poll())
        self._reading.add_done_callback(_retrieve)  # also when this task is cancelled meanwhile
        try:
            await asyncio.wait([self._reading])
        finally:
            self._end()
        if not self._reading.cancelled():
            self._reading.result()

    def stop(self) -> None:
        """End in order, soon."""
        self._stopping = True

    def vanish(self) -> None:
        """End as if killed: the group gets no request to leave."""
        assert self._reading is not None
        self._end()
        self._session.connections.close()
        self._reading.cancel()

    def _end(self) -> None:
        self.has_ended = True

    @property
    @abstractmethod
    def _session(self) -> ClusterSession: ...

    @abstractmethod
    async def _poll(self) -> None:
        """Read until it is to stop."""


class PlayedMember(_PlayedReader):
    """A consumer of a group. Raises ValueError as ``group_config``."""

    def __init__(self, cluster: SimCluster, given: Mapping[str, Any]) -> None:
        super().__init__(cluster, given)
        # A classic member id begins with the client id.
        self._consumer = Consumer(cluster.client_host.world, self._config, group_config(given))
        self._topics = [topic for topic in (given["topic"], given["second_topic"]) if topic]
        self._listener = _Listener(cluster, **self._facts, revoke_ms=given["revoke_ms"])
        self._membership = self._consumer.group_metadata

    @property
    def membership(self) -> GroupMetadata:
        """The member as it knows itself; of one that has ended, as it did at last."""
        return self._membership if self.has_ended else self._consumer.group_metadata

    @property
    def _session(self) -> ClusterSession:
        return self._consumer.session

    def _end(self) -> None:
        if not self.has_ended:
            self._membership = self._consumer.group_metadata
        super()._end()

    async def _poll(self) -> None:
        self._consumer.subscribe(self._topics, listener=self._listener)
        async with self._consumer as consumer:
            while not self._stopping:
                records = await consumer.poll(POLL_MS)
                if records:
                    self._cluster.note("consumed", **self._facts, records=len(records))


class PlayedShareMember(_PlayedReader):
    """A member of a share group. It acknowledges the records of each poll alike: after ``work_ms``,
    or when ``acknowledge`` is called."""

    def __init__(self, cluster: SimCluster, given: Mapping[str, Any]) -> None:
        super().__init__(cluster, given)
        own = ShareConsumerConfig(
            group_id=given["group"],
            share_acknowledgement_mode="explicit",
            share_acquire_mode="record_limit",
            max_poll_records=given["max_records"],
        )
        self._consumer = ShareConsumer(cluster.client_host.world, self._config, own)
        self._topic = given["topic"]
        self._usual: str = given["acknowledgement"]
        self._work_ms: int = given["work_ms"]
        self._decision: asyncio.Future[str | None] | None = None

    @property
    def holds_records(self) -> bool:
        """Whether it waits for ``acknowledge``."""
        return self._decision is not None and not self._decision.done()

    def acknowledge(self, acknowledgement: str) -> None:
        """Acknowledge the records that it holds."""
        assert self._decision is not None
        self._decision.set_result(acknowledgement)

    def stop(self) -> None:
        super().stop()
        if self._decision is not None and not self._decision.done():
            self._decision.set_result(None)

    @property
    def _session(self) -> ClusterSession:
        return self._consumer.session

    async def _poll(self) -> None:
        self._consumer.subscribe([self._topic])
        async with self._consumer as consumer:
            while not self._stopping:
                records = await consumer.poll(POLL_MS)
                if records:
                    self._note("acquired", records, deliveries=[r.delivery_count for r in records])
                    acknowledgement = await self._decide()
                    if acknowledgement is not None:
                        await self._acknowledge(records, acknowledgement)

    async def _decide(self) -> str | None:
        """Return how to acknowledge; None to release the records by leaving."""
        if self._usual != BY_HAND:
            await self._cluster.client_host.world.clock.sleep(self._work_ms)
            return self._usual
        self._decision = asyncio.get_running_loop().create_future()
        return await self._decision

    async def _acknowledge(self, records: Sequence[ShareRecord], acknowledgement: str) -> None:
        for record in records:
            self._consumer.acknowledge(record, ACKNOWLEDGEMENTS[acknowledgement])
        outcomes = await self._consumer.commit()
        errors = [error for error in outcomes.values() if error is not None]
        facts = {"error": reason(errors[0])} if errors else {}
        self._note("acknowledged", records, acknowledgement=acknowledgement, **facts)

    def _note(self, name: str, records: Sequence[ShareRecord], **facts: object) -> None:
        offsets = [record.offset for record in records]
        self._cluster.note(name, **self._facts, offsets=offsets, **facts)


def _retrieve(ended: asyncio.Task[None]) -> None:
    if not ended.cancelled():
        ended.exception()
