"""StreamsGroupDescribe (KIP-1071): streams groups with their topologies and tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from minikafka.core.client.calls import Call, error_of, of_each
from minikafka.core.client.cluster_view import Node
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from minikafka.protocol.messages.streams_topology import TaskIds

# Subtopology id to partitions of its sources, in the order of the response.
Tasks: TypeAlias = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """The tasks of a member by their kind."""

    active: Tasks
    standby: Tasks
    warmup: Tasks


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    """A member of a streams group. Members with one ``process_id`` are threads of one process.
    ``endpoint``, a host and a port, is where it answers interactive queries."""

    member_id: str
    epoch: int
    process_id: str
    client_id: str
    host: str
    is_classic: bool
    assignment: MemberTasks
    target_assignment: MemberTasks
    instance_id: str | None
    topology_epoch: int
    endpoint: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group. ``source_topics`` are those that the tasks of a subtopology read, by its id,
    with repartition topics; ``external_topics`` are all of them but repartition topics.
    ``internal_topics`` are repartition and changelog topics."""

    group_id: str
    state: str
    epoch: int
    target_assignment_epoch: int
    topology_epoch: int
    source_topics: dict[str, tuple[str, ...]]
    external_topics: frozenset[str]
    internal_topics: frozenset[str]
    members: tuple[StreamsMemberDescription, ...]
    coordinator: Node

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that active tasks read. Some may not exist: the topics of a subtopology
        need not have the same number of partitions."""
        return frozenset(
            TopicPartition(topic, partition)
            for member in self.members
            for subtopology, partitions in member.assignment.active.items()
            for topic in self.source_topics.get(subtopology, ())
            for partition in partitions
        )


def describe_streams_groups(
    group_ids: Iterable[str], coordinator: Node
) -> Call[dict[str, StreamsGroupDescription | KafkaError]]:
    """Build StreamsGroupDescribe for groups that have one coordinator. The result has the outcome
    of each group; a group of another type has the error GROUP_ID_NOT_FOUND."""

    def read(
        response: StreamsGroupDescribeResponse,
    ) -> dict[str, StreamsGroupDescription | KafkaError]:
        found = {
            row.group_id: error_of(row.error_code, row.error_message or row.group_id)
            or _description(row, coordinator)
            for row in response.groups
        }
        return of_each(wanted, found)

    wanted = list(group_ids)
    return Call(StreamsGroupDescribeRequest(wanted), read)


def _description(row: DescribedGroup, coordinator: Node) -> StreamsGroupDescription:
    subtopologies = [] if row.topology is None else row.topology.subtopologies or []
    external = frozenset(topic for each in subtopologies for topic in each.source_topics)
    internal = frozenset(
        topic.name
        for each in subtopologies
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    )
    return StreamsGroupDescription(
        row.group_id,
        row.group_state,
        row.group_epoch,
        row.assignment_epoch,
        -1 if row.topology is None else row.topology.epoch,
        {
            each.subtopology_id: (
                *each.source_topics,
                *(topic.name for topic in each.repartition_source_topics),
            )
            for each in subtopologies
        },
        external,
        internal - external,  # a source topic may serve as a changelog
        tuple(map(_member, row.members)),
        coordinator,
    )


def _member(member: Member) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member.member_id,
        member.member_epoch,
        member.process_id,
        member.client_id,
        member.client_host,
        member.is_classic,
        _assignment(member.assignment),
        _assignment(member.target_assignment),
        member.instance_id,
        member.topology_epoch,
        None if endpoint is None else (endpoint.host, endpoint.port),
    )


def _assignment(found: Assignment) -> MemberTasks:
    return MemberTasks(
        _tasks(found.active_tasks), _tasks(found.standby_tasks), _tasks(found.warmup_tasks)
    )


def _tasks(rows: list[TaskIds]) -> Tasks:
    return {row.subtopology_id: tuple(row.partitions) for row in rows}
