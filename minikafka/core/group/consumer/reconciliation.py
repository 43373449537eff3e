"""The steps by which a member of a consumer group comes from its assignment to its target.

KIP-848, Kafka's ``CurrentAssignmentBuilder``. A member first revokes what its target lacks and
stays in its epoch until it has acknowledged that (UNREVOKED_PARTITIONS). Then it takes the epoch of
the target and the partitions of it that no member holds. As long as another member still holds some
of them it is in UNRELEASED_PARTITIONS, and receives them one heartbeat after they became free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from uuid import UUID

from minikafka.core.group.modern.partitions import (
    Partitions,
    difference,
    intersection,
    of_topics,
    overlap,
    union,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass


class MemberState(IntEnum):
    """How far a member is with its reconciliation, by the numbers in the coordinator's records.

    STABLE: it has the assignment of the target of its epoch.
    UNREVOKED_PARTITIONS: it has yet to acknowledge that it revoked partitions.
    UNRELEASED_PARTITIONS: it is in the target's epoch, and waits for partitions of other members.
    UNKNOWN: a record of a later version has a state that this version does not know.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What a member has been assigned (Kafka's ``ConsumerGroupCurrentMemberAssignmentValue``).

    ``assigned`` are the partitions that it may own. ``pending_revocation`` are those that it has to
    revoke; it still holds them until it acknowledges that it did. ``previous_member_epoch`` is the
    epoch before the last step, by which a member may heartbeat again if it missed the response.
    """

    state: MemberState
    member_epoch: int
    previous_member_epoch: int
    assigned: Partitions
    pending_revocation: Partitions


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    is_free: Callable[[UUID, int], bool],
    owned: Partitions | None,
    topics: frozenset[UUID],
    subscribes_anew: bool = False,
) -> CurrentAssignment:
    """Return the next assignment of a member on its way to ``target``, after a heartbeat.

    Return ``current`` itself if there is no step to take: the member has reached the target, or it
    waits. ``target_epoch`` is the epoch of ``target`` and at least that of the member.
    ``is_free(topic_id, partition)`` says that no other member of the group has the partition
    assigned or pending revocation. ``owned`` is what the heartbeat says that the member owns; None
    if it did not say. ``topics`` are those of its subscription, which the heartbeat changed if
    ``subscribes_anew``. A member gives up partitions of other topics even where it takes no step
    towards the target: it waits, or its new regular expression has not been resolved yet.

    Raise KafkaError (FENCED_MEMBER_EPOCH) in the state UNKNOWN, unless the member owns nothing.
    """
    match current.state:
        case MemberState.STABLE if current.member_epoch == target_epoch:
            return _without_others(current, topics, owned) if subscribes_anew else current
        case MemberState.UNREVOKED_PARTITIONS if _owns(owned, current.pending_revocation):
            return _without_others(current, topics, owned) if subscribes_anew else current
        case MemberState.UNKNOWN if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "the state of the member is unknown to this version of the coordinator: the member"
                " must abandon its partitions and join again",
            )
    wanted = of_topics(target, topics)
    after = _next_assignment(current, target_epoch, wanted, is_free, owned)
    return current if after == current else after


def _without_others(
    current: CurrentAssignment, topics: frozenset[UUID], owned: Partitions | None
) -> CurrentAssignment:
    """Let a member revoke its partitions of topics other than ``topics``, in its epoch. Return
    ``current`` if it has none."""
    kept = of_topics(current.assigned, topics)
    if kept is current.assigned:
        return current
    revoked = union(current.pending_revocation, difference(current.assigned, kept))
    if not _owns(owned, revoked):
        return replace(current, assigned=kept)
    return replace(
        current,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=kept,
        pending_revocation=revoked,
    )


def _owns(owned: Partitions | None, revoked: Partitions) -> bool:
    """Return whether the member may still own some of ``revoked``: it says so, or says nothing."""
    return bool(revoked) and (owned is None or overlap(owned, revoked))


def _next_assignment(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    is_free: Callable[[UUID, int], bool],
    owned: Partitions | None,
) -> CurrentAssignment:
    """Revoke what the target lacks; if the member owns none of that, assign what is free.

    With a revocation the member stays in its epoch, also if it is the second one in a row: Kafka
    4.2 does so, 4.1 adds one to the epoch.
    """
    kept = intersection(current.assigned, target)
    revoked = difference(current.assigned, target)
    if _owns(owned, revoked):
        return CurrentAssignment(
            MemberState.UNREVOKED_PARTITIONS,
            current.member_epoch,
            current.member_epoch,
            kept,
            revoked,
        )
    missing = difference(target, kept)
    free = _free(missing, current.pending_revocation, is_free)
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    return CurrentAssignment(state, target_epoch, current.member_epoch, union(kept, free), {})


def _free(
    missing: Partitions, given_up: Partitions, is_free: Callable[[UUID, int], bool]
) -> Partitions:
    """Return what the member may have of ``missing`` now, ``given_up`` being what it just revoked.

    If the target has meanwhile returned a partition that the member revoked, nobody else can have
    it. Kafka counts it as free since 4.2.
    """
    free = {
        topic: frozenset(p for p in some if p in given_up.get(topic, ()) or is_free(topic, p))
        for topic, some in missing.items()
    }
    return {topic: some for topic, some in free.items() if some}
