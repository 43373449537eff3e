"""What a test does to a running cluster: move leaders and coordinators, expire sessions.

Everything is done through the cluster's own APIs, so that the cluster ends in a state that an
administrator could have brought about. Each operation returns when all reachable brokers know its
outcome. All methods run on the cluster's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from minikafka.client import Admin
from minikafka.client.session import look_up_coordinator
from minikafka.core.client.calls import CoordinatorKey
from minikafka.core.metadata_image import PartitionMetadata
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    NO_LEADER,
    CoordinatorType,
    ElectionType,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.node.broker import BrokerNode
from minikafka.testing.inside.brokers import BrokerState, until


class ClusterOperations:
    """Operations on ``brokers``, which the cluster owns. ``admin`` returns a new admin client."""

    def __init__(self, brokers: Mapping[int, BrokerState], admin: Callable[[], Admin]) -> None:
        self._brokers = brokers
        self._admin = admin

    # ------------------------------------------------------------------------------------- leaders

    def leader(self, topic: str, partition: int) -> int:
        """Return the leader in the newest metadata of any broker. Raises KafkaError:
        UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
        topic_partition = TopicPartition(topic, partition)
        state = self._state_of(topic_partition)
        if state.leader == NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(topic_partition))
        return state.leader

    async def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make a running broker the leader, and wait until it serves the partition.

        It becomes the preferred replica by a reassignment. If it has no replica, it replaces the
        last follower, or the only replica. Raises KafkaError, and ValueError for a broker that
        does not run.
        """
        topic_partition = TopicPartition(topic, partition)
        self._node(broker_id)
        old = self._state_of(topic_partition)
        others = [replica for replica in old.replicas if replica != broker_id]
        target = [broker_id, *others][: len(old.replicas)]
        async with self._admin() as admin:
            if target != list(old.replicas):
                outcomes = await admin.alter_partition_reassignments({topic_partition: target})
                _raise_first(outcomes)
                await until(
                    lambda: self._is_assigned(topic_partition, target),
                    f"the replicas of {topic_partition} are {target}",
                )
            await until(
                lambda: broker_id in self._state_of(topic_partition).isr,
                f"broker {broker_id} is in sync with {topic_partition}",
            )
            if self._state_of(topic_partition).leader != broker_id:
                election = admin.elect_leaders(ElectionType.PREFERRED, [topic_partition])
                _raise_first(await election, ErrorCode.ELECTION_NOT_NEEDED)
        await until(
            lambda: self._serves(broker_id, topic_partition),
            f"broker {broker_id} leads {topic_partition}",
        )

    # -------------------------------------------------------------------------------- coordinators

    async def create_group_topic(self) -> None:
        """Create the topic of groups, as the first consumer would. It would have to retry: in
        librdkafka that takes one second, or two. A failure is left for the first consumer to see.
        """
        controller = next(node for node in self._nodes() if node.entities.controller.is_active)
        created: asyncio.Future[Mapping[str, ErrorCode]]
        created = asyncio.get_running_loop().create_future()
        controller.create_topics([GROUP_METADATA_TOPIC], created.set_result)
        # Neither error is a refusal: the leaders, or the topic itself, are only not known yet.
        soon = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if (await created)[GROUP_METADATA_TOPIC] in soon:
            await until(self._has_coordinators, "the coordinators of groups are known")

    def _has_coordinators(self) -> bool:
        """Whether all brokers know who coordinates groups, and the coordinators have begun."""
        nodes = {node.broker_id: node for node in self._nodes()}
        for node in nodes.values():
            known = node.entities.metadata.partitions(GROUP_METADATA_TOPIC)
            if not known:
                return False
            for partition, state in known.items():
                leader = nodes.get(state.leader)
                if leader is None or not _coordinates(leader, partition):
                    return False
        return True

    async def coordinator(self, group: str) -> int:
        """Return the coordinator of a group, which need not exist. Creates the topic of the groups
        if there is none, as every consumer does. Raises KafkaError."""
        async with self._admin() as admin:
            session = admin.session
            key = CoordinatorKey(CoordinatorType.GROUP, group)
            deadline_ms = session.deadline_ms()
            return await session.retrying(
                lambda: look_up_coordinator(session, key, deadline_ms), deadline_ms
            )

    async def move_coordinator(self, group: str, broker_id: int) -> None:
        """Make a running broker the coordinator of a group, and wait until it has loaded the group.
        Other groups of the same partition move, too. Raises as ``move_leader``."""
        node = self._node(broker_id)
        await self.coordinator(group)  # creates the topic
        groups = node.entities.groups
        partition = groups.partition_for(group)
        await self.move_leader(GROUP_METADATA_TOPIC, partition, broker_id)
        await until(
            lambda: groups.runtime.active_in(partition),
            f"broker {broker_id} has loaded the groups of partition {partition}",
        )

    # ------------------------------------------------------------------------------------ sessions

    async def expire_session(self, broker_id: int) -> None:
        """Expire the ZooKeeper session of a running broker, and wait until it is registered again
        and all brokers know its new registration."""
        node, process = self._node(broker_id), self._brokers[broker_id].process
        assert process is not None
        epoch = node.broker_epoch
        process.coordination.expire_all()
        await until(
            lambda: node.broker_epoch != epoch and self._know_each_other(),
            f"broker {broker_id} is registered again",
        )

    # ------------------------------------------------------------------------------------- details

    def _node(self, broker_id: int) -> BrokerNode:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.node is None:
            running = [each.broker_id for each in self._brokers.values() if each.node]
            raise ValueError(f"broker {broker_id} does not run; brokers that run: {running}")
        return broker.node

    def _nodes(self) -> list[BrokerNode]:
        """Return the running brokers that the others can reach."""
        return [broker.node for broker in self._brokers.values() if broker.node is not None]

    def _state_of(self, topic_partition: TopicPartition) -> PartitionMetadata:
        known = [node.entities.metadata.partition(topic_partition) for node in self._nodes()]
        states = [state for state in known if state is not None]
        if not states:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(topic_partition))
        return max(states, key=lambda state: (state.controller_epoch, state.leader_epoch))

    def _is_assigned(self, topic_partition: TopicPartition, target: list[int]) -> bool:
        """Whether all brokers know a finished reassignment, and its leader can be elected."""
        states = [node.entities.metadata.partition(topic_partition) for node in self._nodes()]
        return all(
            state is not None and list(state.replicas) == target and target[0] in state.isr
            for state in states
        )

    def _serves(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        led = self._partition(broker_id, topic_partition)
        known = [node.entities.metadata.partition_leader(topic_partition) for node in self._nodes()]
        return (
            led is not None
            and led.is_leader
            and known == [(broker_id, led.leader_epoch)] * len(known)
        )

    def _partition(self, broker_id: int, topic_partition: TopicPartition) -> Partition | None:
        return self._node(broker_id).entities.partitions.get(topic_partition)

    def _know_each_other(self) -> bool:
        nodes = self._nodes()
        ids = sorted(node.broker_id for node in nodes)
        return all(
            [broker.id for broker in node.entities.metadata.live_brokers()] == ids for node in nodes
        )


def _coordinates(node: BrokerNode, partition: int) -> bool:
    return node.entities.groups.runtime.active_in(partition) is not None


def _raise_first(outcomes: Mapping[TopicPartition, KafkaError | None], *passed: ErrorCode) -> None:
    for error in outcomes.values():
        if error is not None and error.code not in passed:
            raise error
