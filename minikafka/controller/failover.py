"""Taking office as the controller, and leaving it, in Kafka's order of steps."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.controller.broker_changes import BrokerDuties
from minikafka.controller.isr_removal import LeavingReplicas
from minikafka.controller.leader_election import LeaderElections, RebalanceTimer
from minikafka.controller.reassignment import Reassignments
from minikafka.controller.services import Tools
from minikafka.controller.topic_changes import InternalTopics, TopicDuties
from minikafka.controller.topic_deletion import TopicDeletions
from minikafka.controller.znode_reads import read_brokers
from minikafka.core.controller import partition_machine, replica_machine
from minikafka.core.controller.assignment import is_being_reassigned
from minikafka.core.controller.states import ReplicaState


class Failover:
    """What an election and a resignation mean. Any exception on the way in is the elector's cue to
    resign, so that a controller that works is elected."""

    def __init__(
        self,
        tools: Tools,
        brokers: BrokerDuties,
        topics: TopicDuties,
        deletions: TopicDeletions,
        reassignments: Reassignments,
        elections: LeaderElections,
        internal_topics: InternalTopics,
        leaving: LeavingReplicas,
        rebalance_timer: RebalanceTimer,
        is_running: Callable[[], bool],
    ) -> None:
        self._tools = tools
        self._brokers = brokers
        self._topics = topics
        self._deletions = deletions
        self._reassignments = reassignments
        self._elections = elections
        self._internal_topics = internal_topics
        self._leaving = leaving
        self._rebalance_timer = rebalance_timer
        self._is_running = is_running
        self._log = tools.log

    async def on_controller_failover(self) -> None:
        """Become the controller in deed.

        1. /feature is made; stale notices go (their watches are armed with the reading);
        2. the context is read: brokers, topics, leadership; every read arms its watch, so that
           nothing that happens meanwhile is missed; the channels start;
        3. unfinished topic deletions are taken over;
        4. all brokers hear who is live, before any of them is told to follow somebody;
        5. both state machines start: live replicas hear of their partitions, leaderless partitions
           elect; only then do the replicas of dead brokers leave the other ISRs (in Kafka before
           the election, so that what the dead led is written and told twice), of thousands of
           ISRs after this;
        6. reassignments, deletions and preferred elections go on where the last controller was;
        7. internal topics get the replicas that they lack; the balance of leaders is looked at
           from now on.
        """
        if not self._is_running():
            self._log.info("Controller has been shut down, aborting startup/failover")
            return
        tools, context = self._tools, self._tools.context
        tools.watches.begin_term()
        await tools.store.ensure_feature_node()
        self._log.info("deleting_stale_notifications")
        stale = await tools.store.log_dir_events(tools.watches.term)
        await tools.store.delete_log_dir_events(stale, tools.fence)
        stale = await tools.store.isr_changes(tools.watches.term)
        await tools.store.delete_isr_changes(stale, tools.fence)
        await self._initialize_context()
        self._log.info("fetching_topic_deletions")
        await self._deletions.init(await tools.store.topic_deletions(tools.watches.term))
        self._log.info("sending_update_metadata")
        tools.machines.send_update_metadata(context.live_or_shutting_down_broker_ids())
        await self._start_state_machines()
        self._log.info("ready_to_serve_as_the_controller", epoch=context.epoch)
        await self._reassignments.resume_all()
        await self._deletions.go_on()
        await self._elections.on_preferred_election_znode()
        await self._internal_topics.widen()
        if tools.config.auto_leader_rebalance_enable:
            self._rebalance_timer.begin_term(context.epoch)

    async def _initialize_context(self) -> None:
        self._log.info("initializing_controller_context")
        tools, context = self._tools, self._tools.context
        brokers, unreadable = await read_brokers(tools.store, tools.watches.term)
        for broker_id, why in unreadable.items():
            self._log.error("broker_registration_unreadable", broker=broker_id, why=why)
        context.set_brokers(brokers.values())
        topics = await tools.store.topics(tools.watches.term)
        partitions = await self._topics.learn_topics(topics)
        context.partitions_being_reassigned = {
            tp for tp in partitions if is_being_reassigned(context.assignment(tp))
        }
        await self._topics.refresh_leadership(partitions)
        for broker_id in sorted(context.brokers):
            tools.channels.add_broker(context.brokers[broker_id])
        await self._brokers.watch_registrations(sorted(context.brokers))
        self._log.info(
            "initialized_controller_context",
            brokers=sorted(context.brokers),
            topics=len(context.all_topics),
            partitions=len(partitions),
        )

    async def _start_state_machines(self) -> None:
        machines, context = self._tools.machines, self._tools.context
        self._log.info("starting_replica_state_machine")
        online, offline = replica_machine.startup(context)
        await machines.change_replicas(online, ReplicaState.ONLINE)
        self._log.info("starting_partition_state_machine")
        partition_machine.startup(context)
        await machines.trigger_online_partitions()
        await self._leaving.leave(offline)

    async def on_controller_resignation(self) -> None:
        """Undo the failover: ignore watches, stop the rebalance timer, drop unsent requests, close
        the channels, forget the context."""
        self._log.debug("resigning")
        self._tools.watches.end_term()
        await self._rebalance_timer.end_term()
        self._tools.machines.clear()
        self._leaving.clear()
        await self._tools.channels.shutdown()
        self._tools.context.reset()
        self._log.info("resigned")
