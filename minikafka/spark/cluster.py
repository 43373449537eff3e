"""A cluster as a Spark process sees it: who leads what, where logs begin and end."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from minikafka.core.client.errors import STALE_METADATA
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, INTERNAL_TOPICS, ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.schema import Message
from minikafka.spark.client_options import ClientOptions
from minikafka.spark.connection import Connection
from minikafka.spark.options import Subscription
from minikafka.spark.read.offsets import Offsets, names
from minikafka.world.real.wall_clock import WallClock

T = TypeVar("T")

ASK_AGAIN: Final = STALE_METADATA | {
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}


_ATTEMPTS_FOR_NEW_TOPICS: Final = 3
_BUSY_MS: Final = 10
_METADATA: Final = 11  # the version that is asked for at most


class TopicView(NamedTuple):
    """``leaders``: the broker of each partition, -1 for none. The id is zero from old brokers."""

    topic_id: UUID
    leaders: dict[int, int]


class Cluster:
    """One process, one thread: requests to the right broker, asked again after a failover.

    Nothing is sent before the first call. ``close`` when done (or use as a context manager)."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.topics: dict[str, TopicView] = {}
        self._clock = WallClock()
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def now_ms(self) -> int:
        """The time of day."""
        return self._clock.wall_ms()

    # ---- asking

    def retrying(
        self,
        ask: Callable[[], T],
        what: str,
        timeout_ms: int | None = None,
        final: Container[ErrorCode] = (),
    ) -> T:
        """What ``ask`` returns; called again while it fails in a way that passes and is not
        ``final``. Raises its last KafkaError, with ``what`` and the bootstrap servers in its text.
        """
        begun_ms = self._clock.monotonic_ms()
        while True:
            try:
                return ask()
            except KafkaError as error:
                passes = error.code in ASK_AGAIN and error.code not in final
                limit_ms = self._patience_ms(error) if timeout_ms is None else timeout_ms
                if not passes or self._clock.monotonic_ms() - begun_ms >= limit_ms:
                    servers = ",".join(f"{h}:{p}" for h, p in self.options.bootstrap_servers)
                    raise KafkaError(
                        error.code,
                        f"{what}: {error.message or error.code.name} (servers: {servers})",
                    ) from error
                self.topics.clear()
                busy = error.code is ErrorCode.CONCURRENT_TRANSACTIONS  # for some milliseconds
                pause(_BUSY_MS if busy else self.options.retry_backoff_ms)

    def _patience_ms(self, error: KafkaError) -> int:
        """Short for a cluster that has never answered, and for what no broker knows of. A broker
        that died without a word costs more: a request's time-out, and the election after it."""
        options = self.options
        if self._addresses and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return options.api_timeout_ms
        return min(options.first_contact_timeout_ms, options.api_timeout_ms)

    def learn(self, broker_id: int, host: str, port: int) -> None:
        """Where a broker is, heard otherwise than by metadata."""
        self._addresses[broker_id] = (host, port)

    def connection(self, broker_id: int) -> Connection:
        """Kept open. Raises KafkaError."""
        address = self._addresses.get(broker_id)
        if address is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker_id} is not there")
        return self._open(address)

    def new_connection(self, broker_id: int) -> Connection:
        """One more, for requests in flight that nobody else may mix with. Who asks, closes it."""
        address = self._addresses.get(broker_id)
        if address is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker_id} is not there")
        connection = Connection(*address, self.options)
        connection.open()
        return connection

    def request_any(
        self,
        message: Message,
        highest_version: int | None = None,
        useful: Callable[[Any], bool] = lambda _: True,
    ) -> Any:
        """The first answer of a broker that is ``useful``. Raises the last KafkaError.

        Those that are connected come first, and those that were lost last: a host that is gone
        takes long to be missed."""
        failure: KafkaError | None = None
        known = [*self._connections, *self._addresses.values(), *self.options.bootstrap_servers]
        for address in sorted(dict.fromkeys(known), key=self._distance):
            try:
                answer = self._open(address).request(message, highest_version)
            except KafkaError as error:
                failure = error
            else:
                if useful(answer):
                    return answer
                failure = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "brokers are starting")
        raise failure or KafkaError(ErrorCode.NETWORK_EXCEPTION, "no bootstrap servers")

    def _distance(self, address: tuple[str, int]) -> int:
        connection = self._connections.get(address)
        if connection is None:
            return 1
        return 0 if connection.is_open else 2

    def _open(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = Connection(*address, self.options)
        if not connection.is_open:
            connection.close()
            connection.open()
        return connection

    # ---- topics

    def describe(self, topics: Iterable[str] | None) -> dict[str, ErrorCode]:
        """Learn of ``topics`` (None: all). Returns the error of each that has one.

        A broker that has just started knows of nothing yet, not even of itself. Kafka:
        ``NetworkClient.handleSuccessfulResponse`` leaves such an answer out, too."""
        answer = self.request_any(_metadata_request(topics), _METADATA, lambda it: bool(it.brokers))
        self._addresses = {b.node_id: (b.host, b.port) for b in answer.brokers}
        return self._note_topics(answer)

    def ask_the_others(self, topics: Iterable[str] | None) -> None:
        """Learn what any broker knows of ``topics``, of which one did not know all: it may have
        started a moment ago."""
        request = _metadata_request(topics)
        for address in self._addresses.values():
            with suppress(KafkaError):
                self._note_topics(self._open(address).request(request, _METADATA), forget=False)

    def _note_topics(self, answer: Any, forget: bool = True) -> dict[str, ErrorCode]:
        errors: dict[str, ErrorCode] = {}
        for topic in answer.topics:
            code = ErrorCode(topic.error_code)
            if code is ErrorCode.NONE:
                leaders = {p.partition_index: p.leader_id for p in topic.partitions}
                view = TopicView(topic.topic_id or ZERO_UUID, leaders)
                if not forget and topic.name in self.topics:
                    known = self.topics[topic.name]
                    view = TopicView(known.topic_id, leaders | known.leaders)
                self.topics[topic.name] = view
            else:
                errors[topic.name] = code
                if forget:
                    self.topics.pop(topic.name, None)
        return errors

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        """What a subscription holds now. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION at once for
        a named topic or partition that does not exist."""
        topics = _topics_of(subscription)
        errors = self.retrying(lambda: self.describe(topics), "topics")
        for _ in range(_ATTEMPTS_FOR_NEW_TOPICS):
            if not errors:
                break
            pause(self.options.retry_backoff_ms)  # a topic just made is not known to all at once
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
        self, subscription: Subscription, expected: Iterable[TopicPartition] = ()
    ) -> list[TopicPartition]:
        """As ``partitions``, without those that do not exist. Of ``expected`` a partition is
        missing only if no broker knows it: what is taken for deleted, and found again later, would
        be read from its start once more. Raises KafkaError."""
        topics = _topics_of(subscription)

        def ask() -> None:
            for name, code in self.describe(topics).items():
                if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise KafkaError(code, f"topic {name}: {_reason(code)}")

        self.retrying(ask, "topics")
        found = self._known(subscription)
        if set(expected) <= set(found):
            return found
        self.ask_the_others(topics)
        return self._known(subscription)

    def _known(self, subscription: Subscription) -> list[TopicPartition]:
        """A pattern leaves Kafka's own topics out, as the connector's does."""
        topics: Iterable[str] = subscription.topics
        if subscription.pattern:
            pattern = re.compile(subscription.pattern)
            topics = [t for t in self.topics if pattern.fullmatch(t) and t not in INTERNAL_TOPICS]
        elif subscription.partitions:
            there = set(_partitions_of({t for t, _ in subscription.partitions}, self.topics))
            return [each for each in subscription.partitions if each in there]
        return _partitions_of(topics, self.topics)

    def leader(self, partition: TopicPartition) -> int:
        """Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
        if partition.topic not in self.topics:
            code = self.describe([partition.topic]).get(partition.topic)
            if code is not None:
                raise KafkaError(code, f"topic {partition.topic}: {_reason(code)}")
        leader = self.topics[partition.topic].leaders.get(partition.partition)
        if leader is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist")
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return leader

    # ---- offsets

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], missing_is_final: bool = False
    ) -> Offsets:
        """The first offset of that time or later, -1 if there is none. Of -1 the end, of -2 the
        start of the log; the end is the last stable offset for those that read committed.

        Raises KafkaError; UNKNOWN_TOPIC_OR_PARTITION after some time, or at once if that is final.
        """
        found: Offsets = {}

        def ask() -> Offsets:
            left = [each for each in timestamps if each not in found]
            if any(each.topic not in self.topics for each in left):
                self.describe({each.topic for each in left})
            by_leader = grouped((self.leader(each), each) for each in left)
            for leader, partitions in by_leader.items():
                self._list_offsets_of(leader, {p: timestamps[p] for p in partitions}, found)
            return found

        final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,) if missing_is_final else ()
        return self.retrying(ask, f"offsets of {names(timestamps)}", final=final)

    def _list_offsets_of(
        self, leader: int, timestamps: Mapping[TopicPartition, int], found: Offsets
    ) -> None:
        topics = grouped(
            (topic, ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
            for (topic, partition), timestamp in timestamps.items()
        )
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=int(self.options.read_committed),
            topics=[ListOffsetsTopic(name=t, partitions=rows) for t, rows in topics.items()],
        )
        answer = self.connection(leader).request(request)
        failed: KafkaError | None = None
        for topic in answer.topics:
            for row in topic.partitions:
                code = ErrorCode(row.error_code)
                if code is ErrorCode.NONE:
                    found[TopicPartition(topic.name, row.partition_index)] = row.offset
                else:
                    failed = KafkaError(code, f"{topic.name}-{row.partition_index}")
        if failed is not None:
            raise failed


def pause(milliseconds: int) -> None:
    threading.Event().wait(milliseconds / 1000)


def _reason(code: ErrorCode) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "does not exist"
    return code.name


def _metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def _topics_of(subscription: Subscription) -> list[str] | None:
    """None for all."""
    if subscription.pattern:
        return None
    return sorted({*subscription.topics, *(topic for topic, _ in subscription.partitions)})


def _partitions_of(topics: Iterable[str], views: Mapping[str, TopicView]) -> list[TopicPartition]:
    """Of those that are known."""
    return sorted(
        TopicPartition(name, number)
        for name in topics
        if name in views
        for number in views[name].leaders
    )
