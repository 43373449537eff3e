"""What a client makes of error codes and of the versions that a broker offers."""

from __future__ import annotations

import pytest

from minikafka.core.client.calls import choose_version, request_version
from minikafka.core.client.errors import STALE_METADATA, BrokerBackoffs, Retries, RetryBackoff
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize(
    ("ours", "theirs", "highest_version", "version"),
    [
        ((0, 5), (3, 9), None, 5),
        ((0, 9), (3, 5), None, 5),
        ((0, 5), (3, 9), 4, 4),
        ((0, 5), (3, 9), 7, 5),
        ((0, 5), (3, 9), 2, None),
        ((5, 9), (0, 5), None, 5),
        ((6, 9), (0, 5), None, None),
        ((0, 5), (6, 9), None, None),
        ((0, 5), None, None, None),
    ],
)
def test_highest_common_version_is_chosen(
    ours: tuple[int, int],
    theirs: tuple[int, int] | None,
    highest_version: int | None,
    version: int | None,
) -> None:
    assert choose_version(ours, theirs, highest_version) == version


@pytest.mark.parametrize(
    ("served", "why"),
    [
        ({}, "h:1 has no DescribeCluster"),
        ({ApiKey.METADATA: (0, 9)}, "h:1 has no DescribeCluster"),
        ({ApiKey.DESCRIBE_CLUSTER: (7, 9)}, "DescribeCluster: no version in common with h:1"),
    ],
)
def test_a_request_without_a_common_version_names_the_broker(
    served: dict[int, tuple[int, int]], why: str
) -> None:
    with pytest.raises(KafkaError, match=why) as failure:
        request_version(DescribeClusterRequest(), served, "h:1")
    assert failure.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_request_is_sent_in_a_version_that_its_message_has() -> None:
    served: dict[int, tuple[int, int]] = {ApiKey.DESCRIBE_CLUSTER: (0, 99)}
    last = DescribeClusterRequest.SPEC.versions.last
    assert request_version(DescribeClusterRequest(), served, "h:1") == last
    assert request_version(DescribeClusterRequest(), served, "h:1", highest_version=0) == 0


def test_the_errors_after_which_a_client_refreshes_its_metadata() -> None:
    """The codes of Kafka's InvalidMetadataException, and those of a broker that is not there."""
    assert {code.name for code in STALE_METADATA} == {
        "BROKER_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "INCONSISTENT_TOPIC_ID",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "LISTENER_NOT_FOUND",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }


BACKOFF = RetryBackoff(100, 1_000)
MIDDLE = 0.5  # the draw without jitter


def delays(retries: Retries, code: ErrorCode, count: int) -> list[int | None]:
    error = KafkaError(code)
    return [retries.next_delay_ms(error, 0, 10_000, MIDDLE) for _ in range(count)]


def test_retriable_errors_are_retried_ever_later_until_the_deadline() -> None:
    retries = Retries(BACKOFF)
    error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert delays(retries, error.code, 3) == [100, 200, 400]
    assert retries.next_delay_ms(error, 9_200, 10_000, MIDDLE) is None  # 800 ms: the deadline
    assert retries.next_delay_ms(error, 1 << 50, None, MIDDLE) == 1_000


@pytest.mark.mission("CFAST-3")
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.LEADER_NOT_AVAILABLE,
    ],
)
def test_an_election_is_noticed_a_quarter_of_its_duration_late_at_most(code: ErrorCode) -> None:
    elapsed_ms, waits = 0, []
    for wait in delays(Retries(BACKOFF), code, 30):
        assert wait is not None
        assert wait <= 1.1 * (25 + elapsed_ms / 4)
        elapsed_ms += wait
        waits.append(wait)
    assert waits[:4] == [25, 31, 39, 48]
    assert waits[-1] == 1_000
    assert sum(1 for count in range(30) if sum(waits[:count]) < 1_000) <= 12, "requests a second"


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.UNSUPPORTED_VERSION])
def test_a_final_error_is_not_retried(code: ErrorCode) -> None:
    assert delays(Retries(BACKOFF), code, 1) == [None]


def test_a_transaction_that_is_being_completed_is_waited_for_in_short_steps() -> None:
    """Up to 20 ms, as Kafka's TransactionManager does for AddPartitionsToTxn."""
    retries = Retries(BACKOFF)
    assert delays(retries, ErrorCode.CONCURRENT_TRANSACTIONS, 4) == [5, 10, 20, 20]
    assert delays(retries, ErrorCode.NOT_ENOUGH_REPLICAS, 1) == [1_000]


def test_the_backoff_may_be_shorter_than_that_step() -> None:
    assert delays(Retries(RetryBackoff(2, 2)), ErrorCode.CONCURRENT_TRANSACTIONS, 1) == [2]


def test_a_broker_that_fails_gets_no_request_for_a_while_and_others_do() -> None:
    backoffs = BrokerBackoffs(BACKOFF)
    assert backoffs.may_send(1, 0)
    assert backoffs.failed(1, ErrorCode.NETWORK_EXCEPTION, 1_000, MIDDLE) == 25
    assert not backoffs.may_send(1, 1_024)
    assert backoffs.may_send(1, 1_025)
    assert backoffs.may_send(2, 1_000)
    assert backoffs.failed(1, ErrorCode.NETWORK_EXCEPTION, 1_025, MIDDLE) == 31
    backoffs.succeeded(1)
    assert backoffs.failed(1, ErrorCode.NETWORK_EXCEPTION, 2_000, MIDDLE) == 25
