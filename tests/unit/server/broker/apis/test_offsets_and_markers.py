"""Offsets of a transaction and its marker, on replicas that get both in one fetch."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minikafka.core.coordinator_shard import InTransaction
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.transactions.write_txn_markers import WriteTxnMarkersHandler
from minikafka.server.broker.coordinator_log import CoordinatorLog
from tests.support.broker.replicas import TOPIC, ReplicaCluster
from tests.support.coordinator.group_lab import GroupLab

PID = 7


@pytest.mark.parametrize("committed", [True, False])
async def test_one_fetch_may_replicate_offsets_and_the_marker_that_ends_them(
    committed: bool,
) -> None:
    """The marker also goes to another partition. The coordinator is notified of it as soon as the
    first of both partitions is checked."""
    async with ReplicaCluster([1, 2]) as cluster:
        replicated: dict[str, Any] = {"isr": [1, 2], "replicas": [1, 2]}
        await cluster.elect(1, **replicated)
        await cluster.elect(1, **replicated, topic=GROUP_METADATA_TOPIC, topic_id=UUID(int=5))
        replicas = cluster[1].replicas
        await cluster.clock.advance(1000)
        cluster.freeze(2)
        await cluster.clock.advance(600)

        lab = GroupLab(log=CoordinatorLog(replicas, GROUP_METADATA_TOPIC, 60_000, cluster.workers))
        stored = lab.commit({(TOPIC, 0): 5}, transaction=InTransaction(PID, 0))
        replies: list[Any] = []
        WriteTxnMarkersHandler(replicas, cluster.clock, lab.coordinator.transaction_ended, 60_000)(
            RequestContext(RequestHeader(0, 1, 1), "OUT", "h"),
            WriteTxnMarkersRequest(
                [
                    WritableTxnMarker(
                        PID,
                        0,
                        committed,
                        [
                            WritableTxnMarkerTopic(TOPIC, [0]),
                            WritableTxnMarkerTopic(GROUP_METADATA_TOPIC, [0]),
                        ],
                    )
                ]
            ),
            replies.append,
        )
        assert not stored
        assert not replies
        cluster.thaw(2)
        await cluster.clock.advance(5000)
        assert (len(stored), len(replies)) == (1, 1)
        assert lab.committed() == ({(TOPIC, 0): 5} if committed else {})
        assert not lab.group.offsets.awaits(PID)
