"""Checks of a heartbeat's sender: room in the group, membership, the member epoch."""

from __future__ import annotations

from typing import Final

from minikafka.core.group.modern.group import ModernGroup
from minikafka.kernel.errors import ErrorCode, KafkaError

_ABANDON: Final = "The member must abandon all its partitions and rejoin."


def check_room(group: ModernGroup, max_size: int) -> None:
    """Raise KafkaError (GROUP_MAX_SIZE_REACHED) if the group has no room for another member."""
    if len(group.members) >= max_size:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {group.TYPE} group has reached its maximum capacity of {max_size} members.",
        )


def check_member(group: ModernGroup, member_id: str) -> None:
    """Raise KafkaError (UNKNOWN_MEMBER_ID) for a member that the group does not have."""
    if member_id not in group.members:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )


def fenced(group: ModernGroup, member_epoch: int, known_epoch: int, detail: str = "") -> KafkaError:
    """Return the error (FENCED_MEMBER_EPOCH) of a member whose epoch is not the known one."""
    comparison = "greater" if member_epoch > known_epoch else "smaller"
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {group.TYPE} group member has a {comparison} member epoch ({member_epoch}) than the "
        f"one known by the group coordinator ({known_epoch}){detail}. {_ABANDON}",
    )
