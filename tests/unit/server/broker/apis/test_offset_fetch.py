"""OffsetFetch: the rows of its response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from minikafka.core.group.description import FetchedOffset
from minikafka.core.group.records import CommittedOffset
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minikafka.server.broker.apis.groups.offset_fetch import OffsetFetchHandler
from minikafka.server.broker.apis.request import RequestContext


class Groups:
    """A coordinator whose groups have committed offset 5 of each partition."""

    def fetch(
        self, group_id: str, requested: Sequence[TopicPartition], require_stable: bool, **_: Any
    ) -> list[FetchedOffset]:
        return [FetchedOffset(each, CommittedOffset(5)) for each in requested]


@pytest.mark.parametrize("version", range(1, 10))
def test_a_partition_that_is_named_twice_has_one_row(version: int) -> None:
    many = [OffsetFetchRequestTopics("t", partition_indexes=each) for each in ([1, 0, 1], [0])]
    one = [OffsetFetchRequestTopic("t", [1, 0, 1]), OffsetFetchRequestTopic("t", [0])]
    request = OffsetFetchRequest("g", one, [OffsetFetchRequestGroup("g", topics=many)])
    handler = OffsetFetchHandler(cast(Any, Groups()), cast(Any, None), cast(Any, None))
    responses: list[Any] = []
    handler(RequestContext(RequestHeader(9, version, 1), "L", "h"), request, responses.append)
    topics = responses[0].topics if version < 8 else responses[0].groups[0].topics
    rows = [(t.name, p.partition_index, p.committed_offset) for t in topics for p in t.partitions]
    assert rows == [("t", 1, 5), ("t", 0, 5)]
