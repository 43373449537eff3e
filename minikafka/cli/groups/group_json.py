"""JSON of consumer groups, as `groups list --json` and `groups describe --json` print it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minikafka.cli.groups.group_text import LagRow
from minikafka.cli.output import MISSING
from minikafka.core.client.admin.groups import GroupDescription, GroupListing
from minikafka.kernel.cluster import grouped


def listing_json(group: GroupListing) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocolType": group.protocol_type,
    }


def group_json(
    group: GroupDescription, rows: Sequence[LagRow] | None, eviction: str | None
) -> dict[str, Any]:
    """Return a group with its members; with ``rows`` also its offsets, and the sum of their lags,
    which is null if no lag is known."""
    shown: dict[str, Any] = {
        "group": group.group_id,
        "state": group.state,
        "protocolType": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": {
            "id": group.coordinator.id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "host": member.host,
                "assignment": grouped(sorted(member.assignment)),
            }
            for member in group.members
        ],
    }
    if rows is not None:
        lags = [row.lag for row in rows if row.lag is not None]
        shown["lag"] = sum(lags) if lags else None
        shown["offsets"] = [_offset_json(row) for row in rows]
    if eviction is not None:
        shown["lastEviction"] = eviction
    return shown


def _offset_json(row: LagRow) -> dict[str, Any]:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "currentOffset": row.current,
        "logEndOffset": row.end,
        "lag": row.lag,
        "memberId": None if row.member_id == MISSING else row.member_id,
    }
