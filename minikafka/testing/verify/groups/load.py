"""The loads of ``groups`` and ``static-groups``: groups of both protocols that read one topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from minikafka.client import Admin, Consumer, ConsumerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.features import GROUP_VERSION
from minikafka.testing.verify.append.fill import ends_of_acknowledged, fill
from minikafka.testing.verify.append.history import Written
from minikafka.testing.verify.append.writer import ask_for_identity
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.groups.history import GroupHistory, GroupStep, LoggedOffsets
from minikafka.testing.verify.groups.judge import GroupAbout, evidence, judge
from minikafka.testing.verify.groups.member import LateCommit, VerifiedMember
from minikafka.testing.verify.lives import ABSENCE_MS, LOOK_MS, Seats
from minikafka.testing.verify.workload import Scene

SEATS = 3
# Kafka's group.min.session.timeout.ms; a member that is slow for longer is removed, too.
SESSION_MS = 6_000
# A dead member of the consumer protocol has its partitions for 45 s by default.
PATIENCE_MS = 120_000

Keys = dict[str, Any]
CLASSIC: Final[Keys] = {
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": 1_000,
}
# The groups, by the ends of their names.
CLASSIC_GROUPS: Final[dict[str, Keys]] = {
    "eager": {**CLASSIC, "partition_assignment_strategy": ("range",)},
    "cooperative": {**CLASSIC, "partition_assignment_strategy": ("cooperative-sticky",)},
}
CONSUMER_GROUPS: Final[dict[str, Keys]] = {"consumer": {"group_protocol": "consumer"}}


class GroupLoad:
    """Keeps members in one group, until they have received all that was written."""

    def __init__(self, scene: Scene, topic: str, name: str, keys: Keys, is_static: bool) -> None:
        self.history = GroupHistory(f"{topic}-{name}", keys.get("group_protocol", "classic"))
        self._scene = scene
        self._topic = topic
        self._keys = keys
        self._is_static = is_static
        self._late: list[LateCommit] = []
        self._seats = Seats(scene, self._make, self._absence_ms)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for seat in range(SEATS):
                tasks.create_task(self._seats.sit(seat))
            await self._scene.stop.wait()
            await self._settle()
            self._seats.leave.set()

    async def _settle(self) -> None:
        """Wait until the members share all partitions and have received all that was written."""
        scene, written = self._scene, self.history.written
        end_ms = scene.now_ms() + PATIENCE_MS
        while scene.now_ms() < end_ms and not (written and self._is_whole()):
            await scene.sleep(LOOK_MS)
            written = self.history.written
        self.history.events.add(GroupStep.SETTLED, scene.now_ms())

    def _is_whole(self) -> bool:
        history = self.history
        owned = sorted(at for member in self._seats.members.values() for at in member.owned)
        return owned == sorted(history.written) and all(
            history.received.get(partition, 0) >= end for partition, end in history.written.items()
        )

    def _make(self, seat: int, name: str) -> VerifiedMember:
        config = ConsumerConfig(
            group_id=self.history.group,
            group_instance_id=f"{self._scene.run}-{seat}" if self._is_static else None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_interval_ms=SESSION_MS,
            **self._keys,
        )
        return VerifiedMember(self._scene, self.history, self._topic, config, name, self._late)

    def _absence_ms(self) -> int:
        """Static members mostly come back within their session."""
        choose = self._scene.world.entropy.randrange
        return choose(ABSENCE_MS if choose(4) or not self._is_static else 2 * SESSION_MS)


class Groups:
    """See ``Workload``."""

    name: ClassVar[str] = "groups"
    promise: ClassVar[str] = "no record skipped, no commit undone, no partition with two owners"
    _is_static: ClassVar[bool] = False

    def __init__(self, scene: Scene) -> None:
        topic = scene.topic_of(self.name)
        self.topics = [topic]
        self._scene = scene
        self._topic = topic
        self._written = Written(0)
        self._groups: list[GroupLoad] = []

    async def prepare(self) -> None:
        scene = self._scene
        await scene.create_topic(self._topic, configs={"cleanup.policy": "delete"})
        groups = dict(CLASSIC_GROUPS)
        async with Admin(scene.world, scene.client) as admin:
            await ask_for_identity(admin.session, admin.session.deadline_ms())
            if (await admin.describe_features()).finalized.get(GROUP_VERSION, 0):
                groups |= CONSUMER_GROUPS
        self._groups = [
            GroupLoad(scene, self._topic, name, keys, self._is_static)
            for name, keys in groups.items()
        ]

    async def load(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for group in self._groups:
                tasks.create_task(group.run(), name=group.history.group)
            config = self._scene.config
            await fill(self._scene, self._topic, self._written, config.records_per_s)
            ends = ends_of_acknowledged(self._written, config.partitions)
            for group in self._groups:
                group.history.written = ends

    async def conclude(self) -> None:
        scene = self._scene
        partitions = [TopicPartition(self._topic, at) for at in range(scene.config.partitions)]
        log = {tp.partition: LoggedOffsets() for tp in partitions}
        config = ConsumerConfig(auto_offset_reset="earliest")
        async with Consumer(scene.world, scene.client, config) as consumer:
            consumer.assign(partitions)
            async for record in consumer.read_to():
                log[record.partition].append(record.offset)
        async with Admin(scene.world, scene.client) as admin:
            for group in self._groups:
                group.history.log = log
                found = await admin.group_offsets(group.history.group, partitions)
                group.history.committed = {tp.partition: at.offset for tp, at in found.items()}

    def judge(self) -> list[Finding]:
        return [finding for group in self._groups for finding in judge(group.history)]

    def evidence(self, finding: Finding) -> Iterator[str]:
        for group in self._groups:
            if finding.about and group.history.group == finding.about[0]:
                yield from evidence(group.history, GroupAbout(*finding.about))

    def counts(self) -> dict[str, int]:
        histories = [group.history for group in self._groups]

        def sum_of(step: GroupStep) -> int:
            return sum(history.events.counts[step] for history in histories)

        return {
            "polls": sum_of(GroupStep.POLLED),
            "groups": len(histories),
            "members": sum(len(history.members) for history in histories),
            "commits_acknowledged": sum_of(GroupStep.COMMITTED),
            "commits_refused_or_in_doubt": sum_of(GroupStep.REFUSED),
            "partitions_assigned": sum_of(GroupStep.ASSIGNED),
            "partitions_lost": sum_of(GroupStep.LOST),
            "records_written": self._written.acknowledged,
        }


class StaticGroups(Groups):
    """The same with static members, most of which come back within their session."""

    name: ClassVar[str] = "static-groups"
    _is_static: ClassVar[bool] = True
