"""Znodes of topics: assignments, partition states, creation and deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    BadVersion,
    CoordinationError,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
    SetOp,
    Watcher,
    ZnodeStat,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode, Requests, first_error, raise_error
from minikafka.server.zookeeper.znodes import ConfigZnode, PartitionStateZnode, TopicZnode

StateWrites = dict[TopicPartition, LeaderAndIsr | CoordinationError]


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """``topic_id`` is None for a topic that was created before Kafka 2.8."""

    topic_id: UUID | None
    partitions: Mapping[int, ReplicaAssignment]


class ZkTopicStore:
    """Reads and writes of topics. Methods with ``epoch_zk_version`` are fenced writes of a
    controller: they raise ``ControllerMoved`` if ``/controller_epoch`` is not at this version."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    # ----------------------------------------------------------------------------------- reads

    async def topics(self, watcher: Watcher | None = None) -> list[str]:
        """Return the names of all topics, sorted."""
        return await self._requests.children(paths.TOPICS, watcher)

    async def topic_exists(self, topic: str) -> bool:
        return await self._requests.exists(paths.topic(topic)) is not None

    async def topic_assignments(
        self, topics: Sequence[str], watcher: Watcher | None = None
    ) -> dict[str, TopicAssignment]:
        """Return the assignments of those topics that exist. ``watcher`` is called when one of them
        is changed or deleted. Raises ``MalformedZnode``."""
        nodes = [
            TopicZnode.decode(topic, node[0])
            async for topic, node in self._requests.each(topics, paths.topic, watcher)
            if node is not None
        ]
        return {node.topic: TopicAssignment(node.topic_id, node.assignment) for node in nodes}

    async def leader_isr_states(
        self, partitions: Sequence[TopicPartition], watcher: Watcher | None = None
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """Return the states of those partitions that have one, with the znodes' versions. Raises
        ``MalformedZnode``."""
        found = self._requests.each(partitions, paths.partition_state, watcher)
        return {
            tp: PartitionStateZnode.decode(tp, node[0], node[1].version, node[1].mzxid).state
            async for tp, node in found
            if node is not None
        }

    # ------------------------------------------------------------------------ partition states

    async def create_states(
        self,
        states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        epoch_zk_version: int,
    ) -> StateWrites:
        """Create the state znodes of new partitions, and their parents. Each partition's result is
        the state that was written, or the error, e.g. ``NodeExists``."""
        await self._create_parents(list(states), epoch_zk_version)
        groups: list[list[CoordinationOp]] = []
        for tp, state in states.items():
            node = PartitionStateZnode(tp, state)
            groups.append([CreateOp(node.path, node.encode())])
        written = await self._requests.fenced(groups, epoch_zk_version)
        return {
            tp: first_error(results) or replace(state.leader_and_isr, zk_version=0)
            for (tp, state), results in zip(states.items(), written, strict=True)
        }

    async def _create_parents(
        self, partitions: Sequence[TopicPartition], epoch_zk_version: int
    ) -> None:
        """Create ``.../partitions`` and ``.../partitions/<n>`` where they are missing. A topic that
        was deleted is no error here: creating its states will fail with ``NoNode``."""
        topics = list(dict.fromkeys(tp.topic for tp in partitions))
        for parents in (
            [paths.partitions(topic) for topic in topics],
            [paths.partition(tp) for tp in partitions],
        ):
            groups = [[CreateOp(path, b"")] for path in parents]
            for results in await self._requests.fenced(groups, epoch_zk_version):
                error = first_error(results)
                if error is not None and not isinstance(error, NodeExists | NoNode):
                    raise error

    async def update_states(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        epoch_zk_version: int,
    ) -> StateWrites:
        """Write states, each conditional on its own ``zk_version``. A partition's result is the
        state with its new version, or the error. ``BadVersion`` means that a leader changed the ISR
        meanwhile: read the state again and retry."""
        groups: list[list[CoordinationOp]] = []
        for tp, leader in states.items():
            assert leader.zk_version >= 0, f"{tp}: a state is written at a known version only"
            node = PartitionStateZnode(tp, LeaderIsrAndControllerEpoch(leader, controller_epoch))
            groups.append([SetOp(node.path, node.encode(), leader.zk_version)])
        written = await self._requests.fenced(groups, epoch_zk_version)
        return {
            tp: first_error(results) or _at_version(leader, results[0])
            for (tp, leader), results in zip(states.items(), written, strict=True)
        }

    async def update_isrs(
        self, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> dict[TopicPartition, int | CoordinationError | None]:
        """Write ISRs that a leader has changed, each conditional on its own ``zk_version``. A
        partition's result is the new version; None if the state was changed or deleted meanwhile;
        or another error. If the znode already has the state to be written, the response to an
        earlier attempt was lost, and its version is the result (Kafka's ``ReplicationUtils``)."""
        groups: list[list[CoordinationOp]] = []
        for tp, state in states.items():
            assert state.leader_and_isr.zk_version >= 0, f"{tp}: a leader knows its version"
            node = PartitionStateZnode(tp, state)
            groups.append([SetOp(node.path, node.encode(), state.leader_and_isr.zk_version)])
        versions: dict[TopicPartition, int | CoordinationError | None] = {}
        raced: list[TopicPartition] = []
        for tp, results in zip(states, await self._requests.fenced(groups, None), strict=True):
            error = first_error(results)
            if isinstance(error, BadVersion):
                raced.append(tp)
            elif isinstance(error, NoNode):
                versions[tp] = None
            elif error is not None:
                versions[tp] = error
            else:
                versions[tp] = _at_version(states[tp].leader_and_isr, results[0]).zk_version
        found = await self._requests.get_all([paths.partition_state(tp) for tp in raced])
        for tp, known in zip(raced, found, strict=True):
            versions[tp] = _version_if_written(tp, states[tp], known)
        return versions

    # ------------------------------------------------------------- creation, changes and deletion

    async def create_topic(
        self,
        topic: str,
        topic_id: UUID | None,
        replicas: Mapping[int, Sequence[int]],
        config: Mapping[str, str],
    ) -> None:
        """Create a topic's configuration and assignment in one multi. The controller, which watches
        ``/brokers/topics``, does the rest. Raises ``NodeExists`` if the topic exists."""
        plan = {p: ReplicaAssignment(tuple(ids)) for p, ids in replicas.items()}
        node = TopicZnode(topic, topic_id, plan)
        settings = ConfigZnode(paths.TOPIC_CONFIGS, topic, config)
        create = CreateOp(node.path, node.encode())
        await self._requests.create_if_missing(paths.TOPICS)
        await self._requests.create_if_missing(f"{paths.CONFIG}/{paths.TOPIC_CONFIGS}")
        outcome = await self._requests.multi([create, CreateOp(settings.path, settings.encode())])
        if isinstance(outcome.error, NodeExists) and outcome.error is outcome.results[1]:
            # A deleted topic's configuration, or one that was set in advance, is replaced.
            outcome = await self._requests.multi(
                [create, SetOp(settings.path, settings.encode())],
                may_be_done=outcome.repeated,
            )
        raise_error(outcome.results)

    async def topic_assignment_version(self, topic: str) -> tuple[TopicAssignment, int] | None:
        """Return a topic's assignment and the version of its znode. Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.topic(topic))
        if found is None:
            return None
        node = TopicZnode.decode(topic, found[0])
        return TopicAssignment(node.topic_id, node.assignment), found[1].version

    async def set_topic_assignment(
        self,
        topic: str,
        topic_id: UUID | None,
        assignment: Mapping[int, ReplicaAssignment],
        epoch_zk_version: int | None = None,
        expected_version: int = -1,
    ) -> None:
        """Replace a topic's assignment (new partitions, reassignment). Only a controller passes
        ``epoch_zk_version``. Raises ``NoNode``, ``BadVersion``, ``ControllerMoved``."""
        node = TopicZnode(topic, topic_id, assignment)
        groups = [[SetOp(node.path, node.encode(), expected_version)]]
        raise_error((await self._requests.fenced(groups, epoch_zk_version))[0])

    async def change_assignments(
        self, changes: Mapping[TopicPartition, ReplicaAssignment], epoch_zk_version: int
    ) -> dict[str, str]:
        """Change the assignments of these partitions and keep those of the topics' other
        partitions, including partitions that are added at the same time. Return the topics that
        could not be written, deleted or malformed ones, with the reason. Raises
        ``ControllerMoved``."""
        failed: dict[str, str] = {}
        pending = sorted({tp.topic for tp in changes})
        while pending:
            found = await self._requests.get_all([paths.topic(topic) for topic in pending])
            groups: dict[str, list[CoordinationOp]] = {}
            for topic, known in zip(pending, found, strict=True):
                try:
                    if known is None:
                        raise NoNode(paths.topic(topic))
                    node = TopicZnode.decode(topic, known[0])
                except (NoNode, MalformedZnode) as unwritable:
                    failed[topic] = repr(unwritable)
                    continue
                changed = {tp.partition: a for tp, a in changes.items() if tp.topic == topic}
                merged = replace(node, assignment={**node.assignment, **changed})
                groups[topic] = [SetOp(node.path, merged.encode(), known[1].version)]
            written = await self._requests.fenced(list(groups.values()), epoch_zk_version)
            pending = []
            for topic, results in zip(groups, written, strict=True):
                error = first_error(results)
                if isinstance(error, BadVersion):
                    pending.append(topic)
                elif isinstance(error, NoNode):
                    failed[topic] = repr(error)
                else:
                    raise_error(results)
        return failed

    async def request_topic_deletion(self, topic: str) -> None:
        """Add the topic to ``/admin/delete_topics``. Raises ``NodeExists`` if it is there."""
        await self._requests.create_if_missing(paths.DELETE_TOPICS)
        await self._requests.multi_or_raise([CreateOp(paths.delete_topic(topic), b"")])

    async def request_topic_deletions(self, topics: Sequence[str]) -> None:
        """Add all these topics to ``/admin/delete_topics`` at once, so that the controller deletes
        them together. Raises ``NodeExists`` if one of them is there, and adds none."""
        await self._requests.create_if_missing(paths.DELETE_TOPICS)
        ops = [CreateOp(paths.delete_topic(topic), b"") for topic in topics]
        await self._requests.multi_or_raise(ops)

    async def topic_marked_for_deletion(self, topic: str) -> bool:
        return await self._requests.exists(paths.delete_topic(topic)) is not None

    async def topic_deletions(self, watcher: Watcher | None = None) -> list[str]:
        """Return the topics marked for deletion, sorted."""
        return await self._requests.children(paths.DELETE_TOPICS, watcher)

    async def delete_topic_deletions(self, topics: Sequence[str], epoch_zk_version: int) -> None:
        """Remove topics from ``/admin/delete_topics`` without deleting them: they do not exist, or
        ``delete.topic.enable`` is false."""
        groups = [[DeleteOp(paths.delete_topic(topic))] for topic in topics]
        for results in await self._requests.fenced(groups, epoch_zk_version):
            if not isinstance(results[0], NoNode):
                raise_error(results)

    async def delete_topic(self, topic: str, epoch_zk_version: int) -> None:
        """Delete a topic's znodes, as the last step of its deletion: first the tree below
        ``/brokers/topics``, then its configuration, and last its mark in ``/admin/delete_topics``,
        so that a new controller finds an unfinished deletion."""
        while True:
            tree = await self._tree(paths.topic(topic))
            if not await self._delete_nodes(reversed(tree), epoch_zk_version):
                break  # otherwise a znode was created in the tree meanwhile: read it again
        rest = [paths.config(paths.TOPIC_CONFIGS, topic), paths.delete_topic(topic)]
        await self._delete_nodes(rest, epoch_zk_version)

    async def _delete_nodes(self, znodes: Iterable[str], epoch_zk_version: int) -> bool:
        """Delete the existing ones of these znodes, in this order. Return whether one had children;
        raise any other error."""
        groups = [[DeleteOp(path)] for path in znodes]
        done = await self._requests.fenced(groups, epoch_zk_version, in_turn=True)
        errors = [first_error(results) for results in done]
        unexpected = [e for e in errors if e is not None and not isinstance(e, NoNode)]
        if unexpected and not isinstance(unexpected[0], NotEmpty):
            raise unexpected[0]
        return bool(unexpected)

    async def _tree(self, root: str) -> list[str]:
        """Return ``root`` and all paths below it, parents before children; empty if ``root`` does
        not exist."""
        if await self._requests.exists(root) is None:
            return []
        tree, level = [root], [root]
        while level:
            children = await self._requests.children_all(level)
            level = [
                f"{path}/{name}"
                for path, names in zip(level, children, strict=True)
                for name in names
            ]
            tree += level
        return tree


def _at_version(leader: LeaderAndIsr, result: object) -> LeaderAndIsr:
    assert isinstance(result, ZnodeStat), result
    return replace(leader, zk_version=result.version)


def _version_if_written(
    tp: TopicPartition,
    written_state: LeaderIsrAndControllerEpoch,
    found: tuple[bytes, ZnodeStat] | None,
) -> int | None:
    """Return the version of the znode ``found`` if it has this state, else None."""
    if found is None:
        return None
    data, stat = found
    try:
        state = PartitionStateZnode.decode(tp, data, stat.version).state
    except MalformedZnode:
        return None
    expected = replace(written_state.leader_and_isr, zk_version=stat.version)
    return stat.version if state == replace(written_state, leader_and_isr=expected) else None
