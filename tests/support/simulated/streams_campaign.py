"""A streams group during storms of faults; run as a program it plays many seeds.

usage: python -m tests.support.simulated.streams_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.core.client.calls import Call
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS, LEAVES
from minikafka.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from minikafka.protocol.messages.streams_topology import (
    CopartitionGroup,
    Subtopology,
    TaskIds,
    TopicInfo,
)
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import FAULTS, killed, storm, unreachable
from tests.support.simulated.campaign import campaign, counts_of
from tests.support.simulated.groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    CommittingMember,
    SoleOwnerChecker,
    Travellers,
)
from tests.support.simulated.scenario import PARTITIONS, TOPIC, prepared

OFFSETS: Final = TopicPartition(GROUP_METADATA_TOPIC, 0)
REPARTITION: Final = f"{GROUP}-words-repartition"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "min.insync.replicas": "2",
    "group.streams.min.session.timeout.ms": str(SESSION_MS),
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.num.standby.replicas": "1",
}
# The second subtopology reads what the first one writes, and has a state.
TOPOLOGY: Final = Topology(
    1,
    [
        Subtopology("0", [TOPIC], repartition_sink_topics=[REPARTITION]),
        Subtopology(
            "1",
            repartition_source_topics=[TopicInfo(REPARTITION, 2)],
            state_changelog_topics=[TopicInfo(f"{GROUP}-counts-changelog")],
            copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
        ),
    ],
)
SOURCES: Final = {"0": TOPIC, "1": REPARTITION}
TASKS: Final = (*PARTITIONS, TopicPartition(REPARTITION, 0), TopicPartition(REPARTITION, 1))
SEATS: Final = 4
LIFE_MS: Final = 40_000
MORE_COMMITS: Final = 20
STORM: Final = 8
STREAMS_FAULTS: Final = (*FAULTS, unreachable)
COUNTED: Final = ("member_removed", "replica_became_leader")


class StreamsMember(CommittingMember):
    """A member of a streams group, alone in its process. Its partitions are the sources of its
    active tasks, which it gives up as soon as a response lacks them."""

    def __init__(self, cluster: SimCluster, checker: SoleOwnerChecker, name: str) -> None:
        super().__init__(cluster, checker, name)
        self._owners = checker
        self._name = f"member-{name}"
        self._standby: list[TaskIds] = []
        self._active: list[TaskIds] = []

    @property
    def member_id(self) -> str:
        return self._name

    async def leave(self) -> None:
        self._owners.gives_up(self._name)
        try:
            await self._heartbeat(StreamsGroupHeartbeatRequest(GROUP, self._name, LEAVES))
        except KafkaError as error:
            self._note_error(error.code)

    def _refused(self, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._owners.gives_up(self._name)
            self._give_up_partitions()

    async def _join(self) -> None:
        self._owners.joins(self._name)
        self._active, self._standby = [], []
        request = StreamsGroupHeartbeatRequest(
            GROUP,
            self._name,
            JOINS,
            rebalance_timeout_ms=REBALANCE_MS,
            topology=TOPOLOGY,
            process_id=self._name,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        self._follow(await self._heartbeat(request))

    async def _beat(self) -> None:
        request = StreamsGroupHeartbeatRequest(
            GROUP,
            self._name,
            self.generation,
            active_tasks=self._active,
            standby_tasks=self._standby,
            warmup_tasks=[],
        )
        self._follow(await self._heartbeat(request))

    async def _heartbeat(
        self, request: StreamsGroupHeartbeatRequest
    ) -> StreamsGroupHeartbeatResponse:
        def read(response: StreamsGroupHeartbeatResponse) -> StreamsGroupHeartbeatResponse:
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code), response.error_message)
            return response

        return await self._call(Call(request, read))

    def _follow(self, response: StreamsGroupHeartbeatResponse) -> None:
        self.generation = response.member_epoch
        if response.active_tasks is not None:
            self._active, self._standby = response.active_tasks, response.standby_tasks or []
            self.assigned = [
                TopicPartition(SOURCES[row.subtopology_id], partition)
                for row in self._active
                for partition in row.partitions
            ]
        self._owners.owns(self._name, self.generation, self.assigned)


async def streaming(
    cluster: SimCluster, fault: Callable[[SimCluster], Awaitable[None]]
) -> SoleOwnerChecker:
    """Run members that come, go, and die during ``fault``. Each active task has one owner in an
    epoch, no commit of a fenced member counts, and in the end all tasks are shared out."""
    await prepared(cluster)
    checker = SoleOwnerChecker(cluster, TASKS)
    travellers = Travellers(cluster, checker, StreamsMember, SEATS, LIFE_MS)
    travellers.start()
    await cluster.until("commits", lambda: checker.commits > MORE_COMMITS)
    await fault(cluster)
    before = checker.commits
    await cluster.until("commits go on", lambda: checker.commits > before + MORE_COMMITS)
    travellers.settle()
    await cluster.until("one stable epoch", travellers.is_stable, 300)
    return checker


async def coordinator_storm(cluster: SimCluster) -> None:
    """Kill the coordinator, cause a storm of faults, and kill the coordinator again."""
    dice = cluster.simulation.entropy.fork("coordinators")
    await killed(cluster, cluster.leader(OFFSETS), dice.randrange(12))
    await storm(cluster, STORM, STREAMS_FAULTS)
    await cluster.until("led", lambda: cluster.leader(OFFSETS) >= 0)
    await killed(cluster, cluster.leader(OFFSETS), dice.randrange(12))


def play(seed: int) -> Counter[str]:
    """Run one seed with all checkers; return how often each event happened. Raises as
    ``streaming``."""
    cluster = SimCluster(seed, settings=SETTINGS)
    counts = counts_of(cluster, COUNTED)
    checker = cluster.run(lambda cluster: streaming(cluster, coordinator_storm))
    counts["commits"] = checker.commits
    return counts


if __name__ == "__main__":
    sys.exit(campaign(play))
