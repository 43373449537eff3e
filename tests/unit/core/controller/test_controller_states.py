"""Both state machines' tables, cell by cell."""

import pytest

from minikafka.core.controller import partition_machine, replica_machine
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.states import (
    PARTITION_PREDECESSORS,
    RATE_AND_TIME_METRICS,
    REPLICA_PREDECESSORS,
    ControllerState,
    PartitionState,
    ReplicaState,
    machines,
)
from tests.support.controller.controller_states import Cluster

P = PartitionState
R = ReplicaState

# Rows: the state before. Columns: the state after, in the order of the numbers.
PARTITION_MATRIX = {
    #                New Onl Off Non
    P.NEW:          (0,  1,  1,  0),
    P.ONLINE:       (0,  1,  1,  0),
    P.OFFLINE:      (0,  1,  1,  1),
    P.NON_EXISTENT: (1,  0,  0,  0),
}  # fmt: skip

REPLICA_MATRIX = {
    #                      New Onl Off Sta Suc Ine Non
    R.NEW:                 (0,  1,  1,  0,  0,  0,  0),
    R.ONLINE:              (0,  1,  1,  0,  0,  0,  0),
    R.OFFLINE:             (0,  1,  1,  1,  0,  1,  0),
    R.DELETION_STARTED:    (0,  0,  0,  0,  1,  1,  0),
    R.DELETION_SUCCESSFUL: (0,  0,  0,  0,  0,  0,  1),
    R.DELETION_INELIGIBLE: (0,  1,  1,  0,  0,  0,  0),
    R.NON_EXISTENT:        (1,  0,  0,  0,  0,  0,  0),
}  # fmt: skip

PARTITION_CELLS = [
    (before, after, bool(cell))
    for before, row in PARTITION_MATRIX.items()
    for after, cell in zip(P, row, strict=True)
]
REPLICA_CELLS = [
    (before, after, bool(cell))
    for before, row in REPLICA_MATRIX.items()
    for after, cell in zip(R, row, strict=True)
]


@pytest.mark.mission("PSM-1", "RSM-1")
def test_numbers_and_names_are_kafkas() -> None:
    assert [(int(s), str(s)) for s in P] == [
        (0, "NewPartition"),
        (1, "OnlinePartition"),
        (2, "OfflinePartition"),
        (3, "NonExistentPartition"),
    ]
    assert [(int(s), str(s)) for s in R] == [
        (1, "NewReplica"),
        (2, "OnlineReplica"),
        (3, "OfflineReplica"),
        (4, "ReplicaDeletionStarted"),
        (5, "ReplicaDeletionSuccessful"),
        (6, "ReplicaDeletionIneligible"),
        (7, "NonExistentReplica"),
    ]
    assert [int(s) for s in ControllerState] == list(range(18))
    assert RATE_AND_TIME_METRICS[ControllerState.BROKER_CHANGE] == "LeaderElection"


@pytest.mark.mission("PSM-2", "PSM-3", "PSM-4", "PSM-5")
@pytest.mark.parametrize(("before", "after", "legal"), PARTITION_CELLS)
def test_partition_transition(
    cluster: Cluster,
    before: PartitionState,
    after: PartitionState,
    legal: bool,
) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    if before in (P.ONLINE, P.OFFLINE):
        cluster.led(tp, 1, (1, 2))
    cluster.context.partition_states[tp] = before
    (outcome,) = cluster.move([tp], after, ElectionStrategy.OFFLINE)
    assert (before in PARTITION_PREDECESSORS[after]) is legal
    assert [c.after for c in outcome.changes] == ([after] if legal else [])
    assert cluster.context.partition_state(tp) is (after if legal else before)
    if not legal:
        assert f"before moving to {after} state, but is in {before}" in outcome.refusals[0].reason
        assert cluster.sent() == []


@pytest.mark.mission("RSM-2", "RSM-3", "RSM-4", "RSM-5", "RSM-6", "RSM-7", "RSM-8")
@pytest.mark.parametrize(("before", "after", "legal"), REPLICA_CELLS)
def test_replica_transition(
    cluster: Cluster,
    before: ReplicaState,
    after: ReplicaState,
    legal: bool,
) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    replica = cluster.replica(tp, 2)
    if before is not R.NON_EXISTENT:
        cluster.context.replica_states[replica] = before
    (outcome,) = cluster.move_replicas([replica], after)
    assert (before in REPLICA_PREDECESSORS[after]) is legal
    assert [c.after for c in outcome.changes] == ([after] if legal else [])
    assert cluster.context.replica_state(replica) is (after if legal else before)
    if not legal:
        assert f"before moving to {after} state, but is in {before}" in outcome.refusals[0].reason
        assert cluster.sent() == []


@pytest.mark.mission("PSM-13")
def test_no_way_leads_back_to_new() -> None:
    reached = {P.ONLINE}
    for _ in P:
        reached |= {
            after
            for after, befores in PARTITION_PREDECESSORS.items()
            if befores & (reached - {P.NON_EXISTENT})
        }
    assert P.NEW not in reached


def test_a_plan_touches_nothing(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    state = cluster.led(tp, 1, (1, 2))
    cluster.context.partition_states[tp] = P.ONLINE
    before = dict(cluster.context.dump())
    partition_machine.plan(
        cluster.context, [tp], P.ONLINE, ElectionStrategy.OFFLINE, {tp: state}, ()
    )
    replica_machine.plan(cluster.context, 1, [cluster.replica(tp, 1)], R.NEW, {tp: state})
    assert dict(cluster.context.dump()) == before
    assert cluster.sent() == []


@pytest.mark.mission("GLASS-51")
def test_a_page_gets_the_tables_cell_by_cell() -> None:
    shown = machines()
    for name, cells in (("partition", PARTITION_CELLS), ("replica", REPLICA_CELLS)):
        pairs = {(each["before"], each["after"]) for each in shown[name]["transitions"]}
        assert pairs == {(str(before), str(after)) for before, after, allowed in cells if allowed}
        numbers = {each["name"]: each["number"] for each in shown[name]["states"]}
        assert numbers == {str(before): int(before) for before, _, _ in cells}
