"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from minikafka.kernel.features import GROUP_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from minikafka.server.broker.apis.groups.described_groups import DescribedKind, describe_api


def _topics_of(group: DescribedGroup) -> set[str]:
    return {
        row.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for row in assignment.topic_partitions
    }


CONSUMER_GROUP_DESCRIBE = describe_api(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    DescribedKind(
        GROUP_VERSION,
        ConsumerGroupDescribeResponse,
        DescribedGroup,
        lambda groups, name: groups.describe_consumer_group(name),
        _topics_of,
    ),
)
