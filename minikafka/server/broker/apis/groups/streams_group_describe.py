"""StreamsGroupDescribe (key 89): topologies, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from minikafka.kernel.features import STREAMS_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from minikafka.server.broker.apis.groups.described_groups import DescribedKind, describe_api


def _topics_of(group: DescribedGroup) -> set[str]:
    """Return the topics of the group's topology."""
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    return {
        name
        for each in subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }


STREAMS_GROUP_DESCRIBE = describe_api(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    DescribedKind(
        STREAMS_VERSION,
        StreamsGroupDescribeResponse,
        DescribedGroup,
        lambda groups, name: groups.describe_streams_group(name),
        _topics_of,
        "The described group uses topics that the client is not authorized to describe.",
    ),
)
