"""Replica placement: Kafka's table, racks, and the rules that hold for any cluster."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.controller.placement import (
    BrokerRack,
    assign_replicas,
    broker_racks,
    rack_alternated,
)
from minikafka.kernel.cluster import Broker
from minikafka.kernel.errors import ErrorCode, KafkaError

RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
RACKED = [BrokerRack(i, RACKS[i]) for i in RACKS]


def plain(count: int) -> Any:
    return [BrokerRack(i) for i in range(count)]


@pytest.mark.mission("CRS-1")
def test_kafkas_table_of_five_brokers_and_ten_partitions() -> None:
    placed = assign_replicas(plain(5), 10, 3, start_index=0, replica_shift=0)
    assert placed == {
        0: (0, 1, 2), 1: (1, 2, 3), 2: (2, 3, 4), 3: (3, 4, 0), 4: (4, 0, 1),
        5: (0, 2, 3), 6: (1, 3, 4), 7: (2, 4, 0), 8: (3, 0, 1), 9: (4, 1, 2),
    }  # fmt: skip


def test_the_dice_move_the_first_leader_and_the_second_replica() -> None:
    placed = assign_replicas(plain(4), 2, 2, start_index=3, replica_shift=2)
    assert placed == {0: (3, 2), 1: (0, 3)}


def test_added_partitions_go_on_where_the_topic_stopped() -> None:
    whole = assign_replicas(plain(4), 9, 2, start_index=1, replica_shift=1)
    added = assign_replicas(plain(4), 3, 2, start_index=1, replica_shift=1, start_partition=2)
    assert sorted(added) == [2, 3, 4]
    assert added[2] == whole[2]
    assert added[3] == whole[3]


@pytest.mark.mission("CRS-1")
def test_kafkas_rack_table() -> None:
    assert rack_alternated(RACKS) == [0, 3, 1, 5, 4, 2]
    placed = assign_replicas(RACKED, 7, 3, start_index=0, replica_shift=0)
    assert placed == {
        0: (0, 3, 1), 1: (3, 1, 5), 2: (1, 5, 4), 3: (5, 4, 2), 4: (4, 2, 0), 5: (2, 0, 3),
        6: (0, 4, 2),
    }  # fmt: skip


def test_with_as_many_replicas_as_brokers_each_has_one() -> None:
    """Also where two brokers share a rack: both go round the ring before either is taken twice."""
    brokers = [BrokerRack(0, "a"), BrokerRack(1, "a"), BrokerRack(2, "b"), BrokerRack(3, "c")]
    placed = assign_replicas(brokers, 4, 4, start_index=0, replica_shift=0)
    assert [sorted(replicas) for replicas in placed.values()] == [[0, 1, 2, 3]] * 4


def test_racks_count_only_when_every_broker_has_one() -> None:
    some = broker_racks([Broker(2, (), "a"), Broker(1, ())])
    assert some == [BrokerRack(1), BrokerRack(2)]
    every = broker_racks([Broker(2, (), "a"), Broker(1, (), "b")])
    assert every == [BrokerRack(1, "b"), BrokerRack(2, "a")]


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "code"),
    [
        (plain(3), 0, 1, ErrorCode.INVALID_PARTITIONS),
        (plain(3), 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (plain(3), 1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
        ([BrokerRack(0, "a"), BrokerRack(1)], 1, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(brokers: Any, partitions: Any, factor: int, code: Any) -> None:
    with pytest.raises(KafkaError) as refusal:
        assign_replicas(brokers, partitions, factor, start_index=0, replica_shift=0)
    assert refusal.value.code is code


@settings(max_examples=60, deadline=None)
@given(
    racks=st.lists(st.sampled_from("abc"), min_size=1, max_size=9),
    partitions=st.integers(1, 30),
    dice=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    racked=st.booleans(),
    data=st.data(),
)
def test_any_cluster(
    racks: Any, partitions: Any, dice: Any, racked: bool, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    brokers = [BrokerRack(i, rack if racked else None) for i, rack in enumerate(racks)]
    placed = assign_replicas(
        brokers,
        partitions,
        factor,
        start_index=dice[0] % len(racks),
        replica_shift=dice[1] % len(racks),
    )
    assert list(placed) == list(range(partitions))
    leaders = [0] * len(racks)
    for replicas in placed.values():
        leaders[replicas[0]] += 1
        assert len(set(replicas)) == factor
        if racked:
            assert len({racks[r] for r in replicas}) == min(factor, len(set(racks)))
    assert max(leaders) - min(leaders) <= 1
