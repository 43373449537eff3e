"""Znodes of the controller: election, epoch, notifications to it, and administrators' requests."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    SetOp,
    Watcher,
    ZnodeStat,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import (
    ControllerMoved,
    MalformedZnode,
    Requests,
    raise_error,
)
from minikafka.server.zookeeper.store_cluster import RegisteredBroker
from minikafka.server.zookeeper.znodes import (
    ControllerEpochZnode,
    ControllerZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PreferredElectionZnode,
    ReassignPartitionsZnode,
)

INITIAL_CONTROLLER_EPOCH = 0  # written once; the first controller makes it 1


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """``/controller`` as it was read. ``broker_id`` is None if ``data`` is malformed."""

    broker_id: int | None
    data: bytes
    ephemeral_owner: int  # a session id; 0 for a node that was created by hand
    zk_version: int


class ZkControllerStore:
    """Reads and writes of the controller. The election is conditional on the version of
    ``/controller_epoch``, and that version fences the controller's later writes."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    # -------------------------------------------------------------------------------- election

    async def controller(self, watcher: Watcher | None = None) -> ControllerNode | None:
        """Return ``/controller``, or None if there is none. The watch fires at the next creation,
        change or deletion in both cases."""
        if watcher is not None:
            await self._requests.exists(paths.CONTROLLER, watcher)
        found = await self._requests.get(paths.CONTROLLER)
        if found is None:
            return None
        data, stat = found
        try:
            broker_id = ControllerZnode.decode(data).broker_id
        except MalformedZnode:
            broker_id = None
        return ControllerNode(broker_id, data, stat.ephemeral_owner, stat.version)

    async def controller_id(self, watcher: Watcher | None = None) -> int | None:
        """Return the controller's id; None if there is no controller or its node is malformed."""
        node = await self.controller(watcher)
        return node.broker_id if node else None

    async def controller_epoch(self) -> tuple[int, int] | None:
        """Return the controller epoch and the zkVersion of its znode. Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.CONTROLLER_EPOCH)
        return (ControllerEpochZnode.decode(found[0]).epoch, found[1].version) if found else None

    async def register_controller_and_increment_epoch(
        self, broker_id: int, wall_ms: int
    ) -> tuple[int, int]:
        """Become the controller: create ``/controller`` and increment the epoch in one multi.

        Returns the new epoch and the zkVersion that fences every later write. Raises
        ``ControllerMoved`` if another broker has been elected. If the response to a first attempt
        was lost, the node exists already: it counts as this broker's if this session owns it and
        the epoch is the one that the attempt wrote.
        """
        epoch, zk_version = await self._read_or_create_epoch()
        own_node = ControllerZnode(broker_id, wall_ms)
        next_epoch = ControllerEpochZnode(epoch + 1)
        outcome = await self._requests.multi(
            [
                CreateOp(own_node.path, own_node.encode(), ephemeral=True),
                SetOp(next_epoch.path, next_epoch.encode(), zk_version),
            ]
        )
        if isinstance(outcome.error, NodeExists | BadVersion):
            return await self._check_own_election(broker_id, epoch + 1)
        raise_error(outcome.results)
        stat = outcome.results[1]
        assert isinstance(stat, ZnodeStat), stat
        return epoch + 1, stat.version

    async def _read_or_create_epoch(self) -> tuple[int, int]:
        while True:
            found = await self.controller_epoch()
            if found is not None:
                return found
            node = ControllerEpochZnode(INITIAL_CONTROLLER_EPOCH)
            await self._requests.create(CreateOp(node.path, node.encode()))

    async def _check_own_election(self, broker_id: int, epoch: int) -> tuple[int, int]:
        node = await self.controller()
        if node is None:
            raise ControllerMoved("/controller was deleted during the election")
        if node.broker_id == broker_id and self.is_ours(node):
            found = await self.controller_epoch()
            if found is not None and found[0] == epoch:
                return found
        raise ControllerMoved(f"broker {node.broker_id} is the controller")

    def is_ours(self, node: ControllerNode) -> bool:
        """Whether this store's session owns the node."""
        return node.ephemeral_owner == self._requests.session.session_id

    async def is_orphan(self, node: ControllerNode) -> bool:
        """Whether no live broker can be acting on this node: its data are malformed (R-1), or the
        broker that it names is not registered by the session that owns the node (R-13)."""
        if node.broker_id is None:
            return True
        registered = await self._requests.exists(paths.broker_id(node.broker_id))
        return registered is None or registered.ephemeral_owner != node.ephemeral_owner

    async def repair_controller(self) -> bool:
        """Delete ``/controller`` if it is an orphan, so that an election follows; return whether it
        was deleted.

        Kafka waits until the node disappears. The deletion is conditional on the versions of node
        and epoch, so it cannot delete the node of a controller that was elected in the meantime.
        """
        epoch = await self.controller_epoch()
        node = await self.controller()
        if node is None or not await self.is_orphan(node):
            return False
        ops: list[CoordinationOp] = [DeleteOp(paths.CONTROLLER, node.zk_version)]
        if epoch is not None:
            ops.insert(0, CheckOp(paths.CONTROLLER_EPOCH, epoch[1]))
        outcome = await self._requests.multi(ops)
        if isinstance(outcome.error, BadVersion | NoNode):
            return False
        raise_error(outcome.results)
        return True

    async def remove_registration(self, registration: RegisteredBroker) -> bool:
        """Delete the registration of a broker, and ``/controller`` if the same session owns it.
        Return False if the broker is not registered so any more. Raises ``MalformedZnode``.

        The deletion is conditional on all that was read, so that it concerns neither a broker that
        has registered again, or other endpoints, nor a controller that was elected in the
        meantime."""
        path = paths.broker_id(registration.broker.id)
        known = registration.broker.epoch, registration.zk_version
        while True:
            epoch = await self.controller_epoch()
            node = await self.controller()
            stat = await self._requests.exists(path)
            if stat is None or (stat.czxid, stat.version) != known:
                return False
            ops: list[CoordinationOp] = [DeleteOp(path, stat.version)]
            if node is not None and node.ephemeral_owner == registration.session:
                ops.append(DeleteOp(paths.CONTROLLER, node.zk_version))
                if epoch is not None:
                    ops.insert(0, CheckOp(paths.CONTROLLER_EPOCH, epoch[1]))
            outcome = await self._requests.multi(ops)
            if not isinstance(outcome.error, BadVersion | NoNode):
                raise_error(outcome.results)
                return True

    async def delete_controller(self, epoch_zk_version: int) -> None:
        """Delete ``/controller`` to resign. Raises ``ControllerMoved`` if there is a newer
        controller."""
        await self._fenced_delete([paths.CONTROLLER], epoch_zk_version)

    async def _fenced_delete(self, znodes: Sequence[str], epoch_zk_version: int) -> None:
        """Delete those of the znodes that exist. Raises ``ControllerMoved``."""
        groups = [[DeleteOp(path)] for path in znodes]
        for results in await self._requests.fenced(groups, epoch_zk_version):
            if not isinstance(results[0], NoNode):
                raise_error(results)

    # --------------------------------------------------------------------------- notifications

    async def propagate_isr_changes(self, partitions: Sequence[TopicPartition]) -> None:
        """Notify the controller that leaders changed these partitions' ISRs. Kafka's limit of 3,000
        partitions per znode keeps it below ZooKeeper's limit of 1 MB."""
        ordered = sorted(set(partitions))
        for start in range(0, len(ordered), 3000):
            node = IsrChangeZnode(frozenset(ordered[start : start + 3000]))
            await self._requests.multi_or_raise(
                [CreateOp(node.path, node.encode(), sequential=True)]
            )

    async def isr_changes(self, watcher: Watcher | None = None) -> list[str]:
        """Return the sequence numbers of pending ISR change notifications, in order."""
        return await self._sequence_numbers(paths.ISR_CHANGES, "isr_change_", watcher)

    async def isr_change_partitions(self, sequences: Sequence[str]) -> set[TopicPartition]:
        """Return all partitions that these notifications name. Raises ``MalformedZnode``."""
        found = self._requests.each(sequences, paths.isr_change)
        nodes = [IsrChangeZnode.decode(node[0]) async for _, node in found if node is not None]
        return {tp for node in nodes for tp in node.partitions}

    async def delete_isr_changes(self, sequences: Sequence[str], epoch_zk_version: int) -> None:
        """Delete ISR change notifications. Raises ``ControllerMoved``."""
        await self._fenced_delete([paths.isr_change(s) for s in sequences], epoch_zk_version)

    async def propagate_log_dir_event(self, broker_id: int) -> None:
        """Notify the controller that one of the broker's log directories has failed."""
        node = LogDirEventZnode(broker_id)
        await self._requests.multi_or_raise([CreateOp(node.path, node.encode(), sequential=True)])

    async def log_dir_events(self, watcher: Watcher | None = None) -> list[str]:
        """Return the sequence numbers of pending log-directory notifications, in order."""
        return await self._sequence_numbers(paths.LOG_DIR_EVENTS, "log_dir_event_", watcher)

    async def log_dir_event_brokers(self, sequences: Sequence[str]) -> set[int]:
        """Return all brokers that these notifications name. Raises ``MalformedZnode``."""
        found = self._requests.each(sequences, paths.log_dir_event)
        return {
            LogDirEventZnode.decode(node[0]).broker_id
            async for _, node in found
            if node is not None
        }

    async def delete_log_dir_events(self, sequences: Sequence[str], epoch_zk_version: int) -> None:
        """Delete log-directory notifications. Raises ``ControllerMoved``."""
        await self._fenced_delete([paths.log_dir_event(s) for s in sequences], epoch_zk_version)

    async def _sequence_numbers(self, path: str, prefix: str, watcher: Watcher | None) -> list[str]:
        names = await self._requests.children(path, watcher)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    # -------------------------------------------------------------------- administrators' requests

    async def preferred_election(self, watcher: Watcher | None = None) -> set[TopicPartition]:
        """Return the partitions in ``/admin/preferred_replica_election``. Raises
        ``MalformedZnode``."""
        if watcher is not None:
            await self._requests.exists(paths.PREFERRED_REPLICA_ELECTION, watcher)
        found = await self._requests.get(paths.PREFERRED_REPLICA_ELECTION)
        return set(PreferredElectionZnode.decode(found[0]).partitions) if found else set()

    async def request_preferred_election(self, partitions: Sequence[TopicPartition]) -> None:
        """Request elections of preferred leaders. Raises ``NodeExists`` while an earlier request is
        in progress."""
        node = PreferredElectionZnode(frozenset(partitions))
        await self._requests.multi_or_raise([CreateOp(node.path, node.encode())])

    async def delete_preferred_election(self, epoch_zk_version: int) -> None:
        """Delete ``/admin/preferred_replica_election``. Raises ``ControllerMoved``."""
        await self._fenced_delete([paths.PREFERRED_REPLICA_ELECTION], epoch_zk_version)

    async def reassignment(
        self, watcher: Watcher | None = None
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the target replicas in ``/admin/reassign_partitions``. Raises
        ``MalformedZnode``."""
        if watcher is not None:
            await self._requests.exists(paths.REASSIGN_PARTITIONS, watcher)
        found = await self._requests.get(paths.REASSIGN_PARTITIONS)
        return dict(ReassignPartitionsZnode.decode(found[0]).replicas) if found else {}

    async def write_reassignment(
        self, replicas: dict[TopicPartition, tuple[int, ...]], epoch_zk_version: int
    ) -> None:
        """Replace the reassignments in the znode; delete it if none is left. Raises
        ``ControllerMoved``."""
        if not replicas:
            await self._fenced_delete([paths.REASSIGN_PARTITIONS], epoch_zk_version)
            return
        node = ReassignPartitionsZnode(replicas)
        groups = [[SetOp(node.path, node.encode())]]
        results = (await self._requests.fenced(groups, epoch_zk_version))[0]
        if isinstance(results[0], NoNode):
            create = [[CreateOp(node.path, node.encode())]]
            results = (await self._requests.fenced(create, epoch_zk_version))[0]
        raise_error(results)
