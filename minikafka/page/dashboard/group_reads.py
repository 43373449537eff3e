"""Reads groups of every type from a cluster, by the requests for their types."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import islice

from minikafka.core.client.admin.groups import SHARE, STREAMS, GroupListing
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.cluster_facts import FailedCall
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.group_facts import group_facts, share_group_facts
from minikafka.page.dashboard.messages import Facts


async def read_groups(
    reader: ClusterReader,
    listed: Mapping[str, tuple[int, GroupListing]],
    ends: Mapping[TopicPartition, int],
    errors: list[FailedCall],
    max_ends: int | None = None,
) -> dict[str, Facts]:
    """Return the facts of each group. ``listed`` has their coordinators; ``ends`` are high
    watermarks that are known; those of up to ``max_ends`` further partitions are requested."""
    share = {name: row[0] for name, row in listed.items() if row[1].group_type == SHARE}
    streams = {name: row[0] for name, row in listed.items() if row[1].group_type == STREAMS}
    committing = {name: row[0] for name, row in listed.items() if name not in share}
    classic = {name: broker for name, broker in committing.items() if name not in streams}
    described, of_streams, of_share, committed, starts = await asyncio.gather(
        reader.describe_groups(classic, errors),
        reader.describe_streams_groups(streams, errors),
        reader.describe_share_groups(share, errors),
        reader.committed(committing, errors),
        reader.share_starts(share, errors),
    )
    missing = {tp for offsets in committed.values() for tp in offsets if tp not in ends}
    known = {**ends, **await reader.ends(islice(sorted(missing), max_ends), errors)}
    commits = described | of_streams
    return {
        name: share_group_facts(
            listing, broker, of_share.get(name), starts.get(name), reader.view.leaders
        )
        if name in share
        else group_facts(listing, broker, commits.get(name), committed.get(name), known)
        for name, (broker, listing) in listed.items()
    }
