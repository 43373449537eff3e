"""The contents of StreamsGroupDescribe responses."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.core.group.streams.group import StreamsGroup
from minikafka.core.group.streams.member import NOT_JOINED, tag_rows
from minikafka.core.group.streams.tasks import NO_TASKS, TaskAssignment, task_rows
from minikafka.core.group.streams.topology import InternalTopic
from minikafka.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    DescribedSubtopology,
    DescribedTopology,
    Member,
)
from minikafka.protocol.messages.streams_topology import (
    KeyValue,
    Subtopology,
    TopicInfo,
    UserEndpoint,
)


def streams_described(group: StreamsGroup) -> DescribedGroup:
    """Return the StreamsGroupDescribe row of a group."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member_id) for member_id in group.members],
    )


def _topology(group: StreamsGroup) -> DescribedTopology | None:
    """Return the topology with the partition counts of its internal topics, or as the members sent
    it if the topics are not as they must be."""
    topology, configured = group.topology, group.configured
    if topology is None:
        return None
    ordered = sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
    if configured is None or not configured.is_ready or configured.subtopologies is None:
        rows = [
            _subtopology(each, each.state_changelog_topics, each.repartition_source_topics)
            for each in ordered
        ]
        return DescribedTopology(topology.epoch, rows)
    return DescribedTopology(
        topology.epoch,
        [
            _subtopology(
                each,
                map(_topic, configured.subtopologies[each.subtopology_id].changelogs.values()),
                map(
                    _topic,
                    configured.subtopologies[each.subtopology_id].repartition_sources.values(),
                ),
            )
            for each in ordered
        ],
    )


def _subtopology(
    subtopology: Subtopology, changelogs: Iterable[TopicInfo], sources: Iterable[TopicInfo]
) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology.subtopology_id,
        sorted(subtopology.source_topics),
        sorted(subtopology.repartition_sink_topics),
        sorted(changelogs, key=lambda topic: topic.name),
        sorted(sources, key=lambda topic: topic.name),
    )


def _topic(topic: InternalTopic) -> TopicInfo:
    configs = [KeyValue(*config) for config in topic.configs.items()]
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _member(group: StreamsGroup, member_id: str) -> Member:
    member, current = group.members[member_id], group.current.get(member_id, NOT_JOINED)
    return Member(
        member_id=member_id,
        member_epoch=current.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else UserEndpoint(*member.endpoint),
        client_tags=tag_rows(member),
        assignment=_assignment(current.assigned),
        target_assignment=_assignment(group.targets.get(member_id, NO_TASKS)),
    )


def _assignment(tasks: TaskAssignment) -> Assignment:
    return Assignment(task_rows(tasks.active), task_rows(tasks.standby), task_rows(tasks.warmup))
