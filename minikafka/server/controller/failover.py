"""The failover of a controller: what it does when it is elected, and when it resigns.

A new controller has only the state in ZooKeeper, and it does not know at which step its predecessor
stopped. So the order of the steps matters:

1. Create ``/feature`` or adapt it to the inter-broker protocol. Delete pending ISR-change and
   log-directory notifications: the reads of step 2 see everything that they announce.
2. Read the context: brokers, topics, assignments, leaders. Every read arms a watch first, so that
   no later change is missed: it is an event on the queue. Open a channel to each broker.
3. Read the list of topics to delete, so that none of them takes part in elections.
4. Send UpdateMetadata to all brokers. They need the addresses of the live brokers before a
   LeaderAndIsr request tells them to follow one of these.
   A broker that was started again while no controller saw it counts as dead until step 6: another
   replica that was in sync all the time leads instead, and it has to catch up (see
   ``restarted_brokers``).
5. Start the state machines: live replicas get LeaderAndIsr requests, partitions without a leader
   elect one, and then replicas of dead brokers are removed from the remaining ISRs. Kafka removes
   them before the election, and therefore writes and sends the partitions that they led twice.
   Thousands of removals are deferred until the failover is over (``isr_removal``).
6. Let the brokers that were started again begin. Continue what the last controller left unfinished:
   reassignments, deletions, and the preferred election in ``/admin/preferred_replica_election``.
7. Add missing replicas of internal topics, and start the timer that checks the leader balance.

An exception in any step makes the elector resign, so that a controller that works is elected.
"""

from __future__ import annotations

from minikafka.core.controller import partition_machine, replica_machine
from minikafka.core.controller.assignment import is_being_reassigned
from minikafka.core.controller.feature_updates import FeatureSupport, first_levels
from minikafka.core.controller.restarts import restarted_brokers
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import Broker
from minikafka.kernel.inter_broker_protocol import LATEST
from minikafka.kernel.slices import in_slices, run_in_slices
from minikafka.server.controller.broker_changes import BrokerChanges
from minikafka.server.controller.isr_removal import IsrRemovals
from minikafka.server.controller.leader_election import RebalanceTimer, ReplicaElections
from minikafka.server.controller.reassignment import Reassignments
from minikafka.server.controller.services import ControllerServices
from minikafka.server.controller.topic_changes import InternalTopics, TopicChanges
from minikafka.server.controller.topic_deletion import TopicDeletions
from minikafka.server.controller.znode_reads import read_brokers, read_topics


class Failover:
    """The steps of an election and of a resignation, for ``ControllerElector`` to call."""

    def __init__(
        self,
        services: ControllerServices,
        brokers: BrokerChanges,
        topics: TopicChanges,
        deletions: TopicDeletions,
        reassignments: Reassignments,
        elections: ReplicaElections,
        internal_topics: InternalTopics,
        isr_removals: IsrRemovals,
        rebalance_timer: RebalanceTimer,
    ) -> None:
        self._services = services
        self._brokers = brokers
        self._topics = topics
        self._deletions = deletions
        self._reassignments = reassignments
        self._elections = elections
        self._internal_topics = internal_topics
        self._isr_removals = isr_removals
        self._rebalance_timer = rebalance_timer
        self._log = services.log

    async def on_controller_failover(self) -> None:
        """Take over as the controller, in the order that the module's docstring explains."""
        services, context = self._services, self._services.context
        services.watches.begin_term()
        await self._set_up_features()
        await self._delete_stale_notifications()
        await self._initialize_context()
        restarted = await self._take_restarted_for_dead()
        self._log.info("topic_deletions_loading")
        await self._deletions.init(await services.store.topic_deletions(services.watches.term))
        self._log.info("update_metadata_sending")
        services.machines.send_update_metadata(context.live_or_shutting_down_broker_ids())
        await self._start_state_machines()
        self._log.info("controller_failover_completed", epoch=context.epoch)
        await self._brokers.start_again(restarted)
        await self._reassignments.resume_all()
        await self._deletions.resume_deletions()
        await self._elections.on_preferred_election_znode()
        await self._internal_topics.widen()
        if services.config.auto_leader_rebalance_enable:
            self._rebalance_timer.begin_term(context.epoch)

    async def _set_up_features(self) -> None:
        """Create ``/feature`` or adapt it. A new cluster finalizes features only with the newest
        inter-broker protocol: an older one says that older brokers may come."""
        store, config = self._services.store, self._services.config
        first: dict[str, int] = {}
        if config.inter_broker_protocol is LATEST and not await store.has_feature_znode():
            support = FeatureSupport(config.supported_features, await store.broker_features())
            first = first_levels(support)
        await store.set_feature_znode(config.inter_broker_protocol, first)

    async def _delete_stale_notifications(self) -> None:
        self._log.info("stale_notifications_clearing")
        store, watches, fence = self._services.store, self._services.watches, self._services.fence
        await store.delete_log_dir_events(await store.log_dir_events(watches.term), fence)
        await store.delete_isr_changes(await store.isr_changes(watches.term), fence)

    async def _initialize_context(self) -> None:
        self._log.info("controller_context_initializing")
        services, context = self._services, self._services.context
        brokers, _ = await read_brokers(services.store, services.watches.term, self._log)
        context.set_brokers(brokers.values())
        topics = await read_topics(services.store, services.watches.term, self._log)
        partitions = await self._topics.add_topics(topics)
        context.partitions_being_reassigned = {
            tp async for tp in in_slices(partitions) if is_being_reassigned(context.assignment(tp))
        }
        await services.machines.leaderships.refresh(partitions)
        for broker_id in sorted(context.brokers):
            services.channels.add_broker(context.brokers[broker_id])
        await self._brokers.watch_registrations(sorted(context.brokers))
        self._log.info(
            "controller_context_initialized",
            brokers=sorted(context.brokers),
            topics=len(context.all_topics),
            partitions=len(partitions),
        )

    async def _take_restarted_for_dead(self) -> list[Broker]:
        """Remove the brokers that were started again unseen from the context; return them."""
        context = self._services.context
        ids = await run_in_slices(restarted_brokers(context))
        restarted = [context.brokers[broker_id] for broker_id in ids]
        if restarted:
            self._log.info("restarted_brokers_found", restarted=ids)
            context.remove_brokers(ids)
        return restarted

    async def _start_state_machines(self) -> None:
        machines, context = self._services.machines, self._services.context
        self._log.info("replica_state_machine_starting")
        steps = replica_machine.startup(context)
        online, offline = await run_in_slices(steps)
        await machines.change_replicas(online, ReplicaState.ONLINE)
        self._log.info("partition_state_machine_starting")
        await run_in_slices(partition_machine.startup(context))
        await machines.trigger_online_partitions()
        await self._isr_removals.take_offline(offline)

    async def on_controller_resignation(self) -> None:
        """Undo the failover: ignore the watches, stop the rebalance timer, drop unsent requests,
        close the channels, and clear the context."""
        self._log.debug("controller_resigning")
        self._services.watches.end_term()
        await self._rebalance_timer.end_term()
        self._services.machines.clear()
        self._isr_removals.clear()
        await self._services.channels.shutdown()
        self._services.context.reset()
        self._log.info("controller_resigned")
