"""Transactions during storms of faults; run as a program it plays many seeds.

usage: python -m tests.support.simulated.transaction_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable

from minikafka.core.coordinator_shard import partition_for
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import FAULTS, full_disk, storm
from tests.support.simulated.campaign import campaign, counts_of
from tests.support.simulated.scenario import PARTITIONS, TOPIC, prepared
from tests.support.simulated.transactions import (
    StableOffsetChecker,
    Transactors,
    check_whole,
    none_hangs,
    read_committed,
)

COORDINATOR = TopicPartition(TRANSACTION_STATE_TOPIC, partition_for("seat-0", 2))
OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "min.insync.replicas": "2",
}
MORE = 12
TRANSACTION_FAULTS = (*FAULTS, full_disk)
STORM = 8
COUNTED = ("transaction-failed", "end-unknown", "transactor-fenced", "transaction_timed_out")


async def transacting(
    cluster: SimCluster,
    fault: Callable[[SimCluster], Awaitable[None]],
    version_2: bool = False,
) -> Transactors:
    """Run transactions of one version during ``fault``. Each must be whole or absent, and none may
    hang in the end."""
    await prepared(cluster)
    cluster.observers.append(StableOffsetChecker(cluster, PARTITIONS))
    transactors = Transactors(cluster, PARTITIONS, version_2=version_2)
    transactors.start()
    await cluster.until("transactions", lambda: transactors.ended > MORE)
    await fault(cluster)
    before = transactors.committed
    await cluster.until("commits go on", lambda: transactors.committed > before + MORE)
    await cluster.until_whole(*PARTITIONS, COORDINATOR, OFFSETS)
    await transactors.stop()
    everywhere = [*PARTITIONS, OFFSETS]
    await cluster.until("no transaction hangs", none_hangs(cluster, everywhere), 60)
    check_whole(transactors.ran, await read_committed(cluster, TOPIC))
    await transactors.check_offsets()
    return transactors


def play(seed: int) -> Counter[str]:
    """Run one seed with all checkers, every other one with transactions of version 2. Return how
    often each event happened. Raises as ``transacting``."""
    version_2 = seed % 2 == 1
    cluster = SimCluster(seed, settings=SETTINGS)
    counts = counts_of(cluster, COUNTED)
    transactors = cluster.run(
        lambda cluster: transacting(
            cluster, lambda c: storm(c, STORM, TRANSACTION_FAULTS), version_2
        )
    )
    counts["ended"] = transactors.ended
    counts["committed"] = transactors.committed
    return counts


if __name__ == "__main__":
    sys.exit(campaign(play))
