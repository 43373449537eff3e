"""Turns ZooKeeper watches into events on the controller's queue, and does nothing else."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.core.controller.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    ControllerEvent,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    PreferredReplicaElection,
    Reelect,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)
from minikafka.kernel.ports import Watcher, WatchEvent, WatchKind
from minikafka.zookeeper import paths

_CHILDREN: dict[str, type[ControllerEvent]] = {
    paths.BROKER_IDS: BrokerChange,
    paths.TOPICS: TopicChange,
    paths.DELETE_TOPICS: TopicDeletion,
    paths.ISR_CHANGES: IsrChangeNotification,
    paths.LOG_DIR_EVENTS: LogDirEventNotification,
}

# However these change, they are read again, which also arms the watch again.
_NODES: dict[str, type[ControllerEvent]] = {
    paths.REASSIGN_PARTITIONS: ZkPartitionReassignment,
    paths.PREFERRED_REPLICA_ELECTION: PreferredReplicaElection,
}


def event_of(watch: WatchEvent) -> ControllerEvent | None:
    """What a watch means; ``None`` for what another watch tells (a topic that goes is a change of
    the children of /brokers/topics)."""
    parent, _, name = watch.path.rpartition("/")
    if watch.path == paths.CONTROLLER:
        return Reelect() if watch.kind is WatchKind.DELETED else ControllerChange()
    if watch.path in _NODES:
        return _NODES[watch.path]()
    if watch.kind is WatchKind.CHILDREN and watch.path in _CHILDREN:
        return _CHILDREN[watch.path]()
    if watch.kind is WatchKind.CHANGED and parent == paths.TOPICS:
        return PartitionModifications(name)
    if watch.kind is WatchKind.CHANGED and parent == paths.BROKER_IDS and name.isdecimal():
        return BrokerModifications(int(name))
    if watch.kind is WatchKind.CHANGED and name == "state":
        partition = paths.partition_of_state(watch.path)
        return None if partition is None else PartitionReassignmentIsrChange(partition)
    return None


class Watches:
    """One watch on /controller on every broker; all others only while it is the controller.

    ZooKeeper's watches fire once and cannot be taken back, so those of an earlier term (or of an
    earlier session) are deaf instead: their watcher knows the term it was made in.
    """

    def __init__(self, put: Callable[[ControllerEvent], None]) -> None:
        self._put = put
        self._term: Watcher | None = None
        self._armed_on: int | None = None  # the session that the watch on /controller is set on

    def begin_term(self) -> None:
        """This broker was elected."""

        def fired(watch: WatchEvent) -> None:
            if self._term is fired:
                self._forward(watch)

        self._term = fired

    def end_term(self) -> None:
        """This broker is not the controller any more."""
        self._term = None

    @property
    def term(self) -> Watcher:
        """For whatever the controller watches; to be armed again at every read."""
        assert self._term is not None, "only the controller watches the cluster"
        return self._term

    def controller(self, session_id: int) -> Watcher | None:
        """For /controller; ``None`` while it is armed already on this session."""
        if self._armed_on == session_id:
            return None
        self._armed_on = session_id

        def fired(watch: WatchEvent) -> None:
            if self._armed_on == session_id:
                self._armed_on = None
                self._forward(watch)

        return fired

    def _forward(self, watch: WatchEvent) -> None:
        event = event_of(watch)
        if event is not None:
            self._put(event)
