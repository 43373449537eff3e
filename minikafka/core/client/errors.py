"""The error table of all clients: what a client does after an error code, and when it retries."""

from __future__ import annotations

from typing import Final

from minikafka.core.backoff import ExponentialBackoff
from minikafka.kernel.errors import ErrorCode, KafkaError

# A login was refused: another attempt with the same credential is of no use.
LOGIN_REFUSED: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)


class WrongPeer(KafkaError):
    """No bootstrap server speaks the client's protocol: another attempt is of no use.

    ``by_keys``: other client settings help. Otherwise the addresses are wrong."""

    def __init__(self, message: str, by_keys: bool = False) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)
        self.by_keys = by_keys

    @property
    def retriable(self) -> bool:
        return False


def is_hopeless(error: KafkaError) -> bool:
    """Whether connecting again is of no use: a refused login, or no server of the protocol."""
    return isinstance(error, WrongPeer) or error.code in LOGIN_REFUSED


# After these errors the client refreshes its metadata: the request went to the wrong broker, or the
# broker is not there. Kafka: ``InvalidMetadataException``, and what ``NetworkClient`` does after a
# disconnect or a time-out.
STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

# After these errors the client looks the coordinator up again.
LOST_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

# Errors in a partition's row that concern the coordinator as a whole.
COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

# After these errors a transactional producer is of no more use: another producer has the
# transactional id, or the id may not be used. Kafka: ``TransactionManager``'s ``fatalError``.
FATAL_TO_PRODUCER: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

# While the transaction before is being completed, which takes some milliseconds. The last delay is
# that of Kafka's ``TransactionManager.ADD_PARTITIONS_RETRY_BACKOFF_MS``.
_COMPLETION_BACKOFF: Final = ExponentialBackoff(5, 20, jitter=0)

# These pass as soon as a leader or a coordinator is elected and has loaded its log. Each attempt
# looks it up again.
_ELECTIONS: Final = STALE_METADATA | LOST_COORDINATOR | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
_LOOKUP_GROWTH: Final = 1.25


def repeated_lookups(retry_backoff_ms: int, retry_backoff_max_ms: int) -> ExponentialBackoff:
    """Return the delays between lookups of a leader or a coordinator that is being elected.

    They begin at a quarter of ``retry.backoff.ms`` and grow by a quarter each: a client notices an
    election after 1.25 times its duration at most, and has sent a dozen requests after a second.
    """
    return ExponentialBackoff(max(1, retry_backoff_ms // 4), retry_backoff_max_ms, _LOOKUP_GROWTH)


class RetryBackoff:
    """The delays before the next attempt, by the error of the last one (``retry.backoff.ms``,
    ``retry.backoff.max.ms``)."""

    def __init__(self, retry_backoff_ms: int, retry_backoff_max_ms: int) -> None:
        self._usual = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms)
        self._lookups = repeated_lookups(retry_backoff_ms, retry_backoff_max_ms)

    def delay_ms(self, code: ErrorCode, failures: int, draw: float) -> int:
        """Return the delay after ``failures`` earlier failures. ``draw`` is a random number in
        [0, 1) for the jitter."""
        if code in _ELECTIONS:
            return self._lookups.delay_ms(failures, draw)
        delay_ms = self._usual.delay_ms(failures, draw)
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            delay_ms = min(delay_ms, _COMPLETION_BACKOFF.delay_ms(failures, draw))
        return delay_ms


class BrokerBackoffs:
    """Which brokers get no request for a while, because the last ones have failed."""

    def __init__(self, backoff: RetryBackoff) -> None:
        self._backoff = backoff
        self._failed: dict[int, tuple[int, int]] = {}  # failures in a row, not before (ms)

    def failed(self, broker_id: int, code: ErrorCode, now_ms: int, draw: float) -> int:
        """Note a failure; return after how many ms the broker may get a request again."""
        failures = self._failed.get(broker_id, (0, 0))[0]
        delay_ms = self._backoff.delay_ms(code, failures, draw)
        self._failed[broker_id] = (failures + 1, now_ms + delay_ms)
        return delay_ms

    def succeeded(self, broker_id: int) -> None:
        self._failed.pop(broker_id, None)

    def may_send(self, broker_id: int, now_ms: int) -> bool:
        return self._failed.get(broker_id, (0, now_ms))[1] <= now_ms


class Retries:
    """The retry policy of one operation: counts failures and computes backoffs.

    ``KafkaError.retriable`` decides, as Kafka's ``Errors`` do.
    """

    def __init__(self, backoff: RetryBackoff) -> None:
        self._backoff = backoff
        self._failures = 0

    def next_delay_ms(
        self, error: KafkaError, now_ms: int, deadline_ms: int | None, draw: float
    ) -> int | None:
        """Count a failed attempt and return the delay before the next one, in milliseconds.

        None if the error is final, or if the next attempt would not begin before the deadline.
        ``draw`` is a random number in [0, 1) for the jitter.
        """
        delay_ms = self._backoff.delay_ms(error.code, self._failures, draw)
        self._failures += 1
        is_late = deadline_ms is not None and now_ms + delay_ms >= deadline_ms
        return None if is_late or not error.retriable else delay_ms
