"""The controller of one broker: its parts, its event loop, and its API (KafkaController).

Every broker runs a ``KafkaController``. Each stands for election, and the one whose ZooKeeper
session owns ``/controller`` is active. The event task takes one event after the other from the
queue (``event_manager``) and awaits its handler. The tables ``_handlers_of_every_broker`` and
``_handlers_of_the_controller`` name the handler of each event; the second one applies only while
this broker is the controller.

What a handler raises decides what happens next:

- ``KafkaError`` refuses the event; the caller that submitted it gets the error.
- ``ControllerMoved``: a write was refused because another controller was elected. Stop being the
  controller.
- ``SessionExpired``: the session keeper submits ``Expire`` next, which resigns.
- ``AssertionError`` is a bug and stops the node.
- Any other exception may leave the context half-changed. This controller resigns, and the next one
  reads everything from ZooKeeper again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from minikafka.core.controller import events
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.events import BrokerResponse, ControllerEvent
from minikafka.core.controller.states import ControllerState
from minikafka.kernel.cluster import (
    ElectionType,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.features import FeatureUpdate
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Entropy, NoAuth, SessionExpired
from minikafka.server.controller.broker_changes import BrokerChanges, ControlledShutdowns
from minikafka.server.controller.broker_requests import BrokerRequests
from minikafka.server.controller.channel_manager import Connect, ControllerChannels
from minikafka.server.controller.config import ControllerConfig
from minikafka.server.controller.elector import ControllerElector
from minikafka.server.controller.event_history import EventHistory
from minikafka.server.controller.event_manager import EventQueue, QueuedEvent
from minikafka.server.controller.failover import Failover
from minikafka.server.controller.isr_removal import IsrRemovals
from minikafka.server.controller.leader_election import RebalanceTimer, ReplicaElections
from minikafka.server.controller.metrics import ControllerMetrics
from minikafka.server.controller.reassignment import Reassignments
from minikafka.server.controller.services import ControllerServices
from minikafka.server.controller.state_machines import StateMachines
from minikafka.server.controller.topic_changes import InternalTopics, TopicChanges
from minikafka.server.controller.topic_deletion import TopicDeletions
from minikafka.server.controller.watches import Watches
from minikafka.server.zookeeper.session import ZkSession
from minikafka.server.zookeeper.store import ControllerMoved, MalformedZnode, ZkStore

EVENT_TASK_NAME = "ControllerEventThread"
STOP_TIMEOUT_MS = 2_000

Handler = Callable[[Any], Awaitable[Any]]

# Events whose handlers neither decide by replica states nor bring brokers back. Before any other
# event the deferred removals of dead replicas from ISRs are finished.
_ALLOWED_BEFORE_ISR_REMOVALS = (
    events.IsrRemovalsDue,
    events.TopicChange,
    events.PartitionModifications,
    events.IsrChangeNotification,
    events.AlterPartition,
    events.AllocateProducerIds,
    events.LeaderAndIsrResponseReceived,
    events.UpdateMetadataResponseReceived,
    events.ListPartitionReassignments,
)

# Events that are dropped if their controller epoch is not the current one. The queue outlives a
# resignation, so this broker may have been elected again before it handles them.
_OF_ONE_TERM = (BrokerResponse, events.AutoPreferredReplicaLeaderElection)


class KafkaController:
    """The controller of one broker, active or not.

    Call ``start`` when the broker is registered in ZooKeeper, and ``stop`` before the session is
    closed.
    """

    def __init__(
        self,
        config: ControllerConfig,
        zk: ZkSession,
        connect: Connect,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        on_elected: Callable[[], object] = lambda: None,
    ) -> None:
        """``connect`` opens a channel to a broker; ``channel_manager.connector`` returns one.
        ``on_elected`` is called at the end of each failover to this broker."""
        self._on_elected, self._zk = on_elected, zk
        self._clock = clock
        self._metrics = metrics
        self._log = event_log("controller", broker=config.broker_id)
        self._running = False
        self._task: asyncio.Task[None] | None = None
        self._state = ControllerState.IDLE
        self._handling: ControllerEvent | None = None
        self.context = ControllerContext()
        self._controller_metrics = ControllerMetrics(metrics, self.context)
        self.queue = EventQueue(clock, metrics)
        watches = Watches(self.queue.put)
        self._channels = ControllerChannels(connect, clock, config, self.queue.put, metrics)
        self._history = EventHistory(clock)
        self._machines = StateMachines(
            self.context, config, zk, self._channels, metrics, self._history
        )
        services = ControllerServices(
            config, self.context, zk, watches, self._machines, self._channels, entropy, self._log
        )
        self._deletions = TopicDeletions(services)
        self._reassignments = Reassignments(services, self._deletions)
        self._elections = ReplicaElections(services)
        self._rebalance_timer = RebalanceTimer(
            clock, config.leader_imbalance_check_interval_seconds * 1000, self.queue.put
        )
        self._isr_removals = IsrRemovals(services, clock, self.queue.put)
        self._brokers = BrokerChanges(
            services, self._deletions, self._reassignments, self._isr_removals
        )
        self._topics = TopicChanges(services, self._deletions)
        self._internal_topics = InternalTopics(services, self._reassignments, self._isr_removals)
        self._shutdowns = ControlledShutdowns(services)
        self._broker_requests = BrokerRequests(services)
        self._failover = Failover(
            services,
            self._brokers,
            self._topics,
            self._deletions,
            self._reassignments,
            self._elections,
            self._internal_topics,
            self._isr_removals,
            self._rebalance_timer,
        )
        self._elector = ControllerElector(
            self.context,
            self._on_controller_failover,
            self._failover.on_controller_resignation,
            config.broker_id,
            zk=zk,
            watches=watches,
            clock=clock,
            put=self.queue.put,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
        )
        self._on_every_broker = self._handlers_of_every_broker()
        self._while_active = self._handlers_of_the_controller()

    # --------------------------------------------------------------------------------- lifecycle

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Stand for election, once the broker is registered in ZooKeeper."""
        self._running = True
        self.queue.start()
        self._channels.start(tasks)
        self._rebalance_timer.start(tasks)
        self._controller_metrics.register(lambda: self.is_active, lambda: self._state)
        self.queue.put(events.Startup())
        self._task = tasks.create_task(self._process_events(), name=EVENT_TASK_NAME)

    async def stop(self) -> None:
        """Wait up to ``STOP_TIMEOUT_MS`` for the event being handled, then resign. ``/controller``
        disappears when the broker closes its ZooKeeper session."""
        self._running = False
        self._elector.close()
        if self._task is not None:
            self.queue.clear_and_submit(events.ShutdownEventThread()).cancel()
            await asyncio.wait([self._task], timeout=STOP_TIMEOUT_MS / 1000)
            self._task.cancel()
            await asyncio.wait([self._task])
        self.queue.close()
        await self._elector.abdicate()

    async def on_session_lost(self) -> None:
        """Resign because the ZooKeeper session has expired. Returns when that is done; only then
        the session keeper opens a new session."""
        if self._running:
            with suppress(KafkaError):  # the controller was stopped, which also resigns
                await self.queue.clear_and_submit(events.Expire())

    async def on_new_session(self, store: ZkStore) -> None:
        """Stand for election: the broker is registered in its new session."""
        self.queue.put(events.NewSession())

    # -------------------------------------------------------------------- API of the controller

    @property
    def active_controller_id(self) -> int:
        """The broker that ``/controller`` named when it was last read; -1 for none."""
        return self._elector.active_controller_id

    @property
    def is_active(self) -> bool:
        return self._elector.am_i_leader

    @property
    def state(self) -> ControllerState:
        return self._state

    def facts(self, limit: int) -> Mapping[str, Any]:
        """Return the controller's status for ``minikafka controller status``. Each list has at most
        ``limit`` entries."""
        return {
            "active": self.is_active,
            "controller": self.active_controller_id,
            "epoch": self.context.epoch if self.is_active else None,
            "state": self._state.name,
            "queue": len(self.queue),
            "queued": self.queue.kinds(),
            "brokers": self._channels.facts(),
            "deletions": self._deletions.facts(limit),
            "reassignments": self._reassignments.facts(limit),
            "multis": self._zk.measured.multis(),
            **self._history.facts(limit),
        }

    def context_dump(self, limit: int) -> Mapping[str, Any]:
        """Return every field of the controller context; ``limit`` bounds each list and map.

        Kafka 0.8 guarded the context with two locks, which this dump shows for comparison. Here
        the event being handled has the context for itself, and the queued events wait for it.
        """
        shutdowns = sum(type(e) is events.ControlledShutdown for e in self.queue.waiting())
        return {
            **self.context.dump(limit),
            "controllerChannelManager": self._channels.facts()[:limit],
            "controllerLock": _lock(self._state, set(ControllerState), len(self.queue)),
            "brokerShutdownLock": _lock(
                self._state, {ControllerState.CONTROLLED_SHUTDOWN}, shutdowns
            ),
        }

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move the leaderships away from a broker that shuts down, and return the partitions that
        it still leads. Raises ``KafkaError``: STALE_CONTROLLER_EPOCH when this broker is not the
        controller, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE."""
        remaining: list[TopicPartition] = await self.queue.submit(
            events.ControlledShutdown(broker_id, broker_epoch)
        )
        return remaining

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election_type: ElectionType
    ) -> Mapping[TopicPartition, int | KafkaError]:
        """Elect leaders; return each partition's new leader, or the reason why there is none.
        Raises ``KafkaError``: NOT_CONTROLLER."""
        elected: Mapping[TopicPartition, int | KafkaError] = await self.queue.submit(
            events.ReplicaLeaderElection(tuple(dict.fromkeys(partitions)), election_type)
        )
        return elected

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        may_change_factor: bool = True,
    ) -> Mapping[TopicPartition, KafkaError | None]:
        """Start to reassign partitions to the target replicas; a target of None cancels the
        partition's reassignment. Unless it ``may_change_factor``, refuse targets with another
        number of replicas. Return each partition's error, or None if it was accepted. Raises
        ``KafkaError``: NOT_CONTROLLER."""
        results: Mapping[TopicPartition, KafkaError | None] = await self.queue.submit(
            events.ApiPartitionReassignment(targets, may_change_factor)
        )
        return results

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the assignments of those ``partitions`` that are being reassigned; None means all
        partitions. Raises ``KafkaError``: NOT_CONTROLLER."""
        selected = None if partitions is None else frozenset(partitions)
        found: Mapping[TopicPartition, ReplicaAssignment] = await self.queue.submit(
            events.ListPartitionReassignments(selected)
        )
        return found

    async def alter_partitions(
        self,
        broker_id: int,
        broker_epoch: int,
        states: Mapping[TopicPartition, LeaderAndIsr],
        knows_ineligible: bool,
    ) -> Mapping[TopicPartition, LeaderAndIsr | ErrorCode]:
        """Write the ISRs that leader ``broker_id`` requests. Return each partition's new state, or
        its error: the current state instead of INELIGIBLE_REPLICA, unless it ``knows_ineligible``.
        Raises ``KafkaError``: NOT_CONTROLLER, STALE_BROKER_EPOCH."""
        results: Mapping[TopicPartition, LeaderAndIsr | ErrorCode] = await self.queue.submit(
            events.AlterPartition(broker_id, broker_epoch, states, knows_ineligible)
        )
        return results

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """Allocate a block of producer ids to a broker. Raises ``KafkaError``: NOT_CONTROLLER,
        BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR."""
        block: range = await self.queue.submit(events.AllocateProducerIds(broker_id, broker_epoch))
        return block

    async def update_features(
        self, updates: Iterable[FeatureUpdate], validate_only: bool, all_or_none: bool = False
    ) -> Mapping[str, KafkaError | None]:
        """Update finalized features. Return each feature's error, or None; if ``all_or_none``, no
        feature was updated unless all were. Raises ``KafkaError``: NOT_CONTROLLER,
        FEATURE_UPDATE_FAILED."""
        results: Mapping[str, KafkaError | None] = await self.queue.submit(
            events.UpdateFeatures(tuple(updates), validate_only, all_or_none)
        )
        return results

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic that this controller knows by its id."""
        return self.context.topic_names.get(topic_id)

    def set_unclean_election(self, enabled: bool) -> None:
        """Change the default of ``unclean.leader.election.enable``, which applies to topics that do
        not configure it."""
        self._machines.unclean_by_default = enabled
        if enabled:
            self.unclean_election_enabled()

    def unclean_election_enabled(self, topic: str | None = None) -> None:
        """Retry the elections of partitions without a leader: ``unclean.leader.election.enable``
        was switched on for ``topic``, or by default if ``topic`` is None."""
        self.queue.put(
            events.UncleanLeaderElectionEnable()
            if topic is None
            else events.TopicUncleanLeaderElectionEnable(topic)
        )

    # ------------------------------------------------------------------------------------ events

    def _handlers_of_every_broker(self) -> Mapping[type[ControllerEvent], Handler]:
        return {
            events.Startup: lambda _: self._elector.startup(),
            events.ControllerChange: lambda _: self._elector.on_controller_change(),
            events.Reelect: lambda _: self._elector.on_controller_change(),
            events.Expire: lambda _: self._elector.on_session_expired(),
            events.NewSession: lambda _: self._elector.on_new_session(),
        }

    def _handlers_of_the_controller(self) -> Mapping[type[ControllerEvent], Handler]:
        return {
            events.BrokerChange: lambda _: self._widen_after(self._brokers.on_broker_change),
            events.IsrRemovalsDue: lambda _: self._widen_after(self._isr_removals.on_removals_due),
            events.BrokerModifications: lambda e: self._brokers.on_broker_modifications(
                e.broker_id
            ),
            events.BrokerUnresponsive: lambda e: self._brokers.on_broker_unresponsive(e.broker_id),
            events.LogDirEventNotification: lambda _: self._brokers.on_log_dir_events(),
            events.LeaderAndIsrResponseReceived: self._brokers.on_leader_and_isr_response,
            events.UpdateMetadataResponseReceived: self._on_update_metadata_response,
            events.TopicChange: lambda _: self._widen_after(self._topics.on_topic_change),
            events.PartitionModifications: lambda e: self._topics.on_partition_modifications(
                e.topic
            ),
            events.IsrChangeNotification: lambda _: self._on_isr_change(),
            events.TopicDeletion: lambda _: self._deletions.on_topic_deletion(),
            events.TopicDeletionStopReplicaResponseReceived: self._on_stop_replica_response,
            events.ControlledShutdown: self._shutdowns.on_controlled_shutdown,
            events.ZkPartitionReassignment: lambda _: self._reassignments.on_znode(),
            events.PartitionReassignmentIsrChange: lambda e: self._widen_after(
                lambda: self._reassignments.on_isr_change([e.partition])
            ),
            events.ApiPartitionReassignment: self._reassignments.on_api,
            events.ListPartitionReassignments: self._on_list_reassignments,
            events.AlterPartition: self._broker_requests.on_alter_partition,
            events.AllocateProducerIds: self._broker_requests.on_allocate_producer_ids,
            events.UpdateFeatures: self._broker_requests.on_update_features,
            events.ReplicaLeaderElection: self._elections.on_request,
            events.PreferredReplicaElection: (
                lambda _: self._elections.on_preferred_election_znode()
            ),
            events.AutoPreferredReplicaLeaderElection: lambda _: self._on_rebalance(),
            events.UncleanLeaderElectionEnable: lambda _: self._elections.on_unclean_enabled(),
            events.TopicUncleanLeaderElectionEnable: lambda e: self._elections.on_unclean_enabled(
                e.topic
            ),
        }

    async def _process_events(self) -> None:
        """Process events until ``stop``, or until the task is cancelled, also if an event has ended
        in spite of that."""
        task = asyncio.current_task()
        assert task is not None
        while self._running and not task.cancelling():
            queued = await self.queue.take()
            self._state = queued.event.state
            started_ms = self._clock.monotonic_ms()
            self._history.begin(type(queued.event).__name__, queued.event.state)
            await self._process(queued)
            took_ms = self._clock.monotonic_ms() - started_ms
            self._controller_metrics.processed(queued.event.state, took_ms)
            self._history.event(
                type(queued.event).__name__, started_ms - queued.enqueued_ms, took_ms
            )
            self._state = ControllerState.IDLE

    async def _process(self, queued: QueuedEvent) -> None:
        """Handle one event, recover from its error, and complete the future of its caller."""
        assert self._handling is None, "the controller handles one event at a time"
        self._handling = queued.event
        try:
            await self._handle_and_complete(queued)
        finally:
            self._handling = None

    async def _handle_and_complete(self, queued: QueuedEvent) -> None:
        event, future = queued.event, queued.result
        result: Any = None
        error: Exception | None = None
        self._machines.new_event()
        try:
            result = await self._handle(event)
        except KafkaError as refusal:
            error = refusal
        except ControllerMoved as moved:
            self._log.info("controller_moved", during=type(event).__name__, error=str(moved))
            error = KafkaError(event.moved, "the controller moved to another broker")
            await self._recover(self._elector.on_controller_moved)
        except SessionExpired:
            self._log.info("session_expired", during=type(event).__name__)
            error = KafkaError(event.moved, "the controller lost its ZooKeeper session")
        except (AssertionError, NoAuth):
            raise  # it ends the node: a controller without access would fail again and again
        except Exception:
            self._log.error("event_failed", event_kind=type(event).__name__, exc_info=True)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed and resigns")
            await self._recover(self._elector.on_error)
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    async def _handle(self, event: ControllerEvent) -> Any:
        always = self._on_every_broker.get(type(event))
        if always is not None:
            return await always(event)
        handler = self._while_active.get(type(event))
        if handler is None:
            return None  # ShutdownEventThread has no handler: it ends the loop
        if not self.is_active:
            raise KafkaError(event.moved, "this broker is not the controller")
        if isinstance(event, _OF_ONE_TERM) and event.controller_epoch != self.context.epoch:
            return None
        if not isinstance(event, _ALLOWED_BEFORE_ISR_REMOVALS):
            await self._isr_removals.finish()
        return await handler(event)

    async def _on_controller_failover(self) -> None:
        if not self._running:  # stopped between the election and this call
            self._log.info("controller_failover_aborted")
            return
        await self._failover.on_controller_failover()
        self._on_elected()

    async def _widen_after(self, handler: Callable[[], Awaitable[None]]) -> None:
        """Run ``handler``, after which internal topics may be able to get their missing replicas:
        then add these."""
        await handler()
        await self._internal_topics.widen()

    async def _on_isr_change(self) -> None:
        moved = await self._topics.on_isr_change()
        await self._widen_after(lambda: self._reassignments.on_isr_change(moved))

    async def _on_stop_replica_response(
        self, response: events.TopicDeletionStopReplicaResponseReceived
    ) -> None:
        self._reassignments.on_stop_replica_response(response)
        await self._deletions.on_stop_replica_response(response)

    async def _on_list_reassignments(
        self, request: events.ListPartitionReassignments
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        return self._reassignments.list_in_progress(request)

    async def _on_rebalance(self) -> None:
        try:
            await self._elections.balance()
        finally:
            self._rebalance_timer.restart()

    async def _recover(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step of the elector that resigns. If ZooKeeper refuses part of it, log that: the
        watch on ``/controller`` or the session's expiry brings another event."""
        try:
            await step()
        except (ControllerMoved, SessionExpired, MalformedZnode) as error:
            self._log.warning("resignation_interrupted", error=repr(error))

    async def _on_update_metadata_response(
        self, response: events.UpdateMetadataResponseReceived
    ) -> None:
        if response.error is not ErrorCode.NONE:
            self._log.error(
                "update_metadata_refused",
                responding_broker=response.broker_id,
                error=response.error.name,
            )


def _lock(state: ControllerState, holders: Collection[ControllerState], waiting: int) -> Any:
    held = state in holders and state is not ControllerState.IDLE
    return {"heldBy": state.name if held else None, "waiting": waiting}
