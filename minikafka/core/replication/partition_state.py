"""The facts a broker keeps about one partition: its role, its epochs, its ISR, its followers.

Values only. Every function takes facts and returns new ones; ``broker.partition.Partition`` is the
one that holds the current value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from minikafka.kernel.cluster import NO_EPOCH, NO_LEADER, LeaderAndIsr, ReplicaAssignment

UNKNOWN_OFFSET = -1
# "Never" on a monotonic clock that may start at zero: always further back than any permitted lag.
NEVER_MS = -(1 << 62)
NO_ASSIGNMENT = ReplicaAssignment(())


class FollowerState(NamedTuple):
    """What a leader knows of one follower (Kafka's ReplicaState).

    ``last_fetch_leader_end_offset`` is the leader's end offset when the last fetch came in;
    ``last_caught_up_ms`` is the latest time at which the follower had all the leader then had.
    """

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = 0
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= lag_time_max_ms
        )


def after_fetch(
    state: FollowerState,
    fetch_offset: int,
    log_start_offset: int,
    leader_end_offset: int,
    now_ms: int,
) -> FollowerState:
    """The state after a Fetch from ``fetch_offset``: the follower holds everything below it.

    A follower that reaches the end the leader had at its *previous* fetch was caught up then: under
    a steady trickle of small appends its offset is always a little behind, and it still belongs in
    the ISR.
    """
    caught_up_ms = state.last_caught_up_ms
    if fetch_offset >= leader_end_offset:
        caught_up_ms = max(caught_up_ms, now_ms)
    elif fetch_offset >= state.last_fetch_leader_end_offset:
        caught_up_ms = max(caught_up_ms, state.last_fetch_ms)
    return FollowerState(
        fetch_offset,
        log_start_offset,
        max(leader_end_offset, state.last_fetch_leader_end_offset),
        now_ms,
        caught_up_ms,
    )


def still_caught_up(state: FollowerState, now_ms: int) -> FollowerState:
    """``after_fetch`` where the follower is at the leader's end, as it was at its last fetch."""
    end = state.log_end_offset
    return FollowerState(end, state.log_start_offset, end, now_ms, now_ms)


def after_election(
    state: FollowerState, leader_end_offset: int, in_isr: bool, new_leader: bool, now_ms: int
) -> FollowerState:
    """The follower as seen at the start of a leader epoch.

    A member of the ISR gets a full lag period of grace. Any other counts as never caught up, so it
    cannot hold back the high watermark.
    """
    caught_up_ms = now_ms if in_isr else NEVER_MS
    if new_leader:
        return FollowerState(
            last_fetch_leader_end_offset=UNKNOWN_OFFSET, last_caught_up_ms=caught_up_ms
        )
    return FollowerState(
        state.log_end_offset,
        state.log_start_offset,
        leader_end_offset,
        now_ms if in_isr else NEVER_MS,
        caught_up_ms,
    )


@dataclass(frozen=True, slots=True)
class IsrState:
    """The ISR as ZooKeeper is known to hold it (``committed``) and a change that is being written
    (``proposed``).

    ``maximal`` is the union of both. A proposed change may have been written or not, so that until
    the outcome is known only the union is safe for the high watermark. ``lost``: the write was
    refused. The change stays in ``maximal``, and no other is proposed before the controller's next
    LeaderAndIsr.
    """

    committed: tuple[int, ...] = ()
    proposed: tuple[int, ...] | None = None
    lost: bool = False
    maximal: frozenset[int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "maximal", frozenset(self.committed + (self.proposed or ())))

    @property
    def in_flight(self) -> bool:
        return self.proposed is not None


@dataclass(frozen=True, slots=True)
class LeadershipState:
    """What a replica knows of its partition's leadership. ``zk_version`` is Kafka's partition
    epoch.

    ``leader_epoch_start_offset`` is the log end when this broker became the leader of the epoch;
    None on a follower. A follower's ``isr`` is empty: only the leader knows it.
    """

    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    zk_version: int = NO_EPOCH
    controller_epoch: int = NO_EPOCH
    assignment: ReplicaAssignment = NO_ASSIGNMENT
    isr: IsrState = IsrState()
    leader_epoch_start_offset: int | None = None

    @property
    def replication_factor(self) -> int:
        """Replicas counted without those a reassignment is still adding."""
        return len(self.assignment.replicas) - len(self.assignment.adding)


def as_leader(
    state: LeadershipState,
    instruction: LeaderAndIsr,
    assignment: ReplicaAssignment,
    controller_epoch: int,
    log_end_offset: int,
) -> LeadershipState:
    """The state of a leader. The epoch's start offset is kept if the epoch is not new."""
    start = state.leader_epoch_start_offset
    if instruction.leader_epoch > state.leader_epoch or start is None:
        start = log_end_offset
    return LeadershipState(
        leader=instruction.leader,
        leader_epoch=instruction.leader_epoch,
        zk_version=instruction.zk_version,
        controller_epoch=controller_epoch,
        assignment=assignment,
        isr=IsrState(instruction.isr),
        leader_epoch_start_offset=start,
    )


def as_follower(
    instruction: LeaderAndIsr, assignment: ReplicaAssignment, controller_epoch: int
) -> LeadershipState:
    """The state of a follower."""
    return LeadershipState(
        leader=instruction.leader,
        leader_epoch=instruction.leader_epoch,
        zk_version=instruction.zk_version,
        controller_epoch=controller_epoch,
        assignment=assignment,
    )


def elected_followers(
    followers: Mapping[int, FollowerState],
    local: int,
    assignment: ReplicaAssignment,
    isr: tuple[int, ...],
    leader_end_offset: int,
    new_leader: bool,
    new_epoch: bool,
    now_ms: int,
) -> dict[int, FollowerState]:
    """The followers of a (re-)elected leader, by broker id in assignment order."""
    elected: dict[int, FollowerState] = {}
    for replica in assignment.replicas:
        if replica == local:
            continue
        known = followers.get(replica)
        state = known if known is not None else FollowerState()
        if new_epoch:
            state = after_election(
                state, leader_end_offset, replica in isr, new_leader or known is None, now_ms
            )
        elected[replica] = state
    return elected


def propose_isr(state: LeadershipState, isr: tuple[int, ...]) -> LeadershipState:
    """Propose ``isr``. One change at a time."""
    assert not state.isr.in_flight, "an ISR change is already in flight"
    _check_members(state, isr)
    return replace(state, isr=IsrState(state.isr.committed, isr))


def _check_members(state: LeadershipState, isr: tuple[int, ...]) -> None:
    """ISR members are different replicas, among them the leader. Those that the controller has put
    into the ISR are not checked: its request may come from another implementation."""
    strangers = set(isr).difference(state.isr.committed, state.assignment.replicas)
    assert not strangers, f"{sorted(strangers)} are no replicas: {state.assignment.replicas}"
    assert len(set(isr)) == len(isr), f"a replica twice in {isr}"
    assert state.leader in isr, f"leader {state.leader} not in {isr}"


def commit_isr(state: LeadershipState, zk_version: int) -> LeadershipState:
    """The proposal was written, as version ``zk_version`` of the state znode."""
    assert state.isr.proposed is not None, "no ISR change in flight"
    assert zk_version > state.zk_version, f"version {zk_version} after {state.zk_version}"
    return replace(state, isr=IsrState(state.isr.proposed), zk_version=zk_version)


def lose_isr(state: LeadershipState) -> LeadershipState:
    """The controller wrote the state znode first: keep the old ISR, and propose nothing more."""
    assert state.isr.proposed is not None, "no ISR change in flight"
    return replace(state, isr=IsrState(state.isr.committed, state.isr.proposed, lost=True))


def leader_and_isr(state: LeadershipState) -> LeaderAndIsr:
    """What to write for the proposal in flight; ``zk_version`` is the version it replaces."""
    assert state.isr.proposed is not None, "no ISR change in flight"
    _check_members(state, state.isr.proposed)
    return LeaderAndIsr(state.leader, state.leader_epoch, state.isr.proposed, state.zk_version)
