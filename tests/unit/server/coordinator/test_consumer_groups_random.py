"""Random members of a consumer group (KIP-848), failing appends and changing coordinators: no two
members ever have one partition, and in the end each has its target."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.group.consumer.group import ConsumerGroup, ConsumerGroupState
from minikafka.core.group.consumer.heartbeat import JOINS, LEAVES, LEAVES_FOR_NOW
from minikafka.core.group.consumer.partitions import Partitions
from minikafka.core.group.group import GroupConfig
from minikafka.core.group.shard import GroupShard
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.coordinator.group_lab import GROUP, GroupLab

SESSION_MS = 45_000
BEAT_MS = 5_000
REVOCATION_MS = 60_000
ABANDONS = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Member:
    """A consumer that follows the responses, in its own time.

    ``owned`` are the partitions that it reads, ``assigned`` those that it has been told to have
    and has not taken yet. ``response`` is that of the request in flight, None without one.
    """

    def __init__(self, lab: GroupLab, number: int) -> None:
        self.lab = lab
        self.number = number
        self.instance = f"i{number}" if number % 3 == 0 else None
        self.subscribes: tuple[str, ...] = ("a", "b")
        self.lives = 0
        self.is_up = False

    def start(self) -> None:
        self.lives += 1
        self.member_id = f"m{self.number}-{self.lives}"
        self.is_up, self.is_late, self.says_all = True, False, True
        self.response: list[ConsumerGroupHeartbeatResponse] | None = None
        self.abandon()

    def abandon(self) -> None:
        self.epoch = JOINS
        self.owned: set[tuple[UUID, int]] = set()
        self.said: set[tuple[UUID, int]] = set()
        self.assigned: set[tuple[UUID, int]] | None = None

    def beat(self) -> None:
        if not self.is_up or self.response is not None:
            return
        joins = self.epoch == JOINS
        facts: dict[str, Any] = {}
        if self.says_all or joins:
            facts = {"rebalance_timeout_ms": REVOCATION_MS, "topics": self.subscribes}
        if self.says_all or joins or self.owned != self.said:
            facts["owned"] = {} if joins else partitions_of(self.owned)
        self.says_all, self.said = False, set(self.owned)
        self.response = self.lab.consumer_beat(
            self.member_id, self.epoch, instance_id=self.instance, **facts
        )

    def hear(self, *, is_lost: bool = False) -> None:
        """Process the response, if it has come. Without it the next request says all again."""
        if not self.is_up or not self.response:
            return
        response, self.response = self.response[0], None
        if is_lost:
            self.says_all = True
        elif response.error_code in ABANDONS:
            self.abandon()
        elif response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            self.is_up = False
        elif response.error_code != ErrorCode.NONE:
            self.says_all = True
        else:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.assigned = {
                    (row.topic_id, partition)
                    for row in response.assignment.topic_partitions
                    for partition in row.partitions
                }

    def reconcile(self) -> None:
        """Revoke, and take, as the last response says."""
        if self.is_up and self.assigned is not None:
            self.owned, self.assigned = self.assigned, None

    def leave(self) -> None:
        if self.is_up and self.epoch > JOINS:
            epoch = LEAVES if self.instance is None else LEAVES_FOR_NOW
            self.lab.consumer_beat(self.member_id, epoch, instance_id=self.instance)
        self.is_up = False


def partitions_of(owned: set[tuple[UUID, int]]) -> Partitions:
    topics = {topic for topic, _ in owned}
    return {t: frozenset(p for topic, p in owned if topic == t) for t in topics}


class Scene:
    """One group and its members, over random steps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lab = GroupLab()
        self.counts = {"a": 3, "b": 2}
        self.lab.make_topics(**self.counts)
        self.members = [Member(self.lab, number) for number in range(6)]

    def step(self) -> None:
        member = self.random.choice(self.members)
        actions = {
            self.beat_all: 6,
            member.beat: 6,
            lambda: member.hear(is_lost=self.random.random() < 0.2): 8,
            member.reconcile: 8,
            lambda: None if member.is_up else member.start(): 4,
            member.leave: 1,
            lambda: self.crash(member): 1,
            lambda: self.subscribe(member): 1,
            self.grow: 1,
            self.hold: 1,
            self.release: 2,
            self.refuse: 1,
            self.fail_over: 1,
        }
        self.random.choices(list(actions), list(actions.values()))[0]()
        self.check()

    def beat_all(self) -> None:
        """Let time pass. All members send a heartbeat before their sessions end."""
        self.release()
        for member in self.members:
            member.hear()
            member.beat()
            member.hear()
        self.lab.clock.advance(BEAT_MS)

    def crash(self, member: Member) -> None:
        """A member stops without a word; the others live on until its session has ended."""
        if member.is_up:
            member.is_up = False
            for _ in range(SESSION_MS // BEAT_MS + 1):
                self.beat_all()
                for other in self.members:
                    other.reconcile()

    def subscribe(self, member: Member) -> None:
        member.subscribes = self.random.choice([("a", "b"), ("a",), ("b", "c")])
        if member.is_up:
            member.says_all = True

    def grow(self) -> None:
        topic = self.random.choice("abc")
        self.counts[topic] = min(self.counts.get(topic, 0) + 1, 6)
        self.lab.make_topics(**self.counts)

    def hold(self) -> None:
        self.lab.log.held = True

    def release(self) -> None:
        self.lab.log.held = False
        self.lab.log.release()

    def refuse(self) -> None:
        """The log refuses the next heartbeats' records."""
        self.lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        for member in self.random.sample(self.members, 2):
            member.beat()
        self.lab.log.refusal = None

    def fail_over(self) -> None:
        """Another coordinator goes on with what was replicated."""
        self.lab.resign()
        self.lab.log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.lab.log.truncate(self.lab.log.unreplicated)
        self.lab.log.held = False
        self.lab.elect()

    def check(self) -> None:
        owners: dict[tuple[UUID, int], str] = {}
        for member in self.members:
            for partition in member.owned if member.is_up else ():
                assert partition not in owners, (partition, member.member_id, owners[partition])
                owners[partition] = member.member_id
        self.check_log()

    def check_log(self) -> None:
        """Loading the log gives the state of this coordinator."""
        shard = GroupShard(GroupConfig())
        for offset, record in enumerate(self.lab.log.records()):
            shard.replay(record, offset)
        shard.loaded(0)
        live, loaded = self.lab.find_consumer_group(), shard.groups.get(GROUP)
        assert records_of(live) == records_of(loaded)

    def settle(self) -> None:
        """Let nothing more happen, until each member has its target."""
        for member in self.members:
            member.leave() if member.number == 1 else None
        for _ in range(40):
            self.beat_all()
            for member in self.members:
                member.reconcile()
            self.check()
        group = self.lab.find_consumer_group()
        alive = [member for member in self.members if member.is_up]
        if not alive:
            assert group is None or group.is_empty
            return
        assert group is not None
        assert group.state is ConsumerGroupState.STABLE
        for member in alive:
            assert partitions_of(member.owned) == group.targets[member.member_id]
        topics = {topic for member in alive for topic in member.subscribes}
        expected = sum(count for topic, count in self.counts.items() if topic in topics)
        assert sum(len(member.owned) for member in alive) == expected


def records_of(group: object) -> list[Any]:
    if not isinstance(group, ConsumerGroup):
        return []
    found: list[Any] = group.keys()
    return sorted((str(key), str(group.value_of(key))) for key in found)


@pytest.mark.mission("G848-2")
@pytest.mark.parametrize("seed", range(60))
def test_no_two_members_have_one_partition(seed: int) -> None:
    scene = Scene(seed)
    for _ in range(120):
        scene.step()
    scene.settle()
