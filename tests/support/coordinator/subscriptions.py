"""Groups for the tests of server-side assignors: members, topics and previous targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from minikafka.core.group.consumer.assignors import Subscriber
from minikafka.core.group.modern.partitions import Partitions

MAX_TOPICS = 4
MAX_MEMBERS = 6


class Subscriptions(NamedTuple):
    """The arguments of an assignor."""

    members: dict[str, Subscriber]
    topics: dict[UUID, int]

    def with_targets(self, targets: Mapping[str, Partitions]) -> Subscriptions:
        members = {
            member: subscriber._replace(target=targets[member])
            for member, subscriber in self.members.items()
        }
        return self._replace(members=members)


def topic(number: int) -> UUID:
    """Return a topic id. Those of different numbers collide in small sets and dicts, where their
    order then is that of insertion."""
    return UUID(int=number + 1 << 64)


def owners(assignment: Mapping[str, Partitions]) -> dict[tuple[UUID, int], list[str]]:
    """Return all members that have a partition, by partition."""
    found: dict[tuple[UUID, int], list[str]] = {}
    for member, partitions in assignment.items():
        for topic_id, some in partitions.items():
            assert some, "a topic without partitions is left out"
            for partition in some:
                found.setdefault((topic_id, partition), []).append(member)
    return found


def check_complete(group: Subscriptions, assignment: Mapping[str, Partitions]) -> None:
    """Check that each partition with a subscriber has one owner, which subscribes to its topic."""
    assert assignment.keys() == group.members.keys()
    subscribed = frozenset[UUID]().union(*(s.topics for s in group.members.values()))
    found = owners(assignment)
    assert found.keys() == {
        (topic_id, partition)
        for topic_id, size in group.topics.items()
        if topic_id in subscribed
        for partition in range(size)
    }
    for (topic_id, _), members in found.items():
        assert len(members) == 1
        assert topic_id in group.members[members[0]].topics


@st.composite
def _groups(draw: st.DrawFn, alike: bool) -> Subscriptions:
    """Members have old targets at random, also of topics that they no longer subscribe to."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=MAX_TOPICS))
    topics = {topic(number): size for number, size in enumerate(sizes)}
    names = [f"m{number}" for number in range(draw(st.integers(1, MAX_MEMBERS)))]
    # Some subscribed topics do not exist.
    subscription = st.frozensets(st.integers(0, MAX_TOPICS).map(topic))
    common = draw(subscription)
    subscriptions = {name: common if alike else draw(subscription) for name in names}
    targets: dict[str, dict[UUID, set[int]]] = {name: {} for name in names}
    for topic_id, size in topics.items():
        for partition in range(size):
            owner = draw(st.sampled_from([None, *names]))
            if owner is not None:
                targets[owner].setdefault(topic_id, set()).add(partition)
    instances = {name: draw(st.sampled_from([None, f"i{9 - int(name[1:])}"])) for name in names}
    members = {
        name: Subscriber(
            subscriptions[name],
            None,
            {topic_id: frozenset(some) for topic_id, some in targets[name].items()},
            instances[name],
        )
        for name in names
    }
    return Subscriptions(members, topics)


def groups_alike() -> st.SearchStrategy[Subscriptions]:
    """Groups whose members all subscribe to the same topics."""
    return _groups(alike=True)


def mixed_groups() -> st.SearchStrategy[Subscriptions]:
    """Groups whose members subscribe to different topics."""
    return _groups(alike=False)
