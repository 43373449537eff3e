"""When a client sends its next Metadata request, and for how long it repeats one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.core.backoff import ExponentialBackoff
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.errors import repeated_lookups
from minikafka.kernel.cluster import TopicPartition

DOUBT_ENDS_AFTER: Final = 2  # times ``retry.backoff.max.ms``: callers try again more often


class _Doubt(NamedTuple):
    """A leader that has failed or denied its role, and its epoch, as the view had them."""

    leader: int
    leader_epoch: int
    until_ms: int


class MetadataRefresh:
    """The schedule of the Metadata requests of one client; all times are in ms.

    The first request after an error is sent at once. It is repeated while the view still has a
    leader in doubt or a broker that cannot be reached: the metadata of the broker that responded
    may be older than the failure. The delays grow as ``repeated_lookups`` says while responses
    change neither leaders nor brokers, as with Kafka's ``equivalentResponseCount``, so that the
    number of requests is bounded. A doubt ends when the view has another leader or epoch, and by
    itself some time after its last failure.
    """

    def __init__(
        self, retry_backoff_ms: int, retry_backoff_max_ms: int, metadata_max_age_ms: int
    ) -> None:
        self._failing = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms)
        self._repeating = repeated_lookups(retry_backoff_ms, retry_backoff_max_ms)
        self._max_age_ms = metadata_max_age_ms
        self._doubt_ms = DOUBT_ENDS_AFTER * retry_backoff_max_ms
        self._doubts: dict[TopicPartition, _Doubt] = {}  # bound: the partitions of the view
        self._wanted = False
        self._failures = 0
        self._repeats = 0
        self._not_before_ms = 0
        self._first_repeat_ms = 0
        self._expires_ms: int | None = None  # None before the first response

    @property
    def due_ms(self) -> int | None:
        """The time of the next request; None if none is wanted and there was no response yet."""
        if self._wanted:
            return self._not_before_ms
        return None if self._expires_ms is None else max(self._expires_ms, self._not_before_ms)

    def want(self, now_ms: int) -> None:
        """Request metadata as soon as the delay after the last response has passed."""
        if not self._wanted and now_ms >= self._not_before_ms:
            self._repeats = 0  # the view was good for a while
        self._wanted = True

    def want_now(self) -> None:
        """Request metadata without a delay: the client needs a topic that it did not need
        before."""
        self._wanted = True
        self._repeats = self._not_before_ms = 0

    def doubt(
        self, topic_partition: TopicPartition, broker_id: int, view: ClusterView, now_ms: int
    ) -> None:
        """Note that a broker has failed as the leader of a partition, or has denied to be it, and
        request metadata unless ``view`` has another leader by now."""
        known = view.partition(topic_partition)
        if known is not None:
            if view.leaders.get(topic_partition, broker_id) != broker_id:
                return
            doubt = _Doubt(known.leader, known.leader_epoch, now_ms + self._doubt_ms)
            before = self._doubts.get(topic_partition)
            self._doubts[topic_partition] = doubt
            if before is None or before[:2] != doubt[:2]:  # news: the delay starts from the least
                self._repeats = 0
                self._not_before_ms = min(self._not_before_ms, self._first_repeat_ms)
        self.want(now_ms)

    def begin(self) -> None:
        """Note that a request is being sent. It serves all who want one until now."""
        self._wanted = False

    def failed(self, now_ms: int, draw: float) -> None:
        """Note that no broker has responded, or one with an error. ``draw`` is a random number in
        [0, 1) for the jitter."""
        delay_ms = self._failing.delay_ms(self._failures, draw)
        self._failures += 1
        self._wanted = True
        self._not_before_ms = self._first_repeat_ms = now_ms + delay_ms

    def updated(
        self,
        before: ClusterView,
        view: ClusterView,
        unreachable: Iterable[tuple[int, int]],
        incomplete: bool,
        now_ms: int,
        draw: float,
    ) -> None:
        """Note a response, which has replaced the view ``before``.

        ``unreachable`` are the brokers that did not respond to their last request, with the time of
        the failure. ``incomplete``: a topic that the client needs is missing.
        """
        self._failures = 0
        self._doubts = {
            tp: doubt for tp, doubt in self._doubts.items() if self._holds(tp, doubt, view, now_ms)
        }
        gone = any(
            broker in view.nodes and now_ms < failed_ms + self._doubt_ms
            for broker, failed_ms in unreachable
        )
        if gone or incomplete or self._doubts:
            self._wanted = True
        changed = (before.leaders, before.nodes) != (view.leaders, view.nodes)
        self._repeats = 0 if changed else self._repeats + 1
        self._first_repeat_ms = now_ms + self._repeating.delay_ms(0, draw)
        self._not_before_ms = now_ms + self._repeating.delay_ms(max(0, self._repeats - 1), draw)
        self._expires_ms = now_ms + self._max_age_ms

    def _holds(self, tp: TopicPartition, doubt: _Doubt, view: ClusterView, now_ms: int) -> bool:
        known = view.partition(tp)
        if known is None or now_ms >= doubt.until_ms:
            return False
        return tp not in view.leaders or (known.leader, known.leader_epoch) == doubt[:2]
