"""The state of one partition on a broker as immutable values, and the decisions on it.

The state is role, epochs, ISR and followers; functions that change it take a state and return a new
one. The decisions are the high watermark, the low watermark, and who leaves or joins the ISR.
``broker/replication/partition.py`` holds the current values.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from minikafka.kernel.cluster import NO_EPOCH, NO_LEADER, LeaderAndIsr, ReplicaAssignment

UNKNOWN_OFFSET = -1
# "Never" on a monotonic clock that may start at zero: always further back than any permitted lag.
NEVER_MS = -(1 << 62)
NO_ASSIGNMENT = ReplicaAssignment(())


class FollowerState(NamedTuple):
    """What a leader knows about one follower (Kafka's ``ReplicaState``).

    ``last_fetch_leader_end_offset`` is the leader's log end offset at the follower's last fetch.
    ``last_caught_up_ms`` is the latest time at which the follower had all records of the leader.
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
    """Return the state after a Fetch from ``fetch_offset``: the follower has all records below it.

    A follower that has reached the leader's log end of its *previous* fetch was caught up at the
    time of that fetch. Otherwise a steady trickle of small appends would remove it from the ISR,
    since its offset is always a little behind.
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
    """Return the state of a follower that has repeated its last fetch from the leader's log end."""
    end = state.log_end_offset
    return FollowerState(end, state.log_start_offset, end, now_ms, now_ms)


def after_election(
    state: FollowerState, leader_end_offset: int, in_isr: bool, new_leader: bool, now_ms: int
) -> FollowerState:
    """Return the state of a follower at the start of a leader epoch.

    A member of the ISR counts as caught up now, so that it has the full lag time to fetch. Any
    other follower counts as never caught up, so that it cannot hold back the high watermark.
    ``new_leader`` is whether this broker did not lead the partition before.
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


@dataclass(frozen=True)
class IsrState:
    """The ISR last known from ZooKeeper (``committed``), and a change being written (``proposed``).

    ``maximal`` is the union of both. Until the outcome of the write is known, only the union is
    safe for the high watermark. ``lost`` means that the write was refused: the proposal stays in
    ``maximal``, and no other is made before the controller's next LeaderAndIsr.
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


@dataclass(frozen=True)
class LeadershipState:
    """The leadership of a partition, as one of its replicas knows it.

    ``zk_version`` is the version of the state znode, Kafka's partition epoch.
    ``leader_epoch_start_offset`` is the log end offset at which this broker became the leader of
    the epoch; None on a follower. ``isr`` is empty on a follower: only the leader tracks it.
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
        """The number of replicas, without those that a reassignment is adding."""
        return len(self.assignment.replicas) - len(self.assignment.adding)


def isr_problem(instruction: LeaderAndIsr, local: int) -> str | None:
    """Return why this broker must not lead with the ISR of the instruction, or None. Only a state
    znode that no controller has written can contain such an ISR."""
    isr = instruction.isr
    if instruction.leader != local:
        return None
    if local not in isr:
        return f"leader {local} is not in the ISR {list(isr)}"
    return f"a replica twice in the ISR {list(isr)}" if len(set(isr)) < len(isr) else None


def as_leader(
    state: LeadershipState,
    instruction: LeaderAndIsr,
    assignment: ReplicaAssignment,
    controller_epoch: int,
    log_end_offset: int,
) -> LeadershipState:
    """Return the state of a leader. The start offset of the epoch changes only with the epoch.

    An instruction with the known version of the state znode says nothing new about the ISR: a new
    controller has read the znode before a change in flight was written. So that change stays in
    flight. Without it the high watermark would leave out a replica that is joining, and that is in
    the ISR by which the controller elects."""
    start = state.leader_epoch_start_offset
    new_epoch = instruction.leader_epoch > state.leader_epoch
    if new_epoch or start is None:
        start = log_end_offset
        isr = IsrState(instruction.isr)
    elif instruction.zk_version == state.zk_version:
        isr = state.isr
    else:
        isr = IsrState(instruction.isr)
    return LeadershipState(
        leader=instruction.leader,
        leader_epoch=instruction.leader_epoch,
        zk_version=instruction.zk_version,
        controller_epoch=controller_epoch,
        assignment=assignment,
        isr=isr,
        leader_epoch_start_offset=start,
    )


def as_follower(
    instruction: LeaderAndIsr, assignment: ReplicaAssignment, controller_epoch: int
) -> LeadershipState:
    """Return the state of a follower."""
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
    """Return the followers of an elected or re-elected leader, by broker id, in the order of the
    assignment."""
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
    """Return the state with the proposal ``isr``. Only one change may be in flight."""
    assert not state.isr.in_flight, "an ISR change is already in flight"
    _check_members(state, isr)
    return replace(state, isr=IsrState(state.isr.committed, isr))


def _check_members(state: LeadershipState, isr: tuple[int, ...]) -> None:
    """Assert that the members are distinct replicas and include the leader. Members of the
    committed ISR need not be replicas: a controller of another implementation may have chosen
    them."""
    strangers = set(isr).difference(state.isr.committed, state.assignment.replicas)
    assert not strangers, f"{sorted(strangers)} are no replicas: {state.assignment.replicas}"
    assert len(set(isr)) == len(isr), f"a replica twice in {isr}"
    assert state.leader in isr, f"leader {state.leader} not in {isr}"


def commit_isr(state: LeadershipState, zk_version: int) -> LeadershipState:
    """Return the state after the proposal was written as version ``zk_version`` of the state
    znode."""
    assert state.isr.proposed is not None, "no ISR change in flight"
    assert zk_version > state.zk_version, f"version {zk_version} after {state.zk_version}"
    return replace(state, isr=IsrState(state.isr.proposed), zk_version=zk_version)


def lose_isr(state: LeadershipState) -> LeadershipState:
    """Return the state after the write was refused because the controller wrote the state znode
    first. The committed ISR stays, and no further change may be proposed."""
    assert state.isr.proposed is not None, "no ISR change in flight"
    return replace(state, isr=IsrState(state.isr.committed, state.isr.proposed, lost=True))


def withdraw_isr(state: LeadershipState) -> LeadershipState:
    """Return the state after the controller has refused the proposal and written nothing."""
    assert state.isr.proposed is not None, "no ISR change in flight"
    return replace(state, isr=IsrState(state.isr.committed))


def leader_and_isr(state: LeadershipState) -> LeaderAndIsr:
    """Return what to write to the state znode for the proposal in flight. ``zk_version`` is the
    version that the write replaces."""
    assert state.isr.proposed is not None, "no ISR change in flight"
    _check_members(state, state.isr.proposed)
    return LeaderAndIsr(state.leader, state.leader_epoch, state.isr.proposed, state.zk_version)


# ---- high watermark and low watermark


def leader_high_watermark(
    current: int,
    leader_end_offset: int,
    followers: Mapping[int, FollowerState],
    maximal_isr: Container[int],
    eligible: Container[int],
    now_ms: int,
    lag_time_max_ms: int,
) -> int:
    """Return the smallest log end offset of the replicas that count, but at least ``current``.

    Every member of the maximal ISR counts. So does a live (``eligible``) follower that is caught up
    and not a member: it is about to join the ISR, and it could never join if the high watermark
    kept moving ahead of it (Kafka's ``Partition.maybeIncrementLeaderHW``).
    """
    lowest = leader_end_offset
    for replica, state in followers.items():
        if state.log_end_offset < lowest and (
            replica in maximal_isr
            or (
                state.is_caught_up(leader_end_offset, now_ms, lag_time_max_ms)
                and replica in eligible
            )
        ):
            lowest = state.log_end_offset
    return max(current, lowest)


def effective_min_isr(min_insync_replicas: int, followers: Set[int]) -> int:
    """Return ``min.insync.replicas``, limited to the number of replicas."""
    return min(min_insync_replicas, len(followers) + 1)


def bounded_high_watermark(offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """Limit a high watermark from a checkpoint or from the leader to the range of the local log."""
    return max(log_start_offset, min(offset, log_end_offset))


def low_watermark(
    leader_start_offset: int, followers: Mapping[int, FollowerState], live: Container[int]
) -> int:
    """Return the smallest log start offset of the live replicas: all of them have deleted the
    records below it.

    -1 while a live follower has not fetched yet. A dead follower does not count: it receives the
    new log start before it is in sync again (Kafka's ``Partition.lowWatermarkIfLeader``).
    """
    lowest = leader_start_offset
    for replica, state in followers.items():
        if state.log_start_offset < lowest and replica in live:
            lowest = state.log_start_offset
    return lowest


# ---- ISR


def out_of_sync(
    isr: IsrState,
    local: int,
    followers: Mapping[int, FollowerState],
    leader_end_offset: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> tuple[int, ...]:
    """Return the members that lagged for more than ``lag_time_max_ms``, in ISR order.

    Empty while a change of the ISR is in flight. A member that is not a replica is out of sync.
    """
    if isr.in_flight:
        return ()
    return tuple(
        replica
        for replica in isr.committed
        if replica != local
        and (
            (state := followers.get(replica)) is None
            or not state.is_caught_up(leader_end_offset, now_ms, lag_time_max_ms)
        )
    )


def may_join(
    isr: IsrState,
    replica: int,
    follower: FollowerState,
    high_watermark: int,
    leader_epoch_start_offset: int,
    log_start_offset: int,
) -> bool:
    """Whether a follower that has just fetched belongs in the ISR again.

    It must hold all committed records, and must have reached this leader epoch: a follower below
    its start offset may still have to truncate. And its log must not start before the leader's:
    if it became the leader before it has received the new log start, deleted records would be back
    (Kafka does not check this). The caller checks that the broker is live.
    """
    return (
        not isr.in_flight
        and replica not in isr.committed
        and follower.log_end_offset >= high_watermark
        and follower.log_end_offset >= leader_epoch_start_offset
        and max(follower.log_start_offset, 0) >= log_start_offset
    )


def without(isr: IsrState, gone: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ISR without the members ``gone``, in the same order."""
    return tuple(replica for replica in isr.committed if replica not in gone)


def joined_by(isr: IsrState, replica: int) -> tuple[int, ...]:
    """Return the ISR with ``replica`` as its last member."""
    return (*isr.committed, replica)
