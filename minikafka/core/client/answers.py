"""What an error code in an answer means to a client."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode

# Errors that say: you asked the wrong broker, or too early. Kafka: ``InvalidMetadataException``.
STALE_METADATA = frozenset(
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


def choose_version(
    ours: tuple[int, int], theirs: tuple[int, int] | None, at_most: int | None = None
) -> int | None:
    """The highest version that both sides speak; None when there is none."""
    if theirs is None:
        return None
    highest = min(ours[1], theirs[1])
    if at_most is not None:
        highest = min(highest, at_most)
    return highest if highest >= max(ours[0], theirs[0]) else None
