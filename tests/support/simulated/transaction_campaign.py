"""The transactional workloads of verify during storms of faults; as a program it plays many seeds.

usage: python -m tests.support.simulated.transaction_campaign FIRST END
"""

from __future__ import annotations

import asyncio
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
from minikafka.testing.verify.report import RunVerdict, WorkloadVerdict
from minikafka.testing.verify.run import Progress, Run
from minikafka.testing.verify.transactions.load import Transactions
from minikafka.testing.verify.transform.load import ConsumeTransformProduce
from minikafka.testing.verify.workload import RunConfig
from tests.support.simulated.campaign import campaign
from tests.support.simulated.transactions import StableOffsetChecker, none_hangs
from tests.support.simulated.verified import NEVER_MS, up

TOPIC = "flights"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "min.insync.replicas": "2",
}
# Without features a cluster has transactions of version 1, with them those of version 2 (KIP-890).
VERSION_1 = SETTINGS | {"group.coordinator.rebalance.protocols": "classic"}
WORKLOADS = (Transactions, ConsumeTransformProduce)
MORE = 12
TRANSACTION_FAULTS = (*FAULTS, full_disk)
STORM = 8
PARTITIONS_OF_A_TOPIC = 3


def partitions_of(workload: type[Transactions]) -> list[TopicPartition]:
    """Return the partitions that the transactions of a workload write to."""
    return [TopicPartition(f"{TOPIC}-{workload.name}", n) for n in range(PARTITIONS_OF_A_TOPIC)]


def coordinator_of(workload: type[Transactions]) -> TopicPartition:
    """Return the partition of the coordinator of the workload's first producer."""
    partition = partition_for(f"{TOPIC}-{workload.name}-0", 2)
    return TopicPartition(TRANSACTION_STATE_TOPIC, partition)


async def transacting(
    cluster: SimCluster,
    fault: Callable[[SimCluster], Awaitable[None]],
    workload: type[Transactions] = Transactions,
) -> WorkloadVerdict:
    """Run a workload during ``fault``. Its judge must find nothing, and no transaction may hang in
    any replica in the end."""
    partitions = partitions_of(workload)
    whole = [*partitions, coordinator_of(workload)]
    await up(cluster)
    cluster.observers.append(StableOffsetChecker(cluster, partitions))
    config = RunConfig(
        NEVER_MS, 2, 1, PARTITIONS_OF_A_TOPIC, records_per_s=20, topic=TOPIC, keep_topic=True
    )
    reports: list[Progress] = []
    verdicts: list[RunVerdict] = []
    world = cluster.client_host.world
    run = Run(world, cluster.client_config, config, reports.append, [workload])

    async def execute() -> None:
        verdicts.append(await run.execute())

    def committed() -> int:
        return reports[-1].counts[workload.name]["transactions_committed"] if reports else 0

    running = cluster.spawn_client(execute(), "verify")
    await cluster.until("transactions", lambda: committed() > MORE)
    await fault(cluster)
    before = committed()
    await cluster.until("commits go on", lambda: committed() > before + MORE)
    await cluster.until_whole(*whole)
    run.stop()
    await asyncio.wait([running])
    running.result()
    everywhere = [*partitions, TopicPartition(GROUP_METADATA_TOPIC, 0)]
    await cluster.until("no transaction hangs", none_hangs(cluster, everywhere), 60)
    assert verdicts[0].ok, "\n".join(verdicts[0].lines())
    return verdicts[0].workloads[0]


def play(seed: int) -> Counter[str]:
    """Run one seed: workloads and versions of transactions take turns. Return what was counted.
    Raises as ``transacting``."""
    cluster = SimCluster(seed, settings=SETTINGS if seed % 2 else VERSION_1)
    workload = WORKLOADS[seed // 2 % 2]
    verdict = cluster.run(
        lambda cluster: transacting(
            cluster, lambda c: storm(c, STORM, TRANSACTION_FAULTS), workload
        )
    )
    return Counter(verdict.counts)


if __name__ == "__main__":
    sys.exit(campaign(play))
