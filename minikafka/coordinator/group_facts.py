"""What a coordinator shows of its groups to who looks in, beyond what DescribeGroups tells."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from minikafka.coordinator.shards import GroupShards
from minikafka.core.group.group import Group


def group_facts(shards: GroupShards, limit: int, group_id: str | None = None) -> dict[str, Any]:
    """Of one group, or of ``limit``, in the order in which they came to their partitions. Times are
    milliseconds since 1970."""
    if group_id is None:
        found = [group for _, group in islice(shards.groups(), limit)]
    else:
        found = [group for group in _all(shards) if group.group_id == group_id]
    return {
        "num_groups": sum(1 for _ in _all(shards)),
        "groups": [_facts(group, limit) for group in found],
    }


def _all(shards: GroupShards) -> Iterator[Group]:
    for runtime in shards.loaded():
        yield from runtime.shard.groups.values()


def _facts(group: Group, limit: int) -> dict[str, Any]:
    last = group.last_eviction
    return {
        "group": group.group_id,
        "state": group.state.value,
        "since_ms": group.state_since_ms,
        "generation": group.generation_id,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "num_members": len(group.members),
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "session_timeout_ms": member.session_timeout_ms,
                "awaits_join": member.awaiting_join is not None,
                "awaits_sync": member.awaiting_sync is not None,
            }
            for member in islice(group.members.values(), limit)
        ],
        "pending_members": len(group.pending_members),
        "offsets": len(group.offsets),
        "last_eviction": None
        if last is None
        else {"member": last.member_id, "reason": last.reason, "at_ms": last.at_ms},
    }
