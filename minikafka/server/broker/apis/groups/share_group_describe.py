"""ShareGroupDescribe (key 77): epochs, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeResponse,
)
from minikafka.server.broker.apis.groups.described_groups import DescribedKind, describe_api


def _topics_of(group: DescribedGroup) -> set[str]:
    return {
        row.topic_name for member in group.members for row in member.assignment.topic_partitions
    }


SHARE_GROUP_DESCRIBE = describe_api(
    ApiKey.SHARE_GROUP_DESCRIBE,
    DescribedKind(
        SHARE_VERSION,
        ShareGroupDescribeResponse,
        DescribedGroup,
        lambda groups, name: groups.describe_share_group(name),
        _topics_of,
    ),
)
