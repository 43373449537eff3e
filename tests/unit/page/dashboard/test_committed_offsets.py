"""The offsets of many groups: a few requests to each coordinator, whatever its version."""

from __future__ import annotations

from math import ceil

import pytest

from minikafka.core.client.offsets import OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.cluster_facts import FailedCall
from minikafka.page.dashboard.cluster_reader import GROUPS_AT_ONCE, ClusterReader
from minikafka.testing.inside.cluster import InsideCluster

GROUPS = {f"g{number:03}": number for number in range(GROUPS_AT_ONCE + 20)}
TP = TopicPartition("committed", 0)


@pytest.mark.mission("GLASS-15")
@pytest.mark.parametrize("version", [None, "2.8"])
def test_the_offsets_of_all_groups_are_read(version: str | None) -> None:
    with InsideCluster() as cluster:
        cluster.create_topic(TP.topic)
        cluster.call(commit(cluster))
        cluster.as_version(version)
        assert cluster.call(read(cluster)) == (GROUPS, [])
        requests = cluster.requests("OffsetFetch")
        by_group = len(GROUPS) + 1  # nothing is committed by the last one
        expected = ceil(by_group / GROUPS_AT_ONCE) if version is None else by_group
        assert len(requests) == expected


async def commit(cluster: InsideCluster) -> None:
    async with cluster.admin() as admin:
        for group, number in GROUPS.items():
            await admin.alter_group_offsets(group, {TP: OffsetAndMetadata(number, "", -1)})


async def read(cluster: InsideCluster) -> tuple[dict[str, int], list[FailedCall]]:
    errors: list[FailedCall] = []
    async with cluster.admin() as admin:
        reader = ClusterReader(admin)
        await reader.all_topics(0)
        await reader.list_groups(errors)  # connects
        found = await reader.committed(dict.fromkeys([*GROUPS, "unknown"], 1), errors)
    return {name: offsets[TP].offset for name, offsets in found.items() if TP in offsets}, errors
