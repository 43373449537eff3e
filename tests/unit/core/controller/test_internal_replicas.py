"""Replicas that an internal topic lacks: as many as it is to have and brokers allow, evenly."""

from collections import Counter
from collections.abc import Iterable, Sequence

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.placement import missing_replicas
from minikafka.kernel.cluster import Broker, ReplicaAssignment, TopicPartition

TOPIC = "__consumer_offsets"
FACTORS = {TOPIC: 3}


def context(
    live: Iterable[int], replicas: Sequence[Sequence[int]], topic: str = TOPIC
) -> ControllerContext:
    made = ControllerContext()
    made.set_brokers([Broker(b, (), epoch=b) for b in live])
    made.all_topics.add(topic)
    for number, ids in enumerate(replicas):
        made.set_assignment(TopicPartition(topic, number), ReplicaAssignment(tuple(ids)))
    return made


def test_one_broker_becomes_three() -> None:
    made = context([1, 2, 3], [(1,)] * 6)
    found = missing_replicas(made, FACTORS)
    assert sorted(found) == [TopicPartition(TOPIC, n) for n in range(6)]
    assert all(sorted(replicas) == [1, 2, 3] for replicas in found.values())
    assert Counter(replicas[0] for replicas in found.values()) == {1: 2, 2: 2, 3: 2}


def test_of_many_brokers_each_gets_its_share() -> None:
    found = missing_replicas(context(range(1, 8), [(1,), (1,), (1,), (1,)]), FACTORS)
    assert all(1 in replicas and len(set(replicas)) == 3 for replicas in found.values())
    held = Counter(b for replicas in found.values() for b in replicas)
    assert max(held[b] for b in range(2, 8)) - min(held[b] for b in range(2, 8)) <= 1


def test_as_many_as_live() -> None:
    found = missing_replicas(context([1, 2], [(1,), (2, 1)]), FACTORS)
    assert found == {TopicPartition(TOPIC, 0): (1, 2)}


def test_dead_broker_keeps_its_replica_but_is_not_preferred() -> None:
    assert missing_replicas(context([2], [(1,)]), FACTORS) == {TopicPartition(TOPIC, 0): (2, 1)}


def test_nothing_to_do() -> None:
    assert missing_replicas(context([1], [(1,)]), FACTORS) == {}
    assert missing_replicas(context([1, 2, 3, 4], [(2, 3, 4)]), FACTORS) == {}
    assert missing_replicas(context([1, 2, 3], [(1,)], "mine"), FACTORS) == {}
    assert missing_replicas(context([1, 2, 3], [(1,)]), {}) == {}


def test_reassigned_partitions_and_deleted_topics_get_no_replicas() -> None:
    moving = context([1, 2, 3], [(1,), (1,)])
    moving.partitions_being_reassigned.add(TopicPartition(TOPIC, 0))
    assert list(missing_replicas(moving, FACTORS)) == [TopicPartition(TOPIC, 1)]
    doomed = context([1, 2, 3], [(1,)])
    doomed.topics_to_be_deleted.add(TOPIC)
    assert missing_replicas(doomed, FACTORS) == {}


def test_a_new_replica_goes_to_the_broker_with_the_fewest() -> None:
    found = missing_replicas(context([1, 2, 3], [(1, 2), (1,)]), {TOPIC: 2})
    assert sorted(found[TopicPartition(TOPIC, 1)]) == [1, 3]


def test_a_new_replica_goes_to_another_broker() -> None:
    """Even where the broker that has one holds no more replicas than the others."""
    found = missing_replicas(context([1, 2, 3], [(2, 3), (1,)]), {TOPIC: 2})
    assert sorted(found[TopicPartition(TOPIC, 1)]) == [1, 2]


def test_partitions_that_lack_nothing_count_when_preferred_leaders_are_spread() -> None:
    whole, lacking = [(1, 2)] * 2, [(1,)] * 4
    found = missing_replicas(context([1, 2], [*whole, *lacking]), {TOPIC: 2})
    assert Counter(replicas[0] for replicas in (*whole, *found.values())) == {1: 3, 2: 3}
