"""The watches of a controller: each puts an event on the controller's queue, and nothing more."""

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
from minikafka.server.zookeeper import paths

_CHILDREN: dict[str, type[ControllerEvent]] = {
    paths.BROKER_IDS: BrokerChange,
    paths.TOPICS: TopicChange,
    paths.DELETE_TOPICS: TopicDeletion,
    paths.ISR_CHANGES: IsrChangeNotification,
    paths.LOG_DIR_EVENTS: LogDirEventNotification,
}

# For these znodes creation, change and deletion mean the same event.
_NODES: dict[str, type[ControllerEvent]] = {
    paths.REASSIGN_PARTITIONS: ZkPartitionReassignment,
    paths.PREFERRED_REPLICA_ELECTION: PreferredReplicaElection,
}


def event_of(watch: WatchEvent) -> ControllerEvent | None:
    """Return the event for a fired watch, or None if another watch reports the same change (the
    deletion of a topic also changes the children of ``/brokers/topics``)."""
    parent, _, name = watch.path.rpartition("/")
    if watch.path == paths.CONTROLLER:
        return Reelect() if watch.kind is WatchKind.DELETED else ControllerChange()
    if watch.path in _NODES:
        return _NODES[watch.path]()
    if watch.kind is WatchKind.CHILDREN and watch.path in _CHILDREN:
        return _CHILDREN[watch.path]()
    if watch.kind is WatchKind.CHANGED and parent == paths.TOPICS:
        return PartitionModifications(name)
    if watch.kind is WatchKind.CHANGED and parent == paths.BROKER_IDS:
        broker_id = paths.number_of(name)
        return None if broker_id is None else BrokerModifications(broker_id)
    if watch.kind is WatchKind.CHANGED and name == "state":
        partition = paths.partition_of_state(watch.path)
        return None if partition is None else PartitionReassignmentIsrChange(partition)
    return None


class Watches:
    """Every broker watches ``/controller``; the controller also watches the rest of the cluster.

    A ZooKeeper watch fires once and cannot be cancelled. So a watch that was armed in an earlier
    term, or on an earlier session, is ignored when it fires: each term has its own watcher.
    """

    def __init__(self, put: Callable[[ControllerEvent], None]) -> None:
        self._put = put
        self._term: Watcher | None = None
        self._armed_on: int | None = None  # the session that the watch on /controller is set on

    def begin_term(self) -> None:
        """Create the watcher of a new term."""

        def fired(watch: WatchEvent) -> None:
            if self._term is fired:
                self._forward(watch)

        self._term = fired

    def end_term(self) -> None:
        """Ignore all watches of the term from now on."""
        self._term = None

    @property
    def term(self) -> Watcher:
        """The watcher of the current term. Pass it to every read: a read arms it again."""
        assert self._term is not None, "only the controller watches the cluster"
        return self._term

    def controller(self, session_id: int) -> Watcher | None:
        """Return a watcher for ``/controller``, or None if one is already armed on this session."""
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
