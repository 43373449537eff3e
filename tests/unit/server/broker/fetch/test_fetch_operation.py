"""The entries of a fetch that get an error without a read, in the response of the others."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.fetch.reader import FetchEntry, FetchParams, Isolation, ReadResult
from minikafka.server.broker.fetch.record_fetches import FetchOperation

PARAMS = FetchParams(-1, 500, 1, 1 << 20, Isolation.HIGH_WATERMARK)
ENTRIES = [FetchEntry(TopicPartition("t", index), None, 0, 1 << 20) for index in range(4)]


def result(index: int, error: ErrorCode = ErrorCode.NONE) -> ReadResult:
    return ReadResult(TopicPartition("t", index), error)


def test_entries_set_aside_in_two_steps_keep_their_place() -> None:
    sent: list[ReadResult] = []
    operation = FetchOperation(PARAMS, ENTRIES, sent.extend)
    refused = result(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    unknown = result(2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    operation.set_aside([refused, None, None, None])
    operation.set_aside([None, unknown, None])
    assert operation.entries == [ENTRIES[1], ENTRIES[3]]
    read = [result(1), result(3)]
    operation.respond(read)
    assert sent == [refused, read[0], unknown, read[1]]


def test_no_errors_leave_the_entries_as_they_are() -> None:
    """They may be the growing list of a follower's session."""
    operation = FetchOperation(PARAMS, ENTRIES, lambda results: None)
    operation.set_aside([None] * 4)
    assert operation.entries is ENTRIES
