"""Random members of a consumer group (KIP-848), failing appends and changing coordinators: no two
members ever have one partition, and in the end each has its target.

With members of the classic protocol among them, the group changes its own protocol now and then."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.client.assignors.model import Subscription
from minikafka.core.client.assignors.range import assign_range
from minikafka.core.client.assignors.sticky import assign_cooperative_sticky
from minikafka.core.client.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.core.group.consumer.group import ConsumerGroup, ConsumerGroupState
from minikafka.core.group.group import Group, GroupConfig, GroupState
from minikafka.core.group.modern.partitions import Partitions
from minikafka.core.group.result import AnyGroup
from minikafka.core.group.shard import GroupShard
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    JOINS,
    LEAVES,
    LEAVES_FOR_NOW,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupResponse
from tests.support.coordinator.group_lab import GROUP, PARTITION, GroupLab

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
        self.before_joining: Callable[[], None] = lambda: None

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
        if joins:
            self.before_joining()
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

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.subscribes, self.says_all = topics, True

    def leave(self) -> None:
        if self.is_up and self.epoch > JOINS:
            epoch = LEAVES if self.instance is None else LEAVES_FOR_NOW
            self.lab.consumer_beat(self.member_id, epoch, instance_id=self.instance)
        self.is_up = False


class ClassicMember:
    """A consumer of the classic protocol, with an eager or a cooperative assignor.

    ``owned`` and ``assigned`` are as those of ``Member``. ``joining`` and ``syncing`` are the
    responses of the request in flight.
    """

    def __init__(self, lab: GroupLab, number: int, *, is_cooperative: bool) -> None:
        self.lab = lab
        self.number = number
        self.instance = f"i{number}" if number % 3 == 0 else None
        self.is_cooperative = is_cooperative
        self.subscribes: tuple[str, ...] = ("a", "b")
        self.ids = 0
        self.is_up = False

    def start(self) -> None:
        self.is_up = True
        self.joining: list[JoinGroupResponse] | None = None
        self.syncing: list[SyncGroupResponse] | None = None
        self.member_id = ""
        self.abandon()

    def abandon(self) -> None:
        self.generation = -1
        self.owned: set[tuple[UUID, int]] = set()
        self.assigned: set[tuple[UUID, int]] | None = None
        self.must_join = True

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.subscribes, self.must_join = topics, True

    def beat(self) -> None:
        if not self.is_up or self.joining is not None or self.syncing is not None:
            return
        if self.must_join:
            self._join()
        else:
            self._hear_error(self.lab.beat(self.member_id, self.generation, self.instance))

    def _join(self) -> None:
        self.reconcile()
        if not self.is_cooperative:
            self.owned = set()
        self.must_join = False
        self.ids += 1
        names = self.lab.image.topic_names
        owned = tuple(TopicPartition(names[topic], number) for topic, number in sorted(self.owned))
        self.joining = self.lab.join(
            self.member_id,
            instance=self.instance,
            protocols=["cooperative-sticky" if self.is_cooperative else "range"],
            metadata=encode_subscription(Subscription(self.subscribes, owned)),
            session_ms=SESSION_MS,
            rebalance_ms=REVOCATION_MS,
            new_id=f"c{self.number}-{self.ids}",
            must_know_id=self.number % 2 == 0 and self.instance is None,
        )

    def hear(self, *, is_lost: bool = False) -> None:
        if self.is_up and self.joining:
            joined, self.joining = self.joining[0], None
            if is_lost:
                self.must_join = True
            elif joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id, self.must_join = joined.member_id, True
            elif joined.error_code == ErrorCode.NONE:
                self.member_id, self.generation = joined.member_id, joined.generation_id
                self.syncing = self.lab.sync(
                    self.member_id, self.generation, self._assign(joined), instance=self.instance
                )
            else:
                self.must_join = True
                self._hear_error(joined.error_code)
        elif self.is_up and self.syncing:
            synced, self.syncing = self.syncing[0], None
            if is_lost:
                self.must_join = True
            elif synced.error_code == ErrorCode.NONE:
                ids = self.lab.image.topic_ids
                found = decode_assignment(synced.assignment)
                self.assigned = {(ids[tp.topic], tp.partition) for tp in found}
            else:
                self.must_join = True
                self._hear_error(synced.error_code)

    def _hear_error(self, code: int) -> None:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_join = True
        elif code == ErrorCode.ILLEGAL_GENERATION:
            self.abandon()
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            self.abandon()
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.is_up = False

    def _assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        """Assign the partitions, as the leader of a classic group."""
        subscriptions = {m.member_id: decode_subscription(m.metadata) for m in joined.members}
        counts = {topic: len(rows) for topic, rows in self.lab.image.topics.items()}
        assign = assign_cooperative_sticky if self.is_cooperative else assign_range
        shares = assign(counts, subscriptions) if subscriptions else {}
        return {member_id: encode_assignment(share) for member_id, share in shares.items()}

    def reconcile(self) -> None:
        if self.is_up and self.assigned is not None:
            if self.owned - self.assigned:
                self.must_join = True  # the others wait for what it has revoked
            self.owned, self.assigned = self.assigned, None

    def leave(self) -> None:
        if self.is_up and self.member_id and self.instance is None:
            self.lab.coordinator.leave(GROUP, [MemberIdentity(self.member_id)])
        self.is_up = False


def partitions_of(owned: set[tuple[UUID, int]]) -> Partitions:
    topics = {topic for topic, _ in owned}
    return {t: frozenset(p for topic, p in owned if topic == t) for t in topics}


class Scene:
    """One group and its members, over random steps."""

    def __init__(self, seed: int, make: Callable[[GroupLab, int], Member | ClassicMember]) -> None:
        self.random = random.Random(seed)
        self.lab = GroupLab()
        self.counts = {"a": 3, "b": 2}
        self.lab.make_topics(**self.counts)
        self.members = [make(self.lab, number) for number in range(6)]
        for member in self.members:
            if isinstance(member, Member):
                member.before_joining = self.revoke_in_classic_group

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

    def crash(self, member: Member | ClassicMember) -> None:
        """A member stops without a word; the others live on until its session has ended."""
        if member.is_up:
            member.is_up = False
            for _ in range(SESSION_MS // BEAT_MS + 1):
                self.beat_all()
                for other in self.members:
                    other.reconcile()

    def subscribe(self, member: Member | ClassicMember) -> None:
        member.subscribe(self.random.choice([("a", "b"), ("a",), ("b", "c")]))

    def revoke_in_classic_group(self) -> None:
        """Let classic members have what the leader of their group has assigned to them.

        An upgrade takes that for what they have (as in Kafka), also of cooperative members that
        have yet to revoke the rest.
        """
        if isinstance(self.group, Group):
            for member in self.members:
                if isinstance(member, ClassicMember):
                    member.hear()
                    member.reconcile()

    def grow(self) -> None:
        topic = self.random.choice("abc")
        self.counts[topic] = min(self.counts.get(topic, 0) + 1, 6)
        self.lab.make_topics(**self.counts)
        for member in self.members:
            if isinstance(member, ClassicMember):
                member.must_join = True  # as clients that see new metadata

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
        live, loaded = self.group, shard.groups.get(GROUP)
        assert records_of(live) == records_of(loaded)

    @property
    def group(self) -> AnyGroup | None:
        context = self.lab.coordinator.runtime.active_in(PARTITION)
        assert context is not None
        return context.shard.groups.get(GROUP)

    def settle(self) -> None:
        """Let nothing more happen, until each member has its target."""
        for member in self.members:
            member.leave() if member.number == 1 else None
        for _ in range(40):
            self.beat_all()
            for member in self.members:
                member.reconcile()
            self.check()
        group = self.group
        alive = [member for member in self.members if member.is_up]
        if not alive:
            assert group is None or group.is_empty
            return
        if isinstance(group, Group):
            assert group.state is GroupState.STABLE
        else:
            assert isinstance(group, ConsumerGroup)
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
    scene = Scene(seed, Member)
    for _ in range(120):
        scene.step()
    scene.settle()


def mixed_scene(seed: int, *, is_cooperative: bool) -> Scene:
    """Return a scene with members of both protocols, after its steps. Half-way all consumers of
    the new protocol stop."""

    def make(lab: GroupLab, number: int) -> Member | ClassicMember:
        if number % 6 in (seed % 6, 3, 4, 5):
            return ClassicMember(lab, number, is_cooperative=is_cooperative)
        return Member(lab, number)

    scene = Scene(seed, make)
    for step in range(120):
        scene.step()
        if step == 60:
            for member in scene.members:
                if isinstance(member, Member):
                    member.leave()
    return scene


@pytest.mark.parametrize("is_cooperative", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_no_two_members_of_either_protocol_have_one_partition(
    seed: int, is_cooperative: bool
) -> None:
    mixed_scene(seed, is_cooperative=is_cooperative).settle()


def test_groups_change_their_protocol_in_the_scenes() -> None:
    said = mixed_scene(0, is_cooperative=True).lab.said()
    assert {"classic_group_upgraded", "consumer_group_downgraded"} <= set(said)
