"""Counts of Produce and Fetch, in all and by topic: Kafka's ``BrokerTopicMetrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from minikafka.kernel.metrics import MetricKind, Metrics

GROUP = "kafka.server:type=BrokerTopicMetrics"
LINGERING_TOPICS = 200  # with counts although they are not hosted here; more are forgotten
# Kafka's names, and the attributes of ``TopicCounts``.
NAMES = {
    "MessagesInPerSec": "messages_in",
    "BytesInPerSec": "bytes_in",
    "BytesOutPerSec": "bytes_out",
    "TotalProduceRequestsPerSec": "produce_requests",
    "TotalFetchRequestsPerSec": "fetch_requests",
    "FailedProduceRequestsPerSec": "failed_produce_requests",
    "FailedFetchRequestsPerSec": "failed_fetch_requests",
    "ProduceMessageConversionsPerSec": "produce_conversions",
    "FetchMessageConversionsPerSec": "fetch_conversions",
}


class TopicCounts:
    """The counts of one topic, or of all. Requests are counted once for each partition they name,
    as in Kafka. Bytes out are those that consumers fetch."""

    __slots__ = tuple(NAMES.values())

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.produce_conversions = 0
        self.fetch_conversions = 0

    def add(self, counts: TopicCounts) -> None:
        for attribute in NAMES.values():
            setattr(self, attribute, getattr(self, attribute) + getattr(counts, attribute))


class TopicMetrics:
    """The counts of all topics together, and of each one. ``hosted`` returns the topics that have
    partitions here: the others are forgotten, except in the sum, when the counts are read or when
    there are many."""

    def __init__(self, metrics: Metrics, hosted: Callable[[], Set[str]]) -> None:
        self._hosted = hosted
        # Of hosted topics, and of others until these are forgotten.
        self._topics: dict[str, TopicCounts] = {}
        self._forgotten = TopicCounts()
        self._forget_at = LINGERING_TOPICS
        self.replicated_out = metrics.counter(f"{GROUP},name=ReplicationBytesOutPerSec")
        self.replicated_in = metrics.counter(f"{GROUP},name=ReplicationBytesInPerSec")
        metrics.family(self._read, MetricKind.COUNTER)

    def of(self, topic: str) -> TopicCounts:
        """Return the counts of a topic."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= self._forget_at:
                self._forget_others()
            found = self._topics[topic] = TopicCounts()
        return found

    def _forget_others(self) -> None:
        """Forget topics that are not hosted here: deleted ones, and names that clients made up."""
        for topic in self._topics.keys() - self._hosted():
            self._forgotten.add(self._topics.pop(topic))
        self._forget_at = 2 * len(self._topics) + LINGERING_TOPICS

    def total(self, attribute: str) -> int:
        """Return the sum of one of the ``NAMES`` over all topics. It is made when it is read, not
        with every request."""
        counted = (self._forgotten, *self._topics.values())
        return sum([int(getattr(counts, attribute)) for counts in counted])

    def appended(self, topic: str, messages: int, size: int, requests: int = 1) -> None:
        counts = self._topics.get(topic) or self.of(topic)
        counts.produce_requests += requests
        counts.messages_in += messages
        counts.bytes_in += size

    def append_failed(self, topic: str) -> None:
        counts = self.of(topic)
        counts.produce_requests += 1
        counts.failed_produce_requests += 1

    def fetched(self, topic: str, size: int) -> None:
        """Count a fetch; ``size`` is 0 for a follower's, whose bytes are ``replicated_out``."""
        counts = self._topics.get(topic) or self.of(topic)
        counts.fetch_requests += 1
        counts.bytes_out += size

    def fetch_failed(self, topic: str) -> None:
        counts = self.of(topic)
        counts.fetch_requests += 1
        counts.failed_fetch_requests += 1

    def produce_converted(self, topic: str, messages: int) -> None:
        """Count messages of an old format that became a batch."""
        self.of(topic).produce_conversions += messages

    def fetch_converted(self, topic: str, messages: int) -> None:
        """Count records that are converted for a consumer that reads an old format."""
        self.of(topic).fetch_conversions += messages

    def _read(self) -> Iterator[tuple[str, float]]:
        self._forget_others()
        for name, attribute in NAMES.items():
            yield f"{GROUP},name={name}", self.total(attribute)
        for topic, counts in list(self._topics.items()):
            for name, attribute in NAMES.items():
                yield f"{GROUP},name={name},topic={topic}", getattr(counts, attribute)
