"""The controller of one broker: takes one event at a time and sees it through (KafkaController)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from minikafka.controller.broker_changes import BrokerDuties
from minikafka.controller.channel_manager import Connect, ControllerChannels
from minikafka.controller.config import ControllerConfig
from minikafka.controller.controlled_shutdown import ControlledShutdowns
from minikafka.controller.elector import ControllerElector, StoreSource
from minikafka.controller.event_history import Journal
from minikafka.controller.event_manager import EventQueue, QueuedEvent
from minikafka.controller.failover import Failover
from minikafka.controller.isr_removal import LeavingReplicas
from minikafka.controller.leader_election import LeaderElections, RebalanceTimer
from minikafka.controller.metrics import ControllerFigures
from minikafka.controller.reassignment import Reassignments
from minikafka.controller.services import Tools
from minikafka.controller.state_machines import StateMachines
from minikafka.controller.topic_changes import InternalTopics, TopicDuties
from minikafka.controller.topic_deletion import TopicDeletions
from minikafka.controller.watches import Watches
from minikafka.core.controller import events
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.events import BrokerAnswer, ControllerEvent
from minikafka.core.controller.states import ControllerState
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Entropy, SessionExpired
from minikafka.zookeeper.store import ControllerMoved, MalformedZnode, ZkStore

EVENT_TASK_NAME = "ControllerEventThread"
STOP_TIMEOUT_MS = 2_000

Handler = Callable[[Any], Awaitable[Any]]

# What does not go by the states of replicas, nor brings brokers back. For anything else those
# of dead brokers leave their ISRs first.
_WHILE_THE_DEAD_LEAVE = (
    events.DeadReplicasLeave,
    events.TopicChange,
    events.PartitionModifications,
    events.IsrChangeNotification,
    events.LeaderAndIsrResponseReceived,
    events.UpdateMetadataResponse,
    events.ListPartitionReassignments,
)

# These name the term they belong to. The queue survives a resignation, and this broker may have
# been elected again when it comes to them.
_OF_ONE_TERM = (BrokerAnswer, events.AutoPreferredReplicaLeaderElection)


class KafkaController:
    """Every broker runs one; the one that holds /controller is active.

    Errors of an event: a refusal (``KafkaError``) goes to whoever asked; ``ControllerMoved`` means
    that another controller is in office; ``SessionExpired`` that the next event says so; anything
    else leaves a context that may be half-changed, so this controller resigns and whoever is
    elected reads everything anew. An ``AssertionError`` is a bug and stops the node.
    """

    def __init__(
        self,
        config: ControllerConfig,
        zk: StoreSource,
        connect: Connect,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
    ) -> None:
        """``connect`` opens a connection to a broker: ``channels.connector`` makes one."""
        self._clock = clock
        self._metrics = metrics
        self._log = event_log("controller", broker=config.broker_id)
        self._running = False
        self._task: asyncio.Task[None] | None = None
        self._state = ControllerState.IDLE
        self.context = ControllerContext()
        self._figures = ControllerFigures(metrics, self.context)
        self.queue = EventQueue(clock, metrics)
        watches = Watches(self.queue.put)
        self._channels = ControllerChannels(connect, clock, config, self.queue.put, metrics)
        self._journal = Journal(clock)
        self._machines = StateMachines(
            self.context, config, zk, self._channels.send, metrics, self._journal
        )
        tools = Tools(
            config, self.context, zk, watches, self._machines, self._channels, entropy, self._log
        )
        self._deletions = TopicDeletions(tools)
        self._reassignments = Reassignments(tools, self._deletions)
        self._elections = LeaderElections(tools)
        self._rebalance_timer = RebalanceTimer(
            clock, config.leader_imbalance_check_interval_seconds * 1000, self.queue.put
        )
        self._leaving = LeavingReplicas(tools, clock, self.queue.put)
        self._brokers = BrokerDuties(tools, self._deletions, self._reassignments, self._leaving)
        self._topics = TopicDuties(tools, self._deletions)
        self._internal_topics = InternalTopics(tools, self._reassignments, self._leaving)
        self._shutdowns = ControlledShutdowns(tools)
        self._failover = Failover(
            tools,
            self._brokers,
            self._topics,
            self._deletions,
            self._reassignments,
            self._elections,
            self._internal_topics,
            self._leaving,
            self._rebalance_timer,
            lambda: self._running,
        )
        self._elector = ControllerElector(
            self.context,
            self._failover.on_controller_failover,
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
        self._figures.register(lambda: self.is_active, lambda: self._state)
        self.queue.put(events.Startup())
        self._task = tasks.create_task(self._process_events(), name=EVENT_TASK_NAME)

    async def stop(self) -> None:
        """Let the event at hand end (within bounds: ZooKeeper may be away), then leave office.
        /controller goes with the ZooKeeper session."""
        self._running = False
        self._elector.close()
        if self._task is not None:
            self.queue.clear_and_ask(events.ShutdownEventThread()).cancel()
            await asyncio.wait([self._task], timeout=STOP_TIMEOUT_MS / 1000)
            self._task.cancel()
            await asyncio.wait([self._task])
        self.queue.close()
        await self._elector.abdicate()

    async def on_session_lost(self) -> None:
        """The ZooKeeper session has expired: resign before a new one is opened."""
        if self._running:
            with suppress(KafkaError):  # stopped meanwhile, which resigns as well
                await self.queue.clear_and_ask(events.Expire())

    async def on_new_session(self, store: ZkStore) -> None:
        """There is a new session, and the broker is registered again: stand for election."""
        self.queue.put(events.NewSession())

    # --------------------------------------------------------------------------------- questions

    @property
    def active_controller_id(self) -> int:
        """The broker that /controller names, as far as is known here; -1 for none."""
        return self._elector.active_controller_id

    @property
    def is_active(self) -> bool:
        return self._elector.am_i_leader

    @property
    def state(self) -> ControllerState:
        return self._state

    def facts(self, limit: int) -> Mapping[str, Any]:
        """For people: what it is, does and did; ``limit`` bounds each list."""
        return {
            "active": self.is_active,
            "controller": self.active_controller_id,
            "epoch": self.context.epoch if self.is_active else None,
            "state": self._state.name,
            "queue": len(self.queue),
            "brokers": self._channels.facts(),
            **self._journal.facts(limit),
        }

    def context_dump(self, limit: int) -> Mapping[str, Any]:
        """Return every field of the controller context; ``limit`` bounds each list and map.

        Kafka 0.8 guarded the context with two locks. Here the event being handled plays their
        part: it holds the context, and the queued events wait for it.
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
        """Relieve a broker of its leaderships; the partitions that it still leads. Raises
        ``KafkaError``: STALE_CONTROLLER_EPOCH when this is not the controller, STALE_BROKER_EPOCH,
        BROKER_NOT_AVAILABLE."""
        remaining: list[TopicPartition] = await self.queue.ask(
            events.ControlledShutdown(broker_id, broker_epoch)
        )
        return remaining

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election_type: ElectionType
    ) -> Mapping[TopicPartition, int | KafkaError]:
        """Each partition's new leader, or why it has none. Raises ``KafkaError``:
        NOT_CONTROLLER."""
        wish = events.ReplicaLeaderElection(frozenset(partitions), election_type)
        elected: Mapping[TopicPartition, int | KafkaError] = await self.queue.ask(wish)
        return elected

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> Mapping[TopicPartition, KafkaError | None]:
        """Begin to move partitions to other replicas; with None, give that up. Why some cannot be.
        Raises ``KafkaError``: NOT_CONTROLLER."""
        results: Mapping[TopicPartition, KafkaError | None] = await self.queue.ask(
            events.ApiPartitionReassignment(targets)
        )
        return results

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Those of ``partitions`` (of all, with None) that are on the move. Raises ``KafkaError``:
        NOT_CONTROLLER."""
        asked = None if partitions is None else frozenset(partitions)
        found: Mapping[TopicPartition, ReplicaAssignment] = await self.queue.ask(
            events.ListPartitionReassignments(asked)
        )
        return found

    def set_unclean_election(self, enabled: bool) -> None:
        """What counts for topics that do not say it themselves, from now on."""
        self._machines.unclean_by_default = enabled
        if enabled:
            self.unclean_election_enabled()

    def unclean_election_enabled(self, topic: str | None = None) -> None:
        """A topic's (or, without one, the default) ``unclean.leader.election.enable`` was turned
        on: partitions that wait for a leader are looked at again."""
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
            events.BrokerChange: lambda _: self._and_widen(self._brokers.on_broker_change),
            events.DeadReplicasLeave: lambda _: self._and_widen(self._leaving.go_on),
            events.BrokerModifications: lambda e: self._brokers.on_broker_modifications(
                e.broker_id
            ),
            events.BrokerUnresponsive: lambda e: self._brokers.on_broker_unresponsive(e.broker_id),
            events.LogDirEventNotification: lambda _: self._brokers.on_log_dir_events(),
            events.LeaderAndIsrResponseReceived: self._brokers.on_leader_and_isr_response,
            events.UpdateMetadataResponse: self._on_update_metadata_response,
            events.TopicChange: lambda _: self._and_widen(self._topics.on_topic_change),
            events.PartitionModifications: lambda e: self._topics.on_partition_modifications(
                e.topic
            ),
            events.IsrChangeNotification: lambda _: self._on_isr_change(),
            events.TopicDeletion: lambda _: self._deletions.on_topic_deletion(),
            events.TopicDeletionStopReplicaResponseReceived: self._on_stop_replica_response,
            events.ControlledShutdown: self._shutdowns.on_controlled_shutdown,
            events.ZkPartitionReassignment: lambda _: self._reassignments.on_znode(),
            events.PartitionReassignmentIsrChange: lambda e: self._and_widen(
                lambda: self._reassignments.on_isr_change([e.partition])
            ),
            events.ApiPartitionReassignment: self._reassignments.on_api,
            events.ListPartitionReassignments: self._on_list_reassignments,
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
        while self._running:
            queued = await self.queue.take()
            self._state = queued.event.state
            started_ms = self._clock.monotonic_ms()
            await self._process(queued)
            took_ms = self._clock.monotonic_ms() - started_ms
            self._figures.processed(queued.event.state, took_ms)
            self._journal.event(
                type(queued.event).__name__, started_ms - queued.enqueued_ms, took_ms
            )
            self._state = ControllerState.IDLE

    async def _process(self, queued: QueuedEvent) -> None:
        """See one event through, and tell whoever asked."""
        event, answer = queued.event, queued.answer
        result: Any = None
        error: Exception | None = None
        self._machines.new_event()
        try:
            result = await self._handle(event)
        except KafkaError as refusal:
            error = refusal
        except ControllerMoved as moved:
            self._log.info("controller_moved", during=type(event).__name__, reason=str(moved))
            error = KafkaError(event.moved, "the controller moved to another broker")
            await self._recover(self._elector.on_controller_moved)
        except SessionExpired:
            self._log.info("session_expired", during=type(event).__name__)
            error = KafkaError(event.moved, "the controller lost its ZooKeeper session")
        except AssertionError:
            raise
        except Exception:
            self._log.error("event_failed", event_kind=type(event).__name__, exc_info=True)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed and resigns")
            await self._recover(self._elector.on_error)
        if answer is None or answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)

    async def _handle(self, event: ControllerEvent) -> Any:
        anywhere = self._on_every_broker.get(type(event))
        if anywhere is not None:
            return await anywhere(event)
        handler = self._while_active.get(type(event))
        if handler is None:
            return None  # ShutdownEventThread: nothing is left to do
        if not self.is_active:
            raise KafkaError(event.moved, "this broker is not the controller")
        if isinstance(event, _OF_ONE_TERM) and event.controller_epoch != self.context.epoch:
            return None
        if not isinstance(event, _WHILE_THE_DEAD_LEAVE):
            await self._leaving.finish()
        return await handler(event)

    async def _and_widen(self, duty: Callable[[], Awaitable[None]]) -> None:
        await duty()
        await self._internal_topics.widen()

    async def _on_isr_change(self) -> None:
        moved = await self._topics.on_isr_change()
        await self._and_widen(lambda: self._reassignments.on_isr_change(moved))

    async def _on_stop_replica_response(
        self, answer: events.TopicDeletionStopReplicaResponseReceived
    ) -> None:
        self._reassignments.on_stop_replica_response(answer)
        await self._deletions.on_stop_replica_response(answer)

    async def _on_list_reassignments(
        self, wish: events.ListPartitionReassignments
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        return self._reassignments.list_under_way(wish)

    async def _on_rebalance(self) -> None:
        try:
            await self._elections.balance()
        finally:
            self._rebalance_timer.restart()

    async def _recover(self, step: Callable[[], Awaitable[None]]) -> None:
        """Leave office as ZooKeeper allows; what it does not allow now, the next event brings."""
        try:
            await step()
        except (ControllerMoved, SessionExpired, MalformedZnode) as error:
            self._log.warning("resignation_unfinished", reason=repr(error))

    async def _on_update_metadata_response(self, answer: events.UpdateMetadataResponse) -> None:
        if answer.error is not ErrorCode.NONE:
            self._log.error(
                "update_metadata_refused", broker=answer.broker_id, error=answer.error.name
            )


def _lock(state: ControllerState, holders: Collection[ControllerState], waiting: int) -> Any:
    held = state in holders and state is not ControllerState.IDLE
    return {"heldBy": state.name if held else None, "waiting": waiting}
