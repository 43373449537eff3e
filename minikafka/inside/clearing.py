"""Deletes what a test has left in a cluster: its topics and groups.

That takes milliseconds. Whatever else a test may change (settings, quotas, ACLs, users, brokers,
the leaders of internal topics, transactional ids) is only found here: then the brokers start again
on empty disks, which undoes everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from minikafka.inside.brokers import BrokerState, until
from minikafka.kernel.cluster import INTERNAL_TOPICS
from minikafka.kernel.errors import ErrorCode
from minikafka.node.broker import BrokerNode
from minikafka.protocol.messages.leave_group import MemberIdentity
from minikafka.world.memory.coordination import MemoryZookeeper
from minikafka.zookeeper import paths
from minikafka.zookeeper.store import ZkStore

CLEARING_LIMIT_S = 2
SESSION_MS = 30_000
# The znodes that make two clusters differ. Notifications and the settings of topics, which go with
# their topics, are not among them.
COMPARED = (f"{paths.CONFIG}/", "/kafka-acl/", "/kafka-acl-extended/", f"{paths.FEATURE}")
PASSING = (
    f"{paths.CONFIG_CHANGES}/",
    f"{paths.CONFIG}/{paths.TOPIC_CONFIGS}/",
)
_RETRIED = frozenset(
    {ErrorCode.NON_EMPTY_GROUP, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class ClusterMark(NamedTuple):
    """What must be the same again: the brokers with their registrations, and znodes."""

    registrations: Mapping[int, tuple[BrokerNode | None, int]]
    znodes: Mapping[str, bytes]


class ClusterClearing:
    """Clears the cluster of ``brokers``, if nothing but topics and groups differs from its mark.

    Construct it when the brokers have started. All methods run on the cluster's event loop."""

    def __init__(self, brokers: Mapping[int, BrokerState], zookeeper: MemoryZookeeper) -> None:
        self._brokers = brokers
        self._zookeeper = zookeeper
        self._mark = self._now()

    async def clear(self) -> bool:
        """Delete all topics but the internal ones, and all groups. Returns False if the cluster
        differs from its mark in something else, or if a deletion was not finished in time."""
        if self._now() != self._mark or not self._is_as_new():
            return False
        try:
            async with asyncio.timeout(CLEARING_LIMIT_S):
                await self._delete_all()
        except TimeoutError:
            return False
        return True

    async def _delete_all(self) -> None:
        session = await self._zookeeper.open("inside", SESSION_MS, SESSION_MS)
        try:
            store = ZkStore(session)
            for topic in self._topics():
                if not await store.topic_marked_for_deletion(topic):
                    await store.request_topic_deletion(topic)
        finally:
            await session.close()
        for node in self._nodes():
            await self._delete_groups(node)
        await until(self._has_no_topic, "all topics are deleted")

    async def _delete_groups(self, node: BrokerNode) -> None:
        """Delete the groups of one coordinator. Their members leave first; those of clients that
        still run may come back."""
        coordinator = node.parts.groups.coordinator
        remaining = [group.group_id for _, group in coordinator.groups() if not group.is_dead]
        while remaining:
            for group_id in remaining:
                self._remove_members(node, group_id)
            done: asyncio.Future[Mapping[str, ErrorCode]]
            done = asyncio.get_running_loop().create_future()
            coordinator.delete_groups(remaining, done.set_result)
            outcomes = await done
            remaining = [group_id for group_id, error in outcomes.items() if error in _RETRIED]
            if remaining:
                await asyncio.sleep(0.001)

    def _remove_members(self, node: BrokerNode, group_id: str) -> None:
        coordinator = node.parts.groups.coordinator
        found = [group for _, group in coordinator.groups() if group.group_id == group_id]
        for group in found:
            members = [
                MemberIdentity(member.member_id, member.group_instance_id)
                for member in group.members.values()
            ]
            members += [MemberIdentity(member_id) for member_id in group.pending_members]
            coordinator.leave(group_id, members)

    # --------------------------------------------------------------------------------------- facts

    def _nodes(self) -> list[BrokerNode]:
        return [broker.node for broker in self._brokers.values() if broker.node is not None]

    def _now(self) -> ClusterMark:
        registrations = {
            number: (broker.node, -1 if broker.node is None else broker.node.broker_epoch)
            for number, broker in self._brokers.items()
        }
        znodes = {
            path: node.data
            for path, node in self._zookeeper.tree.nodes.items()
            if path.startswith(COMPARED) and not path.startswith(PASSING)
        }
        return ClusterMark(registrations, znodes)

    def _is_as_new(self) -> bool:
        """Whether no transactional id was used, and the internal topics are where they were created
        and in sync."""
        for node in self._nodes():
            active = node.parts.transactions.coordinator.runtime.active()
            if any(context.shard.transactions for context in active):
                return False
            for topic in INTERNAL_TOPICS:
                for state in node.parts.cache.partitions(topic).values():
                    if state.leader_epoch or set(state.isr) != set(state.replicas):
                        return False
        return True

    def _topics(self) -> list[str]:
        found = self._zookeeper.tree.children(paths.TOPICS)
        return [topic for topic in found if topic not in INTERNAL_TOPICS]

    def _has_no_topic(self) -> bool:
        """Whether no broker has anything of a topic, and no topic is being deleted."""
        if self._topics() or self._zookeeper.tree.children(paths.DELETE_TOPICS):
            return False
        return all(
            INTERNAL_TOPICS.issuperset(node.parts.cache.topics())
            and all(
                partition.topic_partition.topic in INTERNAL_TOPICS
                for partition in node.parts.replicas.hosted
            )
            for node in self._nodes()
        )
