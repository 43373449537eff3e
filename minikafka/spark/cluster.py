"""A cluster as a Spark process sees it: blocking calls to the right broker, retried."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from minikafka.core.backoff import ExponentialBackoff
from minikafka.core.client.calls import Call, raise_gravest
from minikafka.core.client.cluster_view import (
    ClusterView,
    TopicView,
    group_by_leader,
    metadata_request,
    topic_view,
)
from minikafka.core.client.consumer import list_offsets_call
from minikafka.core.client.errors import STALE_METADATA, Retries
from minikafka.kernel.cluster import INTERNAL_TOPICS, NO_LEADER, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.spark.client_options import ClientOptions
from minikafka.spark.connection import BlockingConnection
from minikafka.spark.options import TopicSelection
from minikafka.spark.read.offsets import Offsets, names
from minikafka.world.real.wall_clock import WallClock

R = TypeVar("R")

_ATTEMPTS_FOR_NEW_TOPICS: Final = 3
_METADATA_VERSION: Final = 11  # at most; from version 12 on topics may lack names


class Cluster:
    """The connections and metadata of one thread, and calls that are retried after a failover.

    Nothing is sent before the first call. Call ``close`` when done, or use it as a context manager.
    ``topics`` holds the topics of the last Metadata responses that had no error."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.topics: dict[str, TopicView] = {}
        self._clock = WallClock()
        self._backoff = ExponentialBackoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
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
        """Return the wall clock time."""
        return self._clock.wall_ms()

    # ---- calls

    def retrying(
        self,
        attempt: Callable[[], R],
        what: str,
        timeout_ms: int | None = None,
        final: Container[ErrorCode] = (),
    ) -> R:
        """Return the result of ``attempt``, repeating it after retriable errors that are not
        ``final``. Raises the last KafkaError, with ``what`` and the bootstrap servers in its text.
        """
        begun_ms = self._clock.monotonic_ms()
        retries = Retries(self._backoff)
        while True:
            try:
                return attempt()
            except KafkaError as error:
                limit_ms = self._patience_ms(error) if timeout_ms is None else timeout_ms
                delay_ms = retries.next_delay_ms(
                    error.code,
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
                if error.code in STALE_METADATA:
                    self.topics.clear()
            pause(delay_ms)

    def backoff_ms(self, failures: int) -> int:
        """Return how long to wait before the next attempt, after ``failures`` failures before."""
        return self._backoff.delay_ms(failures, random.random())

    def _patience_ms(self, error: KafkaError) -> int:
        """Return how long an operation is retried: shorter for a cluster that has never responded
        and for a topic that no broker knows. After the silent death of a broker it takes a
        request's time-out and an election."""
        options = self.options
        if self._addresses and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return options.api_timeout_ms
        return min(options.first_contact_timeout_ms, options.api_timeout_ms)

    def learn_address(self, broker_id: int, host: str, port: int) -> None:
        """Note a broker's address from a response other than Metadata."""
        self._addresses[broker_id] = (host, port)

    def call(self, broker_id: int, call: Call[R]) -> R:
        """Carry out a call to one broker once. Raises KafkaError."""
        connection = self._open(self._address(broker_id))
        return call.read(connection.request(call.request, call.highest_version))

    def new_connection(self, broker_id: int) -> BlockingConnection:
        """Open another connection, for a caller that has requests in flight. The caller closes it.
        Raises KafkaError."""
        connection = BlockingConnection(*self._address(broker_id), self.options)
        connection.open()
        return connection

    def call_any(self, call: Call[R]) -> R:
        """Carry out a call to the first broker that succeeds. Raises the last KafkaError.

        Brokers with an open connection are tried first, those with a lost one last: it takes a
        time-out to notice that a host is gone."""
        failure = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no bootstrap servers")
        known = [*self._connections, *self._addresses.values(), *self.options.bootstrap_servers]
        for address in sorted(dict.fromkeys(known), key=self._distance):
            try:
                connection = self._open(address)
                return call.read(connection.request(call.request, call.highest_version))
            except KafkaError as error:
                failure = error
        raise failure

    def _address(self, broker_id: int) -> tuple[str, int]:
        """Raises KafkaError."""
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
        """Refresh the metadata of ``topics`` (None: of all). Returns the error of each topic that
        has one. Raises KafkaError.

        A response without brokers comes from a broker that has just started and has no metadata
        yet. Kafka's ``NetworkClient.handleSuccessfulResponse`` ignores such a response, too."""

        def read(response: MetadataResponse) -> MetadataResponse:
            if not response.brokers:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "brokers are starting")
            return response

        response = self.call_any(Call(metadata_request(topics), read, _METADATA_VERSION))
        self._addresses = {b.node_id: (b.host, b.port) for b in response.brokers}
        errors: dict[str, ErrorCode] = {}
        for topic in map(topic_view, response.topics):
            if topic.error is ErrorCode.NONE:
                self.topics[topic.name] = topic
            else:
                errors[topic.name] = topic.error
                self.topics.pop(topic.name, None)
        return errors

    def describe_everywhere(self, topics: Iterable[str] | None) -> None:
        """Add partitions of ``topics`` that any broker knows: the broker that was asked before may
        have started a moment ago. Brokers that fail are passed over."""
        request = metadata_request(topics)
        for address in self._addresses.values():
            with suppress(KafkaError):
                response = self._open(address).request(request, _METADATA_VERSION)
                for topic in map(topic_view, response.topics):
                    if topic.error is ErrorCode.NONE:
                        known = self.topics.get(topic.name, topic)
                        partitions = {**topic.partitions, **known.partitions}
                        self.topics[topic.name] = replace(known, partitions=partitions)

    def partitions(self, subscription: TopicSelection) -> list[TopicPartition]:
        """Return the partitions of a subscription. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION at
        once for a named topic or partition that does not exist."""
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
        self, subscription: TopicSelection, expected: Iterable[TopicPartition] = ()
    ) -> list[TopicPartition]:
        """As ``partitions``, without those that do not exist. One of ``expected`` counts as deleted
        only if no broker knows it: found again later, it would be read from its start. Raises
        KafkaError."""
        topics = _topics_of(subscription)

        def attempt() -> None:
            for name, code in self.describe(topics).items():
                if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise KafkaError(code, f"topic {name}: {_reason(code)}")

        self.retrying(attempt, "topics")
        found = self._known(subscription)
        if set(expected) <= set(found):
            return found
        self.describe_everywhere(topics)
        return self._known(subscription)

    def _known(self, subscription: TopicSelection) -> list[TopicPartition]:
        """Return the known partitions. A pattern leaves internal topics out, as in the official
        connector."""
        topics: Iterable[str] = subscription.topics
        if subscription.pattern:
            pattern = re.compile(subscription.pattern)
            topics = [t for t in self.topics if pattern.fullmatch(t) and t not in INTERNAL_TOPICS]
        elif subscription.partitions:
            there = set(_partitions_of({t for t, _ in subscription.partitions}, self.topics))
            return [each for each in subscription.partitions if each in there]
        return _partitions_of(topics, self.topics)

    def leader(self, partition: TopicPartition) -> int:
        """Return the broker id of the leader. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION,
        LEADER_NOT_AVAILABLE."""
        if partition.topic not in self.topics:
            code = self.describe([partition.topic]).get(partition.topic)
            if code is not None:
                raise KafkaError(code, f"topic {partition.topic}: {_reason(code)}")
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
        """Return the first offset at or after each timestamp, -1 if there is none. Timestamp -1
        stands for the end, -2 for the start of the log; the end is the last stable offset for
        readers of committed records.

        Raises KafkaError; UNKNOWN_TOPIC_OR_PARTITION after retries, or at once if
        ``missing_is_final``.
        """
        found: Offsets = {}

        def attempt() -> Offsets:
            missing = {each: at for each, at in timestamps.items() if each not in found}
            if any(each.topic not in self.topics for each in missing):
                self.describe({each.topic for each in missing})
            groups = group_by_leader(missing, {each: self.leader(each) for each in missing})
            view = ClusterView(topics=self.topics)
            for leader, asked in groups.by_leader.items():
                call = list_offsets_call.list_offsets(asked, view, int(self.options.read_committed))
                listed = self.call(leader, call)
                found.update((each, at.offset) for each, at in listed.found.items())
                raise_gravest(listed.errors)
            return found

        final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,) if missing_is_final else ()
        return self.retrying(attempt, f"offsets of {names(timestamps)}", final=final)


def pause(milliseconds: int) -> None:
    threading.Event().wait(milliseconds / 1000)


def _reason(code: ErrorCode) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "does not exist"
    return code.name


def _topics_of(subscription: TopicSelection) -> list[str] | None:
    """Return the topics to describe; None for all."""
    if subscription.pattern:
        return None
    return sorted({*subscription.topics, *(topic for topic, _ in subscription.partitions)})


def _partitions_of(topics: Iterable[str], views: Mapping[str, TopicView]) -> list[TopicPartition]:
    """Return the partitions of the topics that are known."""
    return sorted(
        TopicPartition(name, number)
        for name in topics
        if name in views
        for number in views[name].partitions
    )
