"""Entities that describe groups of any Kafka: classic, consumer, share and streams groups.

The functions turn what the protocol says into facts. Their lists are bounded by the constants here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from minikafka.core.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from minikafka.core.client.admin.share_groups import ShareGroupDescription, SharePartitionStart
from minikafka.core.client.admin.streams_groups import (
    MemberTasks,
    StreamsGroupDescription,
    StreamsMemberDescription,
)
from minikafka.core.client.offsets import OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.page.dashboard.messages import Facts

MAX_MEMBERS: Final = 200  # of one group
MAX_GROUP_OFFSETS: Final = 1000  # of one group


def group_facts(
    listing: GroupListing,
    coordinator: int | None,
    description: GroupDescription | StreamsGroupDescription | None,
    committed: Mapping[TopicPartition, OffsetAndMetadata] | None,
    ends: Mapping[TopicPartition, int],
) -> Facts:
    """Return the facts of a group that commits offsets. ``committed`` is None if it could not be
    read; ``ends`` are high watermarks. ``lag`` and ``end``, the sum of the high watermarks, are of
    all partitions, also of those beyond the bound of the list; None if one is not known."""
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "committed": at.offset,
            "log_end_offset": ends.get(tp),
            "lag": max(0, ends[tp] - at.offset) if tp in ends else None,
            "metadata": at.metadata,
        }
        for tp, at in islice((committed or {}).items(), MAX_GROUP_OFFSETS)
    ]
    lag: int | None = None
    end: int | None = None
    if committed is not None and all(tp in ends for tp in committed):
        lag = sum(max(0, ends[tp] - at.offset) for tp, at in committed.items())
        end = sum(ends[tp] for tp in committed)
    if isinstance(description, StreamsGroupDescription):
        described = _streams_facts(description)
    else:
        described = _consumer_facts(description)
    return _listed(listing, coordinator) | described | {"offsets": rows, "lag": lag, "end": end}


def share_group_facts(
    listing: GroupListing,
    coordinator: int | None,
    description: ShareGroupDescription | None,
    starts: Mapping[TopicPartition, SharePartitionStart | KafkaError | None] | None,
    leaders: Mapping[TopicPartition, int],
) -> Facts:
    """Return the facts of a share group. ``starts`` is None if it could not be read. The lag is
    that of all share-partitions; None if one is not known."""
    begun = {
        tp: start
        for tp, start in sorted((starts or {}).items())
        if isinstance(start, SharePartitionStart)
    }
    lags = [start.lag for start in begun.values()]
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "leader": leaders.get(tp),
            "leader_epoch": start.leader_epoch,
            "start_offset": start.start_offset,
            "lag": start.lag,
        }
        for tp, start in islice(begun.items(), MAX_GROUP_OFFSETS)
    ]
    facts = _listed(listing, coordinator)
    if description is not None:
        members = [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": None,
                "epoch": member.epoch,
                "assignment": _by_topic(member.assignment),
            }
            for member in description.members[:MAX_MEMBERS]
        ]
        facts |= {
            "state": description.state,
            "protocol": description.assignor,
            "epoch": description.epoch,
            "target_epoch": description.target_epoch,
            "members": members,
        }
    known = [lag for lag in lags if lag is not None]
    lag = sum(known) if starts is not None and len(known) == len(lags) else None
    return facts | {"share_partitions": rows, "offsets": [], "lag": lag}


def _listed(listing: GroupListing, coordinator: int | None) -> dict[str, Any]:
    """Return what is known of a group that could not be described."""
    return {
        "group": listing.group_id,
        "type": listing.group_type.lower() or "classic",
        "state": listing.state,
        "protocol_type": listing.protocol_type,
        "protocol": "",
        "coordinator": coordinator,
        "epoch": None,
        "target_epoch": None,
        "members": [],
    }


def _consumer_facts(description: GroupDescription | None) -> dict[str, Any]:
    """Return the facts of a classic or a consumer group."""
    if description is None or description.state == "Dead":
        return {}
    epochs = description.epochs
    return {
        "state": description.state,
        "protocol": description.assignor,
        "epoch": epochs.group if epochs else None,
        "target_epoch": epochs.target_assignment if epochs else None,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.group_instance_id,
                "assignment": _by_topic(member.assignment),
                **_in_epochs(member),
            }
            for member in description.members[:MAX_MEMBERS]
        ],
    }


def _in_epochs(member: MemberDescription) -> Facts:
    """The epoch and the target of a member of a consumer group (KIP-848)."""
    consumer = member.consumer
    if consumer is None:
        return {}
    return {
        "epoch": consumer.epoch,
        "target_assignment": _by_topic(consumer.target_assignment),
    }


def _streams_facts(description: StreamsGroupDescription) -> dict[str, Any]:
    """Return the facts of a streams group. ``subtopologies`` are the topics that each one reads."""
    return {
        "state": description.state,
        "epoch": description.epoch,
        "target_epoch": description.target_assignment_epoch,
        "topology_epoch": description.topology_epoch,
        "subtopologies": {
            name: list(topics)
            for name, topics in islice(description.source_topics.items(), MAX_GROUP_OFFSETS)
        },
        "members": [_streams_member(each) for each in description.members[:MAX_MEMBERS]],
    }


def _streams_member(member: StreamsMemberDescription) -> Facts:
    """``tasks`` are partitions by subtopology, by the kind of the tasks."""
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "epoch": member.epoch,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "endpoint": None if member.endpoint is None else "{}:{}".format(*member.endpoint),
        "tasks": _tasks(member.assignment),
        "target_tasks": _tasks(member.target_assignment),
    }


def _tasks(tasks: MemberTasks) -> dict[str, dict[str, list[int]]]:
    kinds = {"active": tasks.active, "standby": tasks.standby, "warmup": tasks.warmup}
    return {
        kind: {name: list(partitions) for name, partitions in of_kind.items()}
        for kind, of_kind in kinds.items()
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for tp in partitions:
        found.setdefault(tp.topic, []).append(tp.partition)
    return found
