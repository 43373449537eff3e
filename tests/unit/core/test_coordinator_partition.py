"""The partition of a group is the one that Kafka gives it."""

import pytest

from minikafka.core.coordinator_shard import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("Straße", -1808122922),
        ("\U0001f600", 1772899),
    ],
)
def test_java_hash(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0, "the absolute value of which there is none"
    assert partition_for("hello", 50) == 22
    assert partition_for("Straße", 50) == 1808122922 % 50
