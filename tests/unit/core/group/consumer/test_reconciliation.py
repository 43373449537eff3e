"""Steps of a member towards its target: each transition, and random groups at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.consumer.reconciliation import (
    CurrentAssignment,
    MemberState,
    reconcile,
)
from minikafka.core.group.modern.partitions import Partitions, intersection
from minikafka.kernel.errors import ErrorCode, KafkaError
from tests.support.coordinator.subscriptions import topic

T, U = topic(0), topic(1)
BOTH = frozenset({T, U})


def parts(*partitions: int) -> Partitions:
    return {T: frozenset(partitions)} if partitions else {}


def stable(*assigned: int) -> CurrentAssignment:
    return CurrentAssignment(MemberState.STABLE, 5, 4, parts(*assigned), {})


def unrevoked(assigned: Partitions, pending: Partitions) -> CurrentAssignment:
    return CurrentAssignment(MemberState.UNREVOKED_PARTITIONS, 5, 5, assigned, pending)


def all_free(topic_id: UUID, partition: int) -> bool:
    return True


def held(*partitions: int) -> Callable[[UUID, int], bool]:
    return lambda topic_id, partition: topic_id != T or partition not in partitions


def test_a_stable_member_in_the_epoch_of_the_target_takes_no_step() -> None:
    current = stable(1, 2)
    assert reconcile(current, 5, parts(1, 2), all_free, None, BOTH) is current


def test_a_stable_member_whose_target_stays_takes_the_new_epoch() -> None:
    after = reconcile(stable(1, 2), 6, parts(1, 2), all_free, None, BOTH)
    assert after == CurrentAssignment(MemberState.STABLE, 6, 5, parts(1, 2), {})


def test_free_partitions_are_assigned_at_once() -> None:
    after = reconcile(stable(1), 7, {T: frozenset({1, 2}), U: frozenset({0})}, all_free, None, BOTH)
    assert after == CurrentAssignment(
        MemberState.STABLE, 7, 5, {T: frozenset({1, 2}), U: frozenset({0})}, {}
    )


def test_partitions_are_revoked_in_the_old_epoch_before_others_are_assigned() -> None:
    after = reconcile(stable(1, 2), 7, parts(2, 3), all_free, None, BOTH)
    assert after == unrevoked(parts(2), parts(1))


def test_a_member_that_says_it_owns_none_of_the_revoked_goes_on_at_once() -> None:
    after = reconcile(stable(1, 2), 7, parts(2, 3), all_free, parts(2), BOTH)
    assert after == CurrentAssignment(MemberState.STABLE, 7, 5, parts(2, 3), {})


@pytest.mark.parametrize("owned", [None, parts(1), parts(1, 2, 3)])
def test_an_unacknowledged_revocation_waits(owned: Partitions | None) -> None:
    current = unrevoked(parts(2), parts(1))
    assert reconcile(current, 7, parts(2, 3), all_free, owned, BOTH) is current


@pytest.mark.parametrize("owned", [{}, parts(2), {U: frozenset({1})}])
def test_an_acknowledged_revocation_leads_to_the_target(owned: Partitions) -> None:
    after = reconcile(unrevoked(parts(2), parts(1)), 7, parts(2, 3), all_free, owned, BOTH)
    assert after == CurrentAssignment(MemberState.STABLE, 7, 5, parts(2, 3), {})


def test_a_second_revocation_stays_in_the_epoch() -> None:
    after = reconcile(unrevoked(parts(2, 3), parts(1)), 8, parts(3), all_free, parts(2, 3), BOTH)
    assert after == unrevoked(parts(3), parts(2))


def test_a_partition_that_came_back_after_its_revocation_is_free_for_its_member() -> None:
    after = reconcile(unrevoked(parts(2), parts(1)), 8, parts(1, 2), held(1, 2), parts(2), BOTH)
    assert after == CurrentAssignment(MemberState.STABLE, 8, 5, parts(1, 2), {})


def test_partitions_of_other_members_are_waited_for_in_the_epoch_of_the_target() -> None:
    after = reconcile(stable(1), 6, parts(1, 2, 3), held(1, 3), None, BOTH)
    assert after == CurrentAssignment(MemberState.UNRELEASED_PARTITIONS, 6, 5, parts(1, 2), {})
    waiting = reconcile(after, 6, parts(1, 2, 3), held(1, 2, 3), None, BOTH)
    assert waiting == replace(after, previous_member_epoch=6)
    assert reconcile(waiting, 6, parts(1, 2, 3), held(1, 2, 3), None, BOTH) is waiting
    assert reconcile(waiting, 6, parts(1, 2, 3), held(1, 2), None, BOTH) == CurrentAssignment(
        MemberState.STABLE, 6, 6, parts(1, 2, 3), {}
    )


def test_a_waiting_member_follows_a_new_target() -> None:
    waiting = CurrentAssignment(MemberState.UNRELEASED_PARTITIONS, 6, 5, parts(1, 2), {})
    after = reconcile(waiting, 7, parts(2), held(1, 2, 3), None, BOTH)
    assert after == CurrentAssignment(MemberState.UNREVOKED_PARTITIONS, 6, 6, parts(2), parts(1))


@pytest.mark.parametrize("owned", [None, parts(1)])
def test_a_member_in_an_unknown_state_is_fenced(owned: Partitions | None) -> None:
    with pytest.raises(KafkaError) as raised:
        reconcile(replace(stable(1), state=MemberState.UNKNOWN), 7, parts(1), all_free, owned, BOTH)
    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_in_an_unknown_state_that_owns_nothing_starts_from_its_target() -> None:
    current = replace(stable(1, 2), state=MemberState.UNKNOWN)
    after = reconcile(current, 7, parts(2, 3), held(2, 3), {}, BOTH)
    assert after == CurrentAssignment(MemberState.UNRELEASED_PARTITIONS, 7, 5, parts(2), {})


def test_a_member_gives_up_topics_of_its_old_subscription_while_it_revokes() -> None:
    current = CurrentAssignment(
        MemberState.UNREVOKED_PARTITIONS, 5, 4, {**parts(2), U: frozenset({0})}, parts(1)
    )
    owned = {**parts(1, 2), U: frozenset({0})}
    only_u = frozenset({U})
    assert reconcile(current, 7, parts(2), all_free, owned, only_u) is current
    assert reconcile(current, 7, parts(2), all_free, owned, BOTH, True) is current
    after = reconcile(current, 7, parts(2), all_free, owned, only_u, True)
    assert after == replace(current, assigned={U: frozenset({0})}, pending_revocation=parts(1, 2))
    neither: frozenset[UUID] = frozenset()
    after = reconcile(current, 7, parts(2), all_free, None, neither, True)
    assert after == replace(current, assigned={}, pending_revocation=owned)


def test_a_member_gives_up_topics_before_its_regular_expression_is_resolved() -> None:
    """Its target is that of its old subscription."""
    current, other = stable(1, 2), frozenset({U})
    after = reconcile(current, 5, parts(1, 2), all_free, None, other, True)
    assert after == CurrentAssignment(MemberState.UNREVOKED_PARTITIONS, 5, 4, {}, parts(1, 2)), (
        "the epochs stay"
    )
    assert reconcile(current, 5, parts(1, 2), all_free, {}, other, True) == replace(
        current, assigned={}
    )
    assert reconcile(current, 5, parts(1, 2), all_free, None, BOTH, True) is current
    after = reconcile(after, 5, parts(1, 2), all_free, {}, other)
    assert after == CurrentAssignment(MemberState.STABLE, 5, 5, {}, {})


PARTITIONS = [(T, 0), (T, 1), (T, 2), (U, 0), (U, 1)]


class GroupModel:
    """A group whose members reconcile, and consumers that follow the responses.

    ``owned`` is what each consumer consumes from, ``received`` what its last response assigned to
    it. Checks at every step that no partition is held twice.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.joined = 0
        self.members: dict[str, CurrentAssignment] = {}
        self.targets: dict[str, Partitions] = {}
        self.received: dict[str, Partitions] = {}
        self.owned: dict[str, Partitions] = {}

    def join(self) -> None:
        member = f"m{self.joined}"
        self.joined += 1
        self.members[member] = CurrentAssignment(MemberState.STABLE, 0, 0, {}, {})
        self.targets[member] = self.received[member] = self.owned[member] = {}
        self.epoch += 1

    def leave(self, member: str) -> None:
        for state in (self.members, self.targets, self.received, self.owned):
            del state[member]
        self.epoch += 1

    def retarget(self, owners: list[str | None]) -> None:
        """Compute a new target: the owner of each partition, None for nobody."""
        targets: dict[str, dict[UUID, set[int]]] = {member: {} for member in self.members}
        for (topic_id, partition), owner in zip(PARTITIONS, owners, strict=True):
            if owner is not None:
                targets[owner].setdefault(topic_id, set()).add(partition)
        self.targets = {
            member: {topic_id: frozenset(some) for topic_id, some in target.items()}
            for member, target in targets.items()
        }
        self.epoch += 1

    def heartbeat(self, member: str, tells_owned: bool) -> None:
        before, target = self.members[member], self.targets[member]
        owned = self.owned[member] if tells_owned else None
        after = reconcile(before, self.epoch, target, self.is_free, owned, BOTH)
        assert before.member_epoch <= after.member_epoch <= self.epoch
        assert after is before or after.previous_member_epoch == before.member_epoch
        stays = intersection(before.assigned, target)
        assert intersection(stays, after.assigned) == stays
        self.members[member] = after
        self.received[member] = after.assigned
        self.check()

    def apply(self, member: str) -> None:
        """Let the consumer revoke and take on what its last response says."""
        self.owned[member] = self.received[member]
        self.check()

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        return (topic_id, partition) not in self.holders()

    def holders(self) -> dict[tuple[UUID, int], str]:
        """Return which member has which partition assigned or pending revocation."""
        return one_owner_each(
            {m: [c.assigned, c.pending_revocation] for m, c in self.members.items()}
        )

    def check(self) -> None:
        holders = self.holders()
        for partition, member in one_owner_each({m: [o] for m, o in self.owned.items()}).items():
            assert holders[partition] == member, "a consumer consumes only what its member holds"
        for current in self.members.values():
            unrevoked = current.state is MemberState.UNREVOKED_PARTITIONS
            assert bool(current.pending_revocation) == unrevoked


def one_owner_each(held: dict[str, list[Partitions]]) -> dict[tuple[UUID, int], str]:
    found: dict[tuple[UUID, int], str] = {}
    for member, sets in held.items():
        for partitions in sets:
            for topic_id, some in partitions.items():
                assert some
                for partition in some:
                    assert (topic_id, partition) not in found
                    found[topic_id, partition] = member
    return found


@given(st.data())
def test_no_partition_is_held_twice_and_all_reach_their_targets(data: st.DataObject) -> None:
    group = GroupModel()
    group.join()
    for _ in range(data.draw(st.integers(0, 40), label="steps")):
        members = st.sampled_from([*group.members])
        step = data.draw(st.sampled_from(["heartbeat", "apply", "retarget", "join", "leave"]))
        match step:
            case "heartbeat":
                group.heartbeat(data.draw(members), data.draw(st.booleans(), label="tells owned"))
            case "apply":
                group.apply(data.draw(members))
            case "retarget":
                size = len(PARTITIONS)
                owners = st.lists(st.none() | members, min_size=size, max_size=size)
                group.retarget(data.draw(owners))
            case "join" if len(group.members) < 5:
                group.join()
            case "leave" if len(group.members) > 1:
                group.leave(data.draw(members))
    # Four rounds suffice: the consumers apply an old revocation; they acknowledge it and are told
    # of the last one; they acknowledge that; everything is free.
    for _ in range(4):
        for member in group.members:
            group.heartbeat(member, tells_owned=True)
            group.apply(member)
    for member, current in group.members.items():
        assert current.state is MemberState.STABLE
        assert current.member_epoch == group.epoch
        assert current.assigned == group.owned[member] == group.targets[member]
        assert (
            reconcile(current, group.epoch, current.assigned, group.is_free, None, BOTH) is current
        )
