"""Blocking calls to the brokers of a cluster and to its coordinators, with metadata and retries,
for Spark's processes."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar
from uuid import UUID

from minikafka.core.client.calls import (
    Call,
    CoordinatorCall,
    CoordinatorKey,
    find_coordinator,
    raise_gravest,
)
from minikafka.core.client.cluster_view import (
    ClusterView,
    TopicView,
    check_metadata,
    group_by_leader,
    metadata_request,
    newer,
    topic_view,
)
from minikafka.core.client.consumer import list_offsets_call
from minikafka.core.client.errors import (
    LOGIN_REFUSED,
    LOST_COORDINATOR,
    STALE_METADATA,
    Retries,
    RetryBackoff,
)
from minikafka.kernel.cluster import INTERNAL_TOPICS, NO_LEADER, ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.spark.client_options import ClientOptions
from minikafka.spark.connection import BlockingConnection
from minikafka.spark.failure_text import READ, SEEN, WRITE, missing_acl
from minikafka.spark.options import TopicSelection
from minikafka.spark.read.offsets import Offsets, TopicIds, names
from minikafka.world.real.wall_clock import WallClock

R = TypeVar("R")

_ATTEMPTS_FOR_NEW_TOPICS: Final = 3
_MOST_KEPT: Final = 4  # clusters that one process reads from in turns
_NO_IDS: Final[Mapping[str, UUID]] = {}
_METADATA_VERSION: Final = 11  # at most; from version 12 on topics may lack names


class Cluster:
    """A client of one cluster for one thread: its connections and its metadata.

    It connects at the first call. Call ``close`` at the end, or use it as a context manager.
    ``topics`` has the metadata of the topics that were described without an error. Callers
    remove those that are stale."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.topics: dict[str, TopicView] = {}
        self._clock = WallClock()
        self._latest: dict[str, TopicView] = {}  # as last described
        self._backoff = RetryBackoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], BlockingConnection] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def now_ms(self) -> int:
        """Return the wall clock time in ms."""
        return self._clock.wall_ms()

    # ---- calls

    def retrying(
        self,
        attempt: Callable[[], R],
        what: str,
        timeout_ms: int | None = None,
        final: Container[ErrorCode] = (),
    ) -> R:
        """Call ``attempt`` until it succeeds, and return its result.

        It is called again after a retriable error that is not in ``final``, until ``timeout_ms``
        have passed, by default as long as ``_patience_ms`` says. Errors that mean stale metadata
        clear the metadata. Raises the last KafkaError, with ``what`` and the bootstrap servers in
        its message."""
        begun_ms = self._clock.monotonic_ms()
        retries = Retries(self._backoff)
        while True:
            try:
                return attempt()
            except KafkaError as error:
                limit_ms = self._patience_ms(error) if timeout_ms is None else timeout_ms
                delay_ms = retries.next_delay_ms(
                    error,
                    self._clock.monotonic_ms(),
                    begun_ms + limit_ms,
                    random.random(),
                )
                if delay_ms is None or error.code in final:
                    servers = ",".join(f"{h}:{p}" for h, p in self.options.bootstrap_servers)
                    raise KafkaError(
                        error.code,
                        f"{what}: {error.message or error.code.name} (servers: {servers})",
                    ) from error
                self.note_error(error.code)
            pause(delay_ms)

    def note_error(self, code: ErrorCode) -> None:
        """Forget the metadata if an error code says that they are stale."""
        if code in STALE_METADATA:
            self.topics.clear()

    def backoff_ms(self, code: ErrorCode, failures: int) -> int:
        """Return how many ms to wait after an error before the next attempt, with ``failures``
        failed ones before."""
        return self._backoff.delay_ms(code, failures, random.random())

    def _patience_ms(self, error: KafkaError) -> int:
        """Return for how many ms an operation is retried after ``error``.

        Usually ``default.api.timeout.ms``, so that a call outlasts the death of a broker: a request
        times out, and a new leader is elected. At most 10 s while no broker has responded, and for
        a topic that the brokers do not know."""
        options = self.options
        if self._addresses and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return options.api_timeout_ms
        return min(options.first_contact_timeout_ms, options.api_timeout_ms)

    def learn_address(self, broker_id: int, host: str, port: int) -> None:
        """Store a broker's address from a response other than Metadata."""
        self._addresses[broker_id] = (host, port)

    def call(self, broker_id: int, call: Call[R]) -> R:
        """Send the request of ``call`` to one broker, without retries, and return the result.

        Raises KafkaError."""
        connection = self._open(self._address(broker_id))
        return call.read(connection.request(call.request, call.highest_version))

    def connection_to(self, broker_id: int) -> BlockingConnection:
        """Return the connection to a broker that ``call`` uses, too; open it if it is not open.

        A caller that leaves requests in flight closes it. Raises KafkaError."""
        return self._open(self._address(broker_id))

    def new_connection(self, broker_id: int) -> BlockingConnection:
        """Open another connection, for a caller that has requests in flight. The caller closes it.
        Raises KafkaError."""
        connection = BlockingConnection(*self._address(broker_id), self.options)
        connection.open()
        return connection

    def call_any(self, call: Call[R]) -> R:
        """Send the request of ``call`` to one broker after the other until one succeeds.

        Brokers with an open connection are tried first, those with a lost connection last, because
        connecting to a dead host takes a time-out. Raises the last KafkaError, or at once that of a
        refused login, which the other brokers would refuse, too."""
        failure = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no bootstrap servers")
        known = [*self._connections, *self._addresses.values(), *self.options.bootstrap_servers]
        for address in sorted(dict.fromkeys(known), key=self._distance):
            try:
                connection = self._open(address)
                return call.read(connection.request(call.request, call.highest_version))
            except KafkaError as error:
                if error.code in LOGIN_REFUSED:
                    raise
                failure = error
        raise failure

    def _address(self, broker_id: int) -> tuple[str, int]:
        """Return the host and port of a broker. Raises KafkaError if they are unknown."""
        address = self._addresses.get(broker_id)
        if address is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no address known of broker {broker_id}")
        return address

    def _distance(self, address: tuple[str, int]) -> int:
        connection = self._connections.get(address)
        if connection is None:
            return 1
        return 0 if connection.is_open else 2

    def _open(self, address: tuple[str, int]) -> BlockingConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = BlockingConnection(*address, self.options)
        if not connection.is_open:
            connection.close()
            connection.open()
        return connection

    # ---- topics

    def describe(self, topics: Iterable[str] | None) -> dict[str, ErrorCode]:
        """Refresh the metadata of ``topics``, or of all topics if it is None.

        Returns the error code of each topic that has one. Partitions whose leader epoch is older
        than the known one stay as they were (KIP-320). Raises KafkaError as ``check_metadata``."""

        def read(response: MetadataResponse) -> MetadataResponse:
            check_metadata(response)
            return response

        response = self.call_any(Call(metadata_request(topics), read, _METADATA_VERSION))
        self._addresses = {b.node_id: (b.host, b.port) for b in response.brokers}
        errors: dict[str, ErrorCode] = {}
        for topic in map(topic_view, response.topics):
            if topic.error is ErrorCode.NONE:
                topic = newer(self._latest.get(topic.name), topic)
                self.topics[topic.name] = self._latest[topic.name] = topic
            else:
                errors[topic.name] = topic.error
                self.topics.pop(topic.name, None)
                self._latest.pop(topic.name, None)
        return errors

    def describe_everywhere(self, topics: Iterable[str] | None) -> None:
        """Add the partitions of ``topics`` that any broker knows to the metadata.

        A broker that has just started may not know all partitions yet."""
        for topic in self._views_everywhere(topics):
            known = self.topics.get(topic.name, topic)
            if known.topic_id == topic.topic_id:
                partitions = {**topic.partitions, **known.partitions}
                self.topics[topic.name] = replace(known, partitions=partitions)

    def _views_everywhere(self, topics: Iterable[str] | None) -> Iterator[TopicView]:
        """Yield ``topics`` as each broker knows them. Brokers that cannot be reached are skipped,
        as are topics with an error."""
        request = metadata_request(topics)
        for address in self._addresses.values():
            with suppress(KafkaError):
                response = self._open(address).request(request, _METADATA_VERSION)
                yield from (
                    topic
                    for topic in map(topic_view, response.topics)
                    if topic.error is ErrorCode.NONE
                )

    def topic_ids(self, topics: Iterable[str]) -> TopicIds:
        """Return the ids of those ``topics`` that are in the metadata with an id."""
        found = {name: self.topics[name].topic_id for name in topics if name in self.topics}
        return {name: each for name, each in found.items() if each != ZERO_UUID}

    def check_topic_ids(self, known: Mapping[str, UUID]) -> None:
        """Raise KafkaError INCONSISTENT_TOPIC_ID if brokers disagree: the metadata have another id
        of a topic than the ``known`` one, and some broker still responds with the known one.

        One of the two has stale metadata, and ids do not show which is newer. So a topic counts as
        created again only when no broker that can be reached has the known id."""
        current = self.topic_ids(known)
        other = {name for name, each in current.items() if each != known[name]}
        if not other:
            return
        for topic in self._views_everywhere(sorted(other)):
            if topic.topic_id == known[topic.name]:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"topic {topic.name}: brokers give different topic ids",
                )

    def partitions(self, subscription: TopicSelection) -> list[TopicPartition]:
        """Return the partitions to read. Raises KafkaError.

        It is UNKNOWN_TOPIC_OR_PARTITION if a named topic or partition does not exist, after a few
        attempts, because a new topic is not known to all brokers at once."""
        topics = _topics_of(subscription)
        errors = self.retrying(lambda: self.describe(topics), "topics")
        for _ in range(_ATTEMPTS_FOR_NEW_TOPICS):
            if not errors:
                break
            pause(self.options.retry_backoff_ms)  # not every broker knows a new topic at once
            errors = self.retrying(lambda: self.describe(topics), "topics")
        for name, code in errors.items():
            raise KafkaError(code, f"topic {name}: {_reason(code)}")
        found = self._known(subscription)
        if absent := set(subscription.partitions) - set(found):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{names(absent)} does not exist"
            )
        return found

    def partitions_there(
        self,
        subscription: TopicSelection,
        expected: Iterable[TopicPartition] = (),
        known_ids: Mapping[str, UUID] = _NO_IDS,
    ) -> list[TopicPartition]:
        """Return the partitions to read, without those that do not exist. Raises KafkaError.

        A partition in ``expected`` is left out only if no broker knows it. If it were left out by
        mistake and found again later, the stream would read it as a new one, from its start. For
        the same reason brokers must agree about the ids of topics (``check_topic_ids``)."""
        topics = _topics_of(subscription)

        def attempt() -> None:
            for name, code in self.describe(topics).items():
                if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise KafkaError(code, f"topic {name}: {_reason(code)}")
            self.check_topic_ids(known_ids)

        self.retrying(attempt, "topics")
        found = self._known(subscription)
        if set(expected) <= set(found):
            return found
        self.describe_everywhere(topics)
        return self._known(subscription)

    def _known(self, subscription: TopicSelection) -> list[TopicPartition]:
        """Return the partitions to read that are in the metadata.

        A pattern does not match internal topics, as in the official connector."""
        topics: Iterable[str] = subscription.topics
        if subscription.pattern:
            pattern = re.compile(subscription.pattern)
            topics = [t for t in self.topics if pattern.fullmatch(t) and t not in INTERNAL_TOPICS]
        elif subscription.partitions:
            there = set(_partitions_of({t for t, _ in subscription.partitions}, self.topics))
            return [each for each in subscription.partitions if each in there]
        return _partitions_of(topics, self.topics)

    def leader(self, partition: TopicPartition, topic_id: UUID = ZERO_UUID) -> int:
        """Return the broker id of a partition's leader, from the metadata if they have the topic.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE; UNKNOWN_TOPIC_ID if the
        topic has another id than ``topic_id``, unless that is zero."""
        topic = partition.topic
        wanted = {} if topic_id == ZERO_UUID else {topic: topic_id}

        def is_other() -> bool:
            return any(each != topic_id for each in self.topic_ids(wanted).values())

        known = self.topics.get(topic)
        if known is None or partition.partition not in known.partitions or is_other():
            code = self.describe([topic]).get(topic)
            if code is not None:
                raise KafkaError(code, f"topic {topic}: {_reason(code)}")
            self.check_topic_ids(wanted)
            if is_other():
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {topic} was created again")
        view = self.topics[partition.topic].partitions.get(partition.partition)
        if view is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist")
        if view.leader == NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return view.leader

    # ---- offsets

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], missing_is_final: bool = False
    ) -> Offsets:
        """Return the offset of the first record at or after each timestamp (ms), -1 for none.

        As in ListOffsets, the timestamp -1 stands for the latest offset, -2 for the earliest. With
        ``read_committed`` the latest offset is the last stable one. Raises KafkaError. A missing
        partition is UNKNOWN_TOPIC_OR_PARTITION after retries, or immediately with
        ``missing_is_final``."""
        found: Offsets = {}

        def attempt() -> Offsets:
            missing = {each: at for each, at in timestamps.items() if each not in found}
            if any(each.topic not in self.topics for each in missing):
                self.describe({each.topic for each in missing})
            groups = group_by_leader(missing, {each: self.leader(each) for each in missing})
            view = ClusterView(topics=self.topics)
            for leader, times in groups.by_leader.items():
                call = list_offsets_call.list_offsets(times, view, int(self.options.read_committed))
                listed = self.call(leader, call)
                found.update((each, at.offset) for each, at in listed.found.items())
                raise_gravest(listed.errors)
            return found

        final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,) if missing_is_final else ()
        return self.retrying(attempt, f"offsets of {names(timestamps)}", final=final)


@lru_cache(maxsize=_MOST_KEPT)
def kept_cluster(options: ClientOptions) -> Cluster:
    """Return the client that the tasks of this process share, as Spark's Python workers run many
    tasks, one at a time.

    Its connections and its metadata are there from earlier tasks. They may be out of date:
    the broker may have closed the connection, or may not lead the partition any more."""
    return Cluster(options)


def pause(milliseconds: int) -> None:
    threading.Event().wait(milliseconds / 1000)


def _reason(code: ErrorCode) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "does not exist"
    return code.name + missing_acl(code, SEEN)


def _topics_of(subscription: TopicSelection) -> list[str] | None:
    """Return the topics to describe, None for all."""
    if subscription.pattern:
        return None
    return sorted({*subscription.topics, *(topic for topic, _ in subscription.partitions)})


def _partitions_of(topics: Iterable[str], views: Mapping[str, TopicView]) -> list[TopicPartition]:
    """Return the partitions of those topics that ``views`` has."""
    return sorted(
        TopicPartition(name, number)
        for name in topics
        if name in views
        for number in views[name].partitions
    )


class BlockingCoordinators:
    """Calls to coordinators, which are looked up at the first call and again after a failover."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: dict[CoordinatorKey, int] = {}

    def call(self, call: CoordinatorCall[R]) -> R:
        """Send the request of ``call`` to its coordinator and return the result.

        Retriable errors are retried for ``delivery.timeout.ms``. Raises KafkaError."""

        def attempt() -> R:
            try:
                return self._cluster.call(self._find(call.coordinator), call)
            except KafkaError as error:
                if error.code in LOST_COORDINATOR:
                    self._found.pop(call.coordinator, None)
                writes = isinstance(call.request, AddPartitionsToTxnRequest)
                lacking = missing_acl(error.code, WRITE if writes else READ)
                if not lacking:
                    raise
                raise KafkaError(error.code, f"{error.message}{lacking}") from error

        timeout_ms = self._cluster.options.delivery_timeout_ms
        return self._cluster.retrying(attempt, call.name, timeout_ms)

    def _find(self, key: CoordinatorKey) -> int:
        if key not in self._found:
            node = self._cluster.call_any(find_coordinator(key))
            self._cluster.learn_address(node.id, node.host, node.port)
            self._found[key] = node.id
        return self._found[key]
