"""Deletes what a test has left in a cluster, and takes back what it has set.

``undo`` goes back to the contents that a cluster had: topics, groups, settings, quotas, users and
ACLs. ``clear`` deletes all topics and groups. Both take milliseconds. If anything else differs from
a new cluster (brokers, the leaders of internal topics, transactional ids, settings), ``clear`` only
finds that: then the brokers start again on empty disks, which undoes everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.heartbeat import HeartbeatFacts
from minikafka.core.group.group import Group
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.heartbeat import ShareHeartbeatFacts
from minikafka.core.group.streams.group import StreamsGroup
from minikafka.core.group.streams.heartbeat import StreamsHeartbeat
from minikafka.kernel.cluster import INTERNAL_TOPICS
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import (
    CoordinationError,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    SetOp,
)
from minikafka.protocol.messages.consumer_group_heartbeat import LEAVES
from minikafka.protocol.messages.leave_group import MemberIdentity
from minikafka.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from minikafka.server.node.broker import BrokerNode
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from minikafka.testing.inside.brokers import BrokerState, until
from minikafka.world.memory.coordination import MemoryZookeeper

CLEARING_LIMIT_S = 2
SESSION_MS = 30_000
UNDOING_LIMIT_S = 10
# The znodes that make two clusters differ, without notifications. Those with settings of topics go
# with their topics.
COMPARED = (f"{paths.CONFIG}/", "/kafka-acl/", "/kafka-acl-extended/", f"{paths.FEATURE}")
NOTICES = f"{paths.CONFIG_CHANGES}/"
TOPIC_SETTINGS = f"{paths.CONFIG}/{paths.TOPIC_CONFIGS}/"
_RETRIED = frozenset(
    {ErrorCode.NON_EMPTY_GROUP, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class ClusterMark(NamedTuple):
    """What must be the same again: the brokers with their registrations, and znodes."""

    registrations: Mapping[int, tuple[BrokerNode | None, int]]
    znodes: Mapping[str, bytes]


class ClusterContents(NamedTuple):
    """What a cluster has at a moment: the names of its topics, without internal ones, and of its
    groups, and the znodes of settings, quotas, users and ACLs."""

    topics: frozenset[str]
    groups: frozenset[str]
    znodes: Mapping[str, bytes]


class ClusterClearing:
    """Clears the cluster of ``brokers``, if nothing but topics and groups differs from its mark, or
    goes back to earlier contents.

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
                topics = frozenset(self._topics())
                await self._request_deletions(topics)
                for node in self._nodes():
                    await self._delete_groups(node)
                await until(lambda: self._are_gone(topics), "all topics are deleted")
        except TimeoutError:
            return False
        return not self._topics()

    def contents(self) -> ClusterContents:
        """Return what the cluster has now, for ``undo``."""
        groups = frozenset(name for node in self._nodes() for name in self._groups(node))
        return ClusterContents(frozenset(self._topics()), groups, self._set_znodes())

    async def undo(self, before: ClusterContents, limit_s: float = UNDOING_LIMIT_S) -> None:
        """Delete the topics and groups that are not in ``before``, and set all settings, quotas,
        users and ACLs as they are there. Returns when all brokers know it. Groups that still have
        members stay. Raises AssertionError with the topics that are left after ``limit_s``."""
        try:
            async with asyncio.timeout(limit_s):
                if await self._restore_znodes(before):
                    for node in self._nodes():
                        await node.read_settings_again()
                for node in self._nodes():
                    made = [name for name in self._groups(node) if name not in before.groups]
                    await self._delete_empty_groups(node, made)
                while topics := frozenset(self._topics()) - before.topics:
                    await self._request_deletions(topics)
                    await until(lambda: self._are_gone(topics), "topics are deleted")
        except TimeoutError:
            left = ", ".join(sorted(set(self._topics()) - before.topics))
            raise AssertionError(f"topics are left after {limit_s} s: {left}") from None

    async def _request_deletions(self, topics: frozenset[str]) -> None:
        """Mark topics for deletion, all at once, except those that are marked already."""
        session = await self._zookeeper.open("inside", SESSION_MS, SESSION_MS)
        try:
            store = ZkStore(session)
            marked = frozenset(await store.topic_deletions()) if topics else topics
            if topics - marked:
                await store.request_topic_deletions(sorted(topics - marked))
        finally:
            await session.close()

    async def _restore_znodes(self, before: ClusterContents) -> bool:
        """Write the znodes of settings as they were. Returns whether one was different. The
        settings of topics that are to be deleted, and of those that are gone, do not count."""
        topics = before.topics.intersection(self._topics())
        wanted, found = (
            {path: data for path, data in znodes.items() if _is_of_cluster_or(topics, path)}
            for znodes in (before.znodes, self._set_znodes())
        )
        if wanted == found:
            return False
        ops: list[CoordinationOp] = [
            DeleteOp(path) for path in sorted(found.keys() - wanted.keys(), reverse=True)
        ]
        for path in sorted(wanted):  # parents are before their children
            if path not in found:
                ops.append(CreateOp(path, wanted[path]))
            elif wanted[path] != found[path]:
                ops.append(SetOp(path, wanted[path]))
        session = await self._zookeeper.open("inside", SESSION_MS, SESSION_MS)
        try:
            for result in await session.multi(ops):
                if isinstance(result, CoordinationError):
                    raise result
        finally:
            await session.close()
        return True

    async def _delete_groups(self, node: BrokerNode) -> None:
        """Delete the groups of one coordinator. Their members leave first; those of clients that
        still run may come back."""
        remaining = self._groups(node)
        while remaining:
            for group_id in remaining:
                self._remove_members(node, group_id)
            remaining = await self._delete_empty_groups(node, remaining)
            if remaining:
                await asyncio.sleep(0.001)

    async def _delete_empty_groups(self, node: BrokerNode, groups: list[str]) -> list[str]:
        """Delete groups of one coordinator, and return those that it could not delete yet."""
        if not groups:
            return []
        done: asyncio.Future[Mapping[str, ErrorCode]]
        done = asyncio.get_running_loop().create_future()
        node.entities.groups.delete_groups(groups, done.set_result)
        return [group_id for group_id, error in (await done).items() if error in _RETRIED]

    def _remove_members(self, node: BrokerNode, group_id: str) -> None:
        coordinator = node.entities.groups
        found = [group for _, group in coordinator.groups() if group.group_id == group_id]
        for group in found:
            if isinstance(group, ConsumerGroup):
                for member_id, member in list(group.members.items()):
                    leaving = HeartbeatFacts(member_id, LEAVES, member.instance_id)
                    coordinator.consumer_heartbeat(group_id, leaving, lambda _: None)
            elif isinstance(group, ShareGroup):
                for member_id in list(group.members):
                    gone = ShareHeartbeatFacts(member_id, LEAVES)
                    coordinator.share_heartbeat(group_id, gone, lambda _: None)
            elif isinstance(group, StreamsGroup):
                for member_id in list(group.members):
                    request = StreamsGroupHeartbeatRequest(group_id, member_id, LEAVES)
                    coordinator.streams_heartbeat(StreamsHeartbeat(request), lambda _: None)
            elif isinstance(group, Group):
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
            path: data
            for path, data in self._set_znodes().items()
            if not path.startswith(TOPIC_SETTINGS)
        }
        return ClusterMark(registrations, znodes)

    def _set_znodes(self) -> Mapping[str, bytes]:
        return {
            path: node.data
            for path, node in self._zookeeper.tree.nodes.items()
            if path.startswith(COMPARED) and not path.startswith(NOTICES)
        }

    def _groups(self, node: BrokerNode) -> list[str]:
        """Return the groups of one coordinator."""
        groups = node.entities.groups.groups()
        return [group.group_id for _, group in groups if not group.is_dead]

    def _is_as_new(self) -> bool:
        """Whether no transactional id was used, and the internal topics are where they were created
        and in sync."""
        for node in self._nodes():
            active = node.entities.transactions.runtime.active()
            if any(context.shard.transactions for context in active):
                return False
            for topic in INTERNAL_TOPICS:
                for state in node.entities.metadata.partitions(topic).values():
                    if state.leader_epoch or set(state.isr) != set(state.replicas):
                        return False
        return True

    def _topics(self) -> list[str]:
        found = self._zookeeper.tree.children(paths.TOPICS)
        return [topic for topic in found if topic not in INTERNAL_TOPICS]

    def _are_gone(self, topics: frozenset[str]) -> bool:
        """Whether no broker has anything of these topics, and none of them is being deleted."""
        tree = self._zookeeper.tree
        if not topics.isdisjoint([*self._topics(), *tree.children(paths.DELETE_TOPICS)]):
            return False
        return all(
            topics.isdisjoint(node.entities.metadata.topics())
            and topics.isdisjoint(
                partition.topic_partition.topic for partition in node.entities.partitions
            )
            for node in self._nodes()
        )


def _is_of_cluster_or(topics: frozenset[str], path: str) -> bool:
    """Whether a znode has settings of one of these topics, or none of a topic."""
    return not path.startswith(TOPIC_SETTINGS) or path.removeprefix(TOPIC_SETTINGS) in topics
