"""The load of ``share-groups``: members that share the records of one topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar

from minikafka.client import Admin
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import SHARE_VERSION
from minikafka.testing.verify.append.fill import fill
from minikafka.testing.verify.append.history import Written
from minikafka.testing.verify.append.writer import ask_for_identity
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.lives import ABSENCE_MS, LOOK_MS, Seats
from minikafka.testing.verify.share_groups.history import ShareHistory, ShareStep
from minikafka.testing.verify.share_groups.judge import ShareAbout, evidence, judge
from minikafka.testing.verify.share_groups.member import VerifiedShareConsumer
from minikafka.testing.verify.workload import Scene

SEATS = 4
MOST_RECORDS_PER_S = 200  # each is delivered and acknowledged for itself
PATIENCE_MS = 120_000
LIMIT_KEY, USUAL_LIMIT = "group.share.delivery.count.limit", 5
LOCK_MS = 15_000  # the least that brokers allow by default
GROUP_CONFIGS = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(LOCK_MS),
}


class ShareGroupsWorkload:
    """See ``Workload``."""

    name: ClassVar[str] = "share-groups"
    promise: ClassVar[str] = "no record lost, accepted twice, or delivered after that"

    def __init__(self, scene: Scene) -> None:
        topic = scene.topic_of(self.name)
        self.topics = [topic]
        self.history = ShareHistory(f"{topic}-workers", USUAL_LIMIT, LOCK_MS)
        self._scene = scene
        self._topic = topic
        self._written = Written(0)

    async def prepare(self) -> None:
        scene = self._scene
        await scene.create_topic(self._topic, configs={"cleanup.policy": "delete"})
        async with Admin(scene.world, scene.client) as admin:
            await ask_for_identity(admin.session, admin.session.deadline_ms())
            if not (await admin.describe_features()).finalized.get(SHARE_VERSION, 0):
                text = "the cluster has no share groups"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
            await admin.alter_configs(ResourceType.GROUP, self.history.group, GROUP_CONFIGS)
            node = (await admin.describe_cluster()).nodes[0]
            found = await admin.broker_configs(node.id, [LIMIT_KEY])
            self.history.delivery_limit = int(found.get(LIMIT_KEY) or USUAL_LIMIT)

    async def load(self) -> None:
        scene = self._scene
        absence = scene.world.entropy.randrange
        seats = Seats(scene, self._make, lambda: absence(ABSENCE_MS))
        async with asyncio.TaskGroup() as tasks:
            for seat in range(SEATS):
                tasks.create_task(seats.sit(seat))
            rate = min(MOST_RECORDS_PER_S, scene.config.records_per_s)
            await fill(scene, self._topic, self._written, rate)
            self._note_written()
            end_ms = scene.now_ms() + PATIENCE_MS
            while scene.now_ms() < end_ms and not self._is_done():
                await scene.sleep(LOOK_MS)
            seats.leave.set()

    def _make(self, seat: int, name: str) -> VerifiedShareConsumer:
        return VerifiedShareConsumer(self._scene, self.history, self._topic, name)

    def _note_written(self) -> None:
        for partition in range(self._scene.config.partitions):
            self.history.written[partition] = {}
        for sent in self._written:
            if sent.offset >= 0:
                self.history.written[sent.partition][sent.offset] = sent.sent_ms

    def _is_done(self) -> bool:
        done = self.history.done
        return all(
            written.keys() <= done.get(partition, set())
            for partition, written in self.history.written.items()
        )

    async def conclude(self) -> None:
        """The final state is in the history."""

    def judge(self) -> list[Finding]:
        return judge(self.history)

    def evidence(self, finding: Finding) -> Iterator[str]:
        if finding.about:
            yield from evidence(self.history, ShareAbout(*finding.about))

    def counts(self) -> dict[str, int]:
        counts = self.history.events.counts
        return {
            "deliveries": counts[ShareStep.DELIVERED],
            "records_done": sum(map(len, self.history.done.values())),
            "members": len(self.history.members),
            "acknowledgements_confirmed": counts[ShareStep.CONFIRMED],
            "acknowledgements_refused": counts[ShareStep.REFUSED],
            "acknowledgements_in_doubt": counts[ShareStep.DOUBTFUL],
            "records_written": self._written.acknowledged,
        }
