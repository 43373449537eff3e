"""Membership in a group of the consumer protocol: the effect of every response on a member, and
random members before the decisions of the coordinator."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minikafka.core.client.consumer.consumer_membership import (
    ConsumerMembership,
    ConsumerMembershipConfig,
    ConsumerMemberState,
)
from minikafka.core.client.consumer.membership import Next
from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.heartbeat import (
    HeartbeatFacts,
    check_request,
    fence_members,
    heartbeat,
    leave_for_now,
    require_member,
)
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.partitions import read_rows
from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import (
    LEAVES,
    LEAVES_FOR_NOW,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

E = ErrorCode
A, B = UUID(int=1), UUID(int=2)
NAMES = {A: "a", B: "b"}
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def member(instance: str | None = None) -> ConsumerMembership:
    config = ConsumerMembershipConfig("g", instance, 60_000, "range", "rack")
    membership = ConsumerMembership(config, "me")
    membership.join()
    return membership


def assigned(epoch: int, *rows: tuple[UUID, list[int]]) -> ConsumerGroupHeartbeatResponse:
    topics = [TopicPartitions(*row) for row in rows]
    return ConsumerGroupHeartbeatResponse(
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=Assignment(topics),
    )


def beat(membership: ConsumerMembership, response: ConsumerGroupHeartbeatResponse) -> Next:
    return membership.on_heartbeat(response, membership.heartbeat_request(["a"]))


def joined(instance: str | None = None) -> ConsumerMembership:
    membership = member(instance)
    assert beat(membership, assigned(3, (A, [0, 1]))) is Next.GO_ON
    assert membership.take(NAMES) == [A0, A1]
    return membership


def test_a_heartbeat_says_all_and_then_what_has_changed() -> None:
    membership = member("i")
    assert not membership.has_sent(["a"], "")
    assert membership.heartbeat_request(["b", "a"]) == ConsumerGroupHeartbeatRequest(
        "g", "me", 0, "i", "rack", 60_000, ["a", "b"], None, "range", []
    )
    assert membership.has_sent(["a", "b"], "")
    assert membership.heartbeat_request(["a", "b"]) == ConsumerGroupHeartbeatRequest(
        "g", "me", 0, "i"
    )
    by_regex = membership.heartbeat_request([], "a.*")
    assert (by_regex.subscribed_topic_names, by_regex.subscribed_topic_regex) == ([], "a.*")
    by_name = membership.heartbeat_request(["a"])
    assert (by_name.subscribed_topic_names, by_name.subscribed_topic_regex) == (["a"], "")
    membership.on_failure()
    assert membership.heartbeat_request(["a"]).subscribed_topic_regex == ""


def test_a_member_joins_takes_revokes_and_acknowledges() -> None:
    membership = member()
    assert (membership.generation, membership.may_commit, membership.beats) == (-1, False, True)
    assert membership.take(NAMES) is None
    assert beat(membership, assigned(3, (A, [0, 1]))) is Next.GO_ON
    assert (membership.generation, membership.may_commit) == (3, True)
    assert membership.heartbeat_interval_ms == 5_000
    assert membership.take(NAMES) == [A0, A1]
    assert membership.take(NAMES) is None, "once"
    request = membership.heartbeat_request(["a"])
    assert request.topic_partitions == [TopicPartitions(A, [0, 1])]
    membership.on_heartbeat(assigned(3, (A, [1])), request)
    assert list(membership.to_revoke().values()) == [A0]
    assert membership.heartbeat_request(["a"]).topic_partitions is None, "not yet"
    membership.release(membership.to_revoke())
    assert membership.take(NAMES) == []
    request = membership.heartbeat_request(["a"])
    assert request.topic_partitions == [TopicPartitions(A, [1])]
    membership.on_heartbeat(ConsumerGroupHeartbeatResponse(member_epoch=4), request)
    assert (membership.generation, membership.to_revoke()) == (4, {})
    assert membership.take(NAMES) is None


def test_a_member_without_partitions_reports_that_once() -> None:
    membership = member()
    beat(membership, assigned(1))
    assert membership.take(NAMES) == []
    beat(membership, assigned(2))
    assert membership.take(NAMES) is None


def test_partitions_of_unknown_topics_wait_for_metadata() -> None:
    membership = member()
    beat(membership, assigned(1, (A, [0]), (B, [0])))
    assert membership.lacks_names({})
    assert membership.take({}) is None
    assert membership.lacks_names({A: "a"})
    assert membership.take({A: "a"}) == [A0]
    assert membership.take({A: "a"}) is None
    assert membership.take(NAMES) == [B0]
    assert not membership.lacks_names({}), "the names of owned partitions are kept"


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    membership = joined()
    beat(membership, assigned(4, (B, [0])))
    assert list(membership.to_revoke().values()) == [A0, A1]
    membership.release(membership.to_revoke())
    assert membership.take({B: "a"}) == [A0]


@pytest.mark.parametrize("code", [E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND])
def test_a_fenced_member_has_lost_all_and_joins_with_epoch_0(code: ErrorCode) -> None:
    membership = joined()
    assert beat(membership, ConsumerGroupHeartbeatResponse(error_code=code)) is Next.JOIN_AGAIN
    assert (membership.lost, membership.beats, membership.owned) == (True, False, {})
    assert membership.take(NAMES) is None
    membership.lost = False
    membership.join()
    request = membership.heartbeat_request(["a"])
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("me", 0, [])


@pytest.mark.parametrize(
    "code",
    [
        E.UNRELEASED_INSTANCE_ID,
        E.FENCED_INSTANCE_ID,
        E.GROUP_AUTHORIZATION_FAILED,
        E.UNSUPPORTED_ASSIGNOR,
        E.INVALID_REGULAR_EXPRESSION,
        E.GROUP_MAX_SIZE_REACHED,
        E.GROUP_ID_NOT_FOUND,
    ],
)
def test_final_errors_of_joining_members(code: ErrorCode) -> None:
    membership = member()
    response = ConsumerGroupHeartbeatResponse(error_code=code, error_message="because")
    with pytest.raises(KafkaError, match="because"):
        beat(membership, response)
    assert (membership.beats, membership.lost) == (False, False)


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (E.NOT_COORDINATOR, Next.OTHER_COORDINATOR),
        (E.COORDINATOR_NOT_AVAILABLE, Next.OTHER_COORDINATOR),
        (E.COORDINATOR_LOAD_IN_PROGRESS, Next.LATER),
        (E.TOPIC_AUTHORIZATION_FAILED, Next.LATER),
    ],
)
def test_other_errors_keep_the_membership(code: ErrorCode, step: Next) -> None:
    membership = joined()
    assert beat(membership, ConsumerGroupHeartbeatResponse(error_code=code)) is step
    assert (membership.generation, membership.lost, len(membership.owned)) == (3, False, 2)
    request = membership.heartbeat_request(["a"])
    assert request.rebalance_timeout_ms == 60_000, "all again"
    assert request.topic_partitions == [TopicPartitions(A, [0, 1])]


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (E.STALE_MEMBER_EPOCH, Next.LATER),
        (E.COORDINATOR_LOAD_IN_PROGRESS, Next.LATER),
        (E.NOT_COORDINATOR, Next.OTHER_COORDINATOR),
        (E.UNKNOWN_MEMBER_ID, Next.JOIN_AGAIN),
    ],
)
def test_commits_that_were_refused(code: ErrorCode, step: Next) -> None:
    membership = joined()
    assert membership.on_commit(code, 3) is step
    assert not membership.lost, "heartbeats find that out"
    assert membership.continues(2)
    with pytest.raises(KafkaError):
        membership.on_commit(E.FENCED_INSTANCE_ID, 3)
    membership.lose("no poll")
    assert not membership.continues(3)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_leaving(instance: str | None, epoch: int) -> None:
    membership = joined(instance)
    late = membership.heartbeat_request(["a"])
    assert membership.leave_request() == ConsumerGroupHeartbeatRequest("g", "me", epoch, instance)
    assert (membership.beats, membership.leave_request()) == (False, None)
    assert membership.state is ConsumerMemberState.LEAVING
    membership.lose("unsubscribed")
    assert membership.on_heartbeat(assigned(9, (A, [0])), late) is Next.GO_ON
    assert (membership.generation, membership.owned) == (-1, {})


# -- before the coordinator

GROUP_CONFIG = ConsumerGroupConfig()
PARTITION = PartitionMetadata(1, 0, (1,), (1,), (), 1, 0)
SUBSCRIPTIONS: tuple[tuple[list[str], str], ...] = (
    (["a"], ""),
    (["a", "b"], ""),
    (["b"], ""),
    ([], "a|b"),
)
MEMBERS = 3


class Consumer:
    """One member, with the response that is on its way to it.

    ``removed`` says that the coordinator has removed it and it does not know yet.
    """

    def __init__(self, number: int, scene: Scene) -> None:
        config = ConsumerMembershipConfig("g", f"i{number}" if number == 0 else None)
        self.membership = ConsumerMembership(config, f"m{number}")
        self.scene = scene
        self.subscription = SUBSCRIPTIONS[1]
        self.request: ConsumerGroupHeartbeatRequest | None = None
        self.response: ConsumerGroupHeartbeatResponse | None = None
        self.removed = False

    def join(self) -> None:
        if self.membership.state is ConsumerMemberState.OUT:
            self.membership.lost = False
            self.membership.join()
            self.removed = False

    def send(self) -> None:
        if self.membership.beats and self.request is None:
            self.request = self.membership.heartbeat_request(*self.subscription)
            self.response = self.scene.coordinate(self.request)
            if self.response.error_code == E.NONE:
                self.scene.check_subscription(self)

    def lose_request(self) -> None:
        if self.membership.beats and self.request is None:
            self.membership.heartbeat_request(*self.subscription)
            self.membership.on_failure()

    def lose_response(self) -> None:
        if self.request is not None:
            self.request = None
            self.membership.on_failure()

    def receive(self) -> None:
        if self.request is not None:
            request, self.request = self.request, None
            assert self.response is not None
            self.membership.on_heartbeat(self.response, request)

    def revoke(self) -> None:
        self.membership.release(self.membership.to_revoke())

    def take(self) -> None:
        self.membership.take(NAMES)

    def take_some(self) -> None:
        self.membership.take({A: "a"})

    def leave(self) -> None:
        """As in the client: give up, then say so."""
        self.membership.owned = {}
        request = self.membership.leave_request()
        if request is not None:
            self.scene.coordinate(request)
            self.request = None
            self.membership.lose("left")

    def subscribe(self, number: int) -> None:
        self.subscription = SUBSCRIPTIONS[number]


class Scene:
    """Members of one group, whose heartbeats the coordinator's own functions handle."""

    def __init__(self) -> None:
        self.group = ConsumerGroup("g")
        self.counts = {"a": 2, "b": 1}
        self.consumers = [Consumer(number, self) for number in range(MEMBERS)]
        self.grow("a")

    def grow(self, topic: str) -> None:
        self.counts[topic] = min(self.counts[topic] + 1, 5)
        ids = {name: topic_id for topic_id, name in NAMES.items()}
        topics = {t: dict.fromkeys(range(n), PARTITION) for t, n in self.counts.items()}
        self.image = MetadataImage(topics=topics, topic_ids=ids, topic_names=dict(NAMES))

    def coordinate(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        names, owned = request.subscribed_topic_names, request.topic_partitions
        facts = HeartbeatFacts(
            request.member_id,
            request.member_epoch,
            request.instance_id,
            request.rack_id,
            request.rebalance_timeout_ms,
            topics=None if names is None else tuple(names),
            regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=None if owned is None else read_rows(owned),
        )
        changes = GroupChanges(self.group)
        try:
            check_request(facts, GROUP_CONFIG.assignors)
            if facts.member_epoch == LEAVES_FOR_NOW:
                return leave_for_now(changes, facts)
            if facts.member_epoch == LEAVES:
                require_member(self.group, facts.member_id, facts.instance_id)
                fence_members(changes, [facts.member_id], self.image)
                return ConsumerGroupHeartbeatResponse(member_epoch=LEAVES)
            return heartbeat(changes, facts, self.image, GROUP_CONFIG)
        except KafkaError as error:
            changes.undo()
            if error.code not in (E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID):
                raise
            return ConsumerGroupHeartbeatResponse(error_code=error.code)

    def expire(self, consumer: Consumer) -> None:
        """End the session of a member."""
        member_id = consumer.membership.member_id
        if member_id in self.group.members:
            fence_members(GroupChanges(self.group), [member_id], self.image)
            consumer.removed = True

    def check_subscription(self, consumer: Consumer) -> None:
        """The coordinator knows what a full heartbeat would have told it."""
        known = self.group.members[consumer.membership.member_id]
        topics, regex = consumer.subscription
        assert (known.topics, known.regex) == (tuple(topics), regex)
        assert known.rebalance_timeout_ms == consumer.membership.config.max_poll_interval_ms

    def check_owners(self) -> None:
        owners: dict[object, str] = {}
        for consumer in self.consumers:
            if not consumer.removed:
                for key in consumer.membership.owned:
                    who = owners.setdefault(key, consumer.membership.member_id)
                    assert who == consumer.membership.member_id, key

    def settle(self) -> None:
        for consumer in self.consumers:
            consumer.lose_response()
            consumer.subscription = SUBSCRIPTIONS[1]
        for _ in range(12):
            for consumer in self.consumers:
                consumer.join()
                consumer.send()
                consumer.receive()
                consumer.revoke()
                consumer.take()
                self.check_owners()
        for consumer in self.consumers:
            target = self.group.targets[consumer.membership.member_id]
            owned = set(consumer.membership.owned)
            assert owned == {(topic, p) for topic, some in target.items() for p in some}
        owned_by_all = [tp for c in self.consumers for tp in c.membership.owned.values()]
        everything = [
            TopicPartition(t, n) for t, count in self.counts.items() for n in range(count)
        ]
        assert sorted(owned_by_all) == everything


ACTIONS = [
    *["join", "send", "receive", "revoke", "take"] * 3,
    "lose_request",
    "lose_response",
    "take_some",
    "leave",
    "subscribe",
    "expire",
    "grow",
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, MEMBERS - 1), st.integers(0, 3)),
        max_size=120,
    )
)
@example(  # the third member is to revoke what it has never owned
    [
        ("join", 0, 0),
        ("join", 2, 0),
        ("subscribe", 0, 0),
        ("send", 0, 0),
        ("send", 2, 0),
        ("receive", 2, 0),
    ]
)
def test_no_two_members_own_one_partition(steps: list[tuple[str, int, int]]) -> None:
    """However heartbeats and polls interleave and whatever is lost; in the end all is owned."""
    scene = Scene()
    for action, number, choice in steps:
        consumer = scene.consumers[number]
        if action == "expire":
            scene.expire(consumer)
        elif action == "grow":
            scene.grow("ab"[choice % 2])
        elif action == "subscribe":
            consumer.subscribe(choice)
        else:
            getattr(consumer, action)()
        scene.check_owners()
    scene.settle()
