"""What a test sees of a cluster: records, groups, leaders, and the topics and groups that exist.

Coroutines on the loop of the clients. They raise KafkaError, and AssertionError for what was
waited for and has not come about in time.

Leaders and coordinators are moved to chosen brokers here, too, through the admin client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from minikafka.client import LATEST_TIMESTAMP, Admin, ConsumerConfig, ConsumerRecord, NewTopic
from minikafka.core.client.admin.groups import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    GroupDescription,
)
from minikafka.core.client.admin.share_groups import ShareGroupDescription, SharePartitionStart
from minikafka.core.client.admin.streams_groups import StreamsGroupDescription
from minikafka.core.client.cluster_view import PartitionView
from minikafka.core.coordinator_shard import partition_for
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.clients import ClusterClients, attempts

IsolationLevel: TypeAlias = Literal["read_committed", "read_uncommitted"]
T = TypeVar("T")
Predicate: TypeAlias = Callable[[ConsumerRecord], object]

POLL_MS = 10
MAX_POLL_MS = 50  # where the first attempts follow each other more quickly
FIRST_ATTEMPT_S = 10  # a short time-out still lets the first attempt end
DEAD = "Dead"
INTERNAL = "__"  # begins the names of topics that tests leave alone


class GroupView(NamedTuple):
    """A group at one moment. ``lag`` is the number of records before the end of the partitions
    that it has committed offsets of.

    ``type`` is "classic", "consumer", "share" or "streams"; "" for a group that does not exist. Of
    a share group ``committed`` are the start offsets of its share-partitions, and the lag is
    without records behind them that need no delivery any more."""

    state: str
    members: int
    committed: Mapping[TopicPartition, int]
    lag: int
    type: str


# ------------------------------------------------------------------------------------------ records


async def read_records(
    clients: ClusterClients,
    topic: str,
    count: int | None,
    timeout_s: float,
    isolation_level: IsolationLevel = "read_committed",
    start: Mapping[TopicPartition, int] | None = None,
) -> list[ConsumerRecord]:
    """Return the records of a topic, in the order of their offsets in each partition, from the
    first offsets or from those in ``start``. With ``count`` wait until there are as many."""
    found: list[ConsumerRecord] = []
    try:
        async with asyncio.timeout(max(timeout_s, FIRST_ATTEMPT_S)):
            async with following(clients, topic, isolation_level, start or {}) as more:
                for _ in attempts(clients.world.clock, timeout_s):
                    found += await more()
                    if count is None or len(found) >= count:
                        return sorted(found, key=lambda record: (record.partition, record.offset))
                    await clients.world.clock.sleep(POLL_MS)
    except TimeoutError:
        if count is None:
            raise AssertionError(f"{topic} could not be read within {timeout_s} s") from None
    raise AssertionError(f"{len(found)} of {count} records in {topic} after {timeout_s} s")


async def expect_record(
    clients: ClusterClients, topic: str, predicate: Predicate, timeout_s: float
) -> ConsumerRecord:
    """Return the first record of the topic that satisfies ``predicate``, as soon as there is
    one."""
    last: ConsumerRecord | None = None
    seen = 0
    try:
        async with asyncio.timeout(max(timeout_s, FIRST_ATTEMPT_S)):
            async with following(clients, topic, "read_committed", {}) as more:
                for _ in attempts(clients.world.clock, timeout_s):
                    for record in await more():
                        last, seen = record, seen + 1
                        if predicate(record):
                            return record
                    await clients.world.clock.sleep(POLL_MS)
    except TimeoutError:
        pass
    shown = "" if last is None else f"; the last one is {last.value!r}"
    raise AssertionError(
        f"none of {seen} records in {topic} is the expected one after {timeout_s} s{shown}"
    )


@asynccontextmanager
async def following(
    clients: ClusterClients,
    topic: str,
    isolation_level: IsolationLevel,
    start: Mapping[TopicPartition, int],
) -> AsyncIterator[Callable[[], Coroutine[Any, Any, list[ConsumerRecord]]]]:
    """A function that returns the records that have been added since its last call."""
    reading = ConsumerConfig(auto_offset_reset="earliest", isolation_level=isolation_level)
    async with clients.consumer(reading) as consumer:
        for partition in await consumer.assign_topics(topic):
            if partition in start:
                consumer.seek(partition, start[partition])

        async def more() -> list[ConsumerRecord]:
            return [record async for record in consumer.read_to()]

        yield more


async def ends_of(clients: ClusterClients, topic: str) -> dict[TopicPartition, int]:
    """Return where the partitions of a topic end; nothing if there is no such topic."""
    async with clients.admin() as admin:
        view = (await admin.describe_topics([topic]))[topic]
        if isinstance(view, KafkaError):
            return {}
        wanted = {TopicPartition(topic, each): LATEST_TIMESTAMP for each in view.partitions}
        offsets = await admin.list_offsets(wanted, read_committed=True)
    return {partition: each.offset for partition, each in offsets.items()}


# ------------------------------------------------------------------------------------------- groups


async def committed_offsets(clients: ClusterClients, group_id: str) -> dict[TopicPartition, int]:
    """Return the offsets that a group has committed; none for a group that does not exist."""
    async with clients.admin() as admin:
        offsets = await admin.group_offsets(group_id)
    return {tp: each.offset for tp, each in offsets.items() if each.offset >= 0}


async def group_now(clients: ClusterClients, group_id: str) -> GroupView:
    """Return what a group is now; a group that does not exist has the state "Dead"."""
    async with clients.admin() as admin:
        described = (await admin.describe_groups([group_id]))[group_id]
        if isinstance(described, KafkaError):
            raise described
        if described.state != DEAD:
            group_type = CLASSIC if described.epochs is None else CONSUMER
            return await _committing(admin, described, group_type)
        share = _unless_missing((await admin.describe_share_groups([group_id]))[group_id])
        if share is not None:
            return await _sharing(admin, share)
        streams = _unless_missing((await admin.describe_streams_groups([group_id]))[group_id])
        if streams is not None:
            return await _committing(admin, streams, STREAMS)
    return GroupView(DEAD, 0, {}, 0, "")


def _unless_missing(outcome: T | KafkaError) -> T | None:
    """Return a description, or None if the group has another type."""
    if not isinstance(outcome, KafkaError):
        return outcome
    if outcome.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise outcome


async def _committing(
    admin: Admin, group: GroupDescription | StreamsGroupDescription, group_type: str
) -> GroupView:
    offsets = await admin.group_offsets(group.group_id)
    committed = {tp: each.offset for tp, each in offsets.items() if each.offset >= 0}
    ends = await admin.list_offsets(dict.fromkeys(committed, LATEST_TIMESTAMP))
    lag = sum(max(0, ends[tp].offset - offset) for tp, offset in committed.items())
    return GroupView(group.state, len(group.members), committed, lag, group_type)


async def _sharing(admin: Admin, group: ShareGroupDescription) -> GroupView:
    """Raises KafkaError if one of the group's share-partitions cannot be described."""
    starts: dict[TopicPartition, SharePartitionStart] = {}
    for tp, start in (await admin.share_group_offsets(group.group_id)).items():
        if isinstance(start, KafkaError):
            raise start
        if start is not None:
            starts[tp] = start
    unknown = [tp for tp, start in starts.items() if start.lag is None]
    ends = await admin.list_offsets(dict.fromkeys(unknown, LATEST_TIMESTAMP))
    lag = sum(
        ends[tp].offset - start.start_offset if start.lag is None else start.lag
        for tp, start in starts.items()
    )
    committed = {tp: start.start_offset for tp, start in starts.items()}
    return GroupView(group.state, len(group.members), committed, lag, SHARE)


async def wait_for_group(
    clients: ClusterClients, group_id: str, until: Callable[[GroupView], object], timeout_s: float
) -> GroupView:
    """Return the group as soon as ``until`` is true of it."""
    view = await group_now(clients, group_id)
    for _ in attempts(clients.world.clock, timeout_s):
        if until(view):
            return view
        await clients.world.clock.sleep(POLL_MS)
        view = await group_now(clients, group_id)
    raise AssertionError(f"after {timeout_s} s the group {group_id} is {view}")


# ---------------------------------------------------------------------------- what a cluster has


class Existing(NamedTuple):
    """The names of all topics, without internal ones, and of all groups."""

    topics: frozenset[str]
    groups: frozenset[str]


async def until_known(
    clients: ClusterClients, brokers: Iterable[int], timeout_s: float = 30
) -> None:
    """Wait until all these brokers are registered, and the metadata lists them."""
    missing = set(brokers)
    async with clients.admin() as admin:
        for _ in attempts(clients.world.clock, timeout_s):
            cluster = await admin.describe_cluster()
            missing = set(brokers) - {node.id for node in cluster.nodes}
            if not missing:
                return
            await clients.world.clock.sleep(POLL_MS)
    raise AssertionError(f"brokers {sorted(missing)} are not registered after {timeout_s} s")


async def existing(clients: ClusterClients) -> Existing:
    async with clients.admin() as admin:
        return await _listed(admin)


async def delete_made(clients: ClusterClients, before: Existing, timeout_s: float = 10) -> None:
    """Delete the topics and groups that are not in ``before``, and wait until topics of these names
    can be created again. Groups that still have members stay."""
    clock = clients.world.clock
    async with clients.admin() as admin:
        now = await _listed(admin)
        await admin.delete_groups(now.groups - before.groups)
        left = now.topics - before.topics
        for number in attempts(clock, timeout_s):
            if not left:
                return
            await admin.delete_topics(left)
            await clock.sleep(min(MAX_POLL_MS, 1 << number))
            left = await _taken(admin, left) | ((await _listed(admin)).topics - before.topics)
    raise AssertionError(f"topics are left after {timeout_s} s: {', '.join(sorted(left))}")


async def _taken(admin: Admin, names: frozenset[str]) -> frozenset[str]:
    """Return which names no topic can have yet. The metadata no longer lists a topic whose deletion
    waits for a broker that was away."""
    outcomes = await admin.create_topics(
        [NewTopic(name, 1, 1) for name in names], validate_only=True
    )
    return frozenset(
        name
        for name, outcome in outcomes.items()
        if isinstance(outcome, KafkaError) and outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
    )


async def _listed(admin: Admin) -> Existing:
    topics = [topic.name for topic in await admin.list_topics()]
    groups = frozenset(group.group_id for group in await admin.list_groups())
    return Existing(frozenset(name for name in topics if not name.startswith(INTERNAL)), groups)


GROUP_TOPIC = "__consumer_offsets"
TIMEOUT_S = 30
MAX_UNKNOWN = 50  # attempts at a topic that the broker does not know


async def leader_of(clients: ClusterClients, topic: str, partition: int) -> int:
    """Return the broker that leads the partition, as soon as there is one. Raises KafkaError for a
    partition that no broker knows; one broker may not know a new topic yet."""
    async with clients.admin() as admin:
        for attempt in attempts(clients.world.clock, TIMEOUT_S):
            try:
                leader = (await _described(admin, TopicPartition(topic, partition))).leader
            except KafkaError:
                if attempt >= MAX_UNKNOWN:
                    raise
            else:
                if leader >= 0:
                    return leader
            await clients.world.clock.sleep(POLL_MS)
    raise AssertionError(f"{topic}-{partition} has no leader after {TIMEOUT_S} s")


async def coordinator_of(clients: ClusterClients, group_id: str) -> int:
    """Return the broker that coordinates the group, whether the group exists or not."""
    async with clients.admin() as admin:
        described = (await admin.describe_groups([group_id]))[group_id]
    if isinstance(described, KafkaError):
        raise described
    return described.coordinator.id


async def move_coordinator(clients: ClusterClients, group_id: str, broker: int) -> None:
    """Make a broker the coordinator of a group, by making it the leader of its partition."""
    if await coordinator_of(clients, group_id) == broker:  # there is the internal topic now
        return
    async with clients.admin() as admin:
        topic = (await admin.describe_topics([GROUP_TOPIC]))[GROUP_TOPIC]
    if isinstance(topic, KafkaError):
        raise topic
    await move_leader(clients, GROUP_TOPIC, partition_for(group_id, len(topic.partitions)), broker)
    for _ in attempts(clients.world.clock, TIMEOUT_S):
        if await coordinator_of(clients, group_id) == broker:
            return
        await clients.world.clock.sleep(POLL_MS)
    raise AssertionError(f"broker {broker} is not coordinator of {group_id} after {TIMEOUT_S} s")


async def move_leader(clients: ClusterClients, topic: str, partition: int, broker: int) -> None:
    """Make a broker the leader of a partition, and its first replica. If the broker has no replica,
    it takes the place of the last one."""
    target = TopicPartition(topic, partition)
    async with clients.admin() as admin:
        view = await _described(admin, target)
        if view.leader == broker:
            return
        replicas = [broker, *(each for each in view.replicas if each != broker)]
        outcome = await admin.alter_partition_reassignments(
            {target: replicas[: len(view.replicas)]}
        )
        _raise_for(outcome[target])
        for _ in attempts(clients.world.clock, TIMEOUT_S):
            if not await admin.list_partition_reassignments([target]):
                elected = await admin.elect_leaders(ElectionType.PREFERRED, [target])
                error = elected.get(target)
                if error is not None and error.code not in (
                    ErrorCode.ELECTION_NOT_NEEDED,
                    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,  # not in sync yet
                ):
                    raise error
                if (await _described(admin, target)).leader == broker:
                    return
            await clients.world.clock.sleep(POLL_MS)
    raise AssertionError(f"broker {broker} does not lead {target} after {TIMEOUT_S} s")


async def _described(admin: Admin, target: TopicPartition) -> PartitionView:
    topic = (await admin.describe_topics([target.topic]))[target.topic]
    if isinstance(topic, KafkaError):
        raise topic
    if target.partition not in topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{target}")
    return topic.partitions[target.partition]


def _raise_for(error: KafkaError | None) -> None:
    if error is not None:
        raise error
