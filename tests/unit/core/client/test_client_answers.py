"""What a client makes of error codes and of the versions that a broker offers."""

from __future__ import annotations

import pytest

from minikafka.core.client.answers import STALE_METADATA, choose_version


@pytest.mark.parametrize(
    ("ours", "theirs", "at_most", "version"),
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
def test_the_highest_version_that_both_speak(
    ours: tuple[int, int], theirs: tuple[int, int] | None, at_most: int | None, version: int | None
) -> None:
    assert choose_version(ours, theirs, at_most) == version


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
