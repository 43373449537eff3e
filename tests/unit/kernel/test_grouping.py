"""Group pairs by key, in order."""

from collections.abc import Iterator

from minikafka.kernel.cluster import TopicPartition, grouped


def test_partitions_are_grouped_by_topic_in_order_of_appearance() -> None:
    partitions = [TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)]
    assert list(grouped(partitions).items()) == [("b", [2, 1]), ("a", [0])]


def test_equal_values_are_kept() -> None:
    assert grouped([("a", 1), ("a", 1)]) == {"a": [1, 1]}


def test_nothing_gives_no_groups() -> None:
    assert grouped([]) == {}


def test_pairs_may_come_from_an_iterator() -> None:
    def pairs() -> Iterator[tuple[int, str]]:
        yield 1, "x"
        yield 2, "y"

    assert grouped(pairs()) == {1: ["x"], 2: ["y"]}
