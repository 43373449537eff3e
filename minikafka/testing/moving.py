"""Moves leaders and coordinators to chosen brokers, through the admin client, in any place.

Coroutines on the loop of the clients. They raise KafkaError, and AssertionError for a move that is
not done in time.
"""

from __future__ import annotations

from minikafka.client import Admin
from minikafka.core.client.cluster_view import PartitionView
from minikafka.core.coordinator_partition import partition_for
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.clients import ClusterClients, attempts

GROUP_TOPIC = "__consumer_offsets"
POLL_MS = 10
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
