"""Facts about groups for operators: gauges under Kafka's names, and details for the debug
listener."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from minikafka.core.group.consumer.member import NOT_JOINED
from minikafka.core.group.description import CLASSIC
from minikafka.core.group.eviction import Eviction
from minikafka.core.group.group import Group, GroupState
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.modern.partitions import rows_of
from minikafka.core.group.result import AnyGroup
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.member import NOT_JOINED as SHARE_NOT_JOINED
from minikafka.core.group.streams.reconciliation import CurrentTasks
from minikafka.core.group.streams.tasks import task_rows
from minikafka.kernel.cluster import topic_id_text
from minikafka.kernel.metrics import Metrics
from minikafka.server.coordinator.group_coordinator import GroupCoordinator

MAX_MEMBERS = 500  # of all groups of one look
_PHASES = {GroupState.PREPARING_REBALANCE: "joining", GroupState.COMPLETING_REBALANCE: "syncing"}
_PREFIX = "kafka.coordinator.group:type=GroupMetadataManager,name="


def register_group_gauges(coordinator: GroupCoordinator, metrics: Metrics) -> None:
    metrics.gauge(f"{_PREFIX}NumGroups", lambda: sum(1 for _ in coordinator.groups()))
    metrics.gauge(
        f"{_PREFIX}NumOffsets",
        lambda: sum(len(group.offsets) for _, group in coordinator.groups()),
    )
    for state in GroupState:

        def count(state: GroupState = state) -> int:
            return sum(group.state is state for _, group in coordinator.groups())

        metrics.gauge(f"{_PREFIX}NumGroups{state.value}", count)


def all_group_facts(coordinator: GroupCoordinator, limit: int) -> dict[str, Any]:
    """Return details of the first ``limit`` groups, each with at most ``limit`` members.

    Times are milliseconds since 1970.
    """
    return _response(coordinator, (group for _, group in coordinator.groups()), limit)


def group_facts(coordinator: GroupCoordinator, limit: int, group_id: str) -> dict[str, Any]:
    """Return the details of one group, with at most ``limit`` members."""
    found = (group for _, group in coordinator.groups() if group.group_id == group_id)
    return _response(coordinator, found, limit)


def facts_of_each(coordinator: GroupCoordinator, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the details of the first ``limit`` groups, and of at most ``limit`` members of each and
    ``MAX_MEMBERS`` of all together. Other tasks may run between two of them."""
    left = MAX_MEMBERS
    for _, group in islice(coordinator.groups(), limit):
        yield _facts(group, min(limit, left))
        left = max(0, left - len(group.members))


def _response(
    coordinator: GroupCoordinator, groups: Iterable[AnyGroup], limit: int
) -> dict[str, Any]:
    return {
        "num_groups": coordinator.num_groups,
        "groups": [_facts(group, limit) for group in islice(groups, limit)],
    }


def _facts(group: AnyGroup, limit: int) -> dict[str, Any]:
    if isinstance(group, Group):
        return _classic_facts(group, limit)
    return _modern_facts(group, limit)


def _eviction(last: Eviction | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {"member": last.member_id, "reason": last.reason, "at_ms": last.at_ms}


def _classic_facts(group: Group, limit: int) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": CLASSIC,
        "state": group.state.value,
        "since_ms": group.state_since_ms,
        "generation": group.generation_id,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "num_members": len(group.members),
        "phase": _PHASES.get(group.state),
        "phase_deadline_ms": group.phase_deadline_ms if group.state in _PHASES else None,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "session_timeout_ms": member.session_timeout_ms,
                "heartbeat_deadline_ms": member.heartbeat_deadline_ms,
                "awaits_join": member.awaiting_join is not None,
                "awaits_sync": member.awaiting_sync is not None,
            }
            for member in islice(group.members.values(), limit)
        ],
        "pending_members": len(group.pending_members),
        "offsets": len(group.offsets),
        "last_eviction": _eviction(group.last_eviction),
    }


def _modern_facts(group: ModernGroup, limit: int) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.TYPE,
        "state": group.state.value,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "num_members": len(group.members),
        "members": [_member_facts(group, member_id) for member_id in islice(group.members, limit)],
        "offsets": len(group.offsets),
        "last_eviction": _eviction(group.last_eviction),
    }


def _member_facts(group: ModernGroup, member_id: str) -> dict[str, Any]:
    """The details of a member; ``assigned`` are partitions by topic id, in a streams group active
    tasks by subtopology."""
    if isinstance(group, ShareGroup):
        return _share_member_facts(group, member_id)
    metadata, current = group.members[member_id], group.current.get(member_id)
    facts = {
        "member": member_id,
        "instance": metadata.instance_id,
        "client": metadata.client_id,
        "host": metadata.client_host,
    }
    if isinstance(current, CurrentTasks):
        assigned = {r.subtopology_id: r.partitions for r in task_rows(current.assigned.active)}
        rest = current.pending_revocation.active
        revokes = {row.subtopology_id: row.partitions for row in task_rows(rest)}
    else:
        current = NOT_JOINED if current is None else current
        assigned = {topic_id_text(name): rows for name, rows in rows_of(current.assigned)}
        rows = rows_of(current.pending_revocation)
        revokes = {topic_id_text(name): some for name, some in rows}
    return facts | {
        "epoch": current.member_epoch,
        "state": current.state.name,
        "assigned": assigned,
        "revokes": revokes,
    }


def _share_member_facts(group: ShareGroup, member_id: str) -> dict[str, Any]:
    metadata, current = group.members[member_id], group.current.get(member_id, SHARE_NOT_JOINED)
    return {
        "member": member_id,
        "client": metadata.client_id,
        "host": metadata.client_host,
        "epoch": current.member_epoch,
        "assigned": {topic_id_text(name): rows for name, rows in rows_of(current.assigned)},
    }
