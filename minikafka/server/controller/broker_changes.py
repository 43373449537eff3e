"""The controller's handling of brokers: start, failure, restart, changes, controlled shutdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minikafka.core.controller import topic_deletion
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.events import (
    ControlledShutdown,
    LeaderAndIsrResponseReceived,
    replica_errors,
)
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import NO_EPOCH, Broker, PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.controller.isr_removal import IsrRemovals
from minikafka.server.controller.reassignment import Reassignments
from minikafka.server.controller.services import ControllerServices
from minikafka.server.controller.topic_deletion import TopicDeletions
from minikafka.server.controller.znode_reads import read_brokers, read_log_dir_events
from minikafka.server.zookeeper.store import MalformedZnode


def _listed(items: Sequence[object]) -> str:
    return ",".join(str(item) for item in items)


class BrokerChanges:
    """Handlers that compare the brokers in ZooKeeper with the context and act on the difference.
    They raise ``ControllerMoved``."""

    def __init__(
        self,
        services: ControllerServices,
        deletions: TopicDeletions,
        reassignments: Reassignments,
        isr_removals: IsrRemovals,
    ) -> None:
        self._services = services
        self._context = services.context
        self._machines = services.machines
        self._deletions = deletions
        self._reassignments = reassignments
        self._isr_removals = isr_removals
        self._log = services.log

    # ----------------------------------------------------------------------------------- events

    async def on_broker_change(self) -> None:
        """Find brokers that are new, dead, or bounced (restarted: they have a higher epoch)."""
        live, unreadable = await read_brokers(
            self._services.store, self._services.watches.term, self._log
        )
        known = self._context.brokers
        new = sorted(live.keys() - known.keys())
        dead = sorted((known.keys() - live.keys()).difference(unreadable))
        bounced = sorted(b for b in live.keys() & known.keys() if live[b].epoch > known[b].epoch)
        self._log.info("brokers_changed", new=new, dead=dead, bounced=bounced, live=sorted(live))
        for broker_id in (*bounced, *dead):
            await self._services.channels.remove_broker(broker_id)
        for broker_id in (*new, *bounced):
            self._services.channels.add_broker(live[broker_id])
        if new:
            self._context.add_brokers(live[b] for b in new)
            await self._on_broker_startup(new)
        if bounced:
            await self._bounce([live[b] for b in bounced])
        if dead:
            self._context.remove_brokers(dead)
            await self._on_broker_failure(dead)

    async def on_broker_modifications(self, broker_id: int) -> None:
        """Read a live broker's changed registration; its endpoints or rack may be different."""
        try:
            registered = await self._services.store.broker(broker_id, self._services.watches.term)
        except MalformedZnode as error:
            self._log.error(
                "broker_registration_malformed", registered_broker=broker_id, error=str(error)
            )
            return
        self._update_broker(registered)

    async def on_broker_unresponsive(self, broker_id: int) -> None:
        """Treat a broker whose request queue was dropped as restarted, so that it gets the whole
        current state again."""
        broker = self._context.brokers.get(broker_id)
        if broker is not None:
            await self._bounce([broker])

    async def on_log_dir_events(self) -> None:
        """Send LeaderAndIsr for all replicas of the brokers that lost a log directory. Their
        responses name the replicas that are offline."""
        sequences = await self._services.store.log_dir_events(self._services.watches.term)
        brokers = await read_log_dir_events(self._services.store, sequences, self._log)
        if brokers:
            self._log.info("log_dir_failures_reported", brokers=sorted(brokers))
            replicas = self._context.replicas_on_brokers(brokers)
            await self._machines.change_replicas(replicas, ReplicaState.ONLINE)
        await self._services.store.delete_log_dir_events(sequences, self._services.fence)

    async def on_leader_and_isr_response(self, event: LeaderAndIsrResponseReceived) -> None:
        """Take replicas offline whose broker reports KAFKA_STORAGE_ERROR, and note those that are
        readable again.

        A response that the broker sent before its restart is ignored: the restarted broker has new
        requests, and their responses count. Kafka does not distinguish them.
        """
        broker = self._context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        error = ErrorCode(event.response.error_code)
        if error is not ErrorCode.NONE:
            self._log.error(
                "leader_and_isr_refused", responding_broker=event.broker_id, error=error.name
            )
            return
        errors = replica_errors(event.response, self._context.topic_names)
        offline = {tp for tp, code in errors.items() if code is ErrorCode.KAFKA_STORAGE_ERROR}
        online = {tp for tp, code in errors.items() if code is ErrorCode.NONE}
        before = self._context.replicas_on_offline_dirs.get(event.broker_id, set())
        after = (before - online) | offline
        self._context.replicas_on_offline_dirs[event.broker_id] = after
        lost = sorted(after - before)
        if lost:
            self._log.info(
                "replicas_went_offline",
                hosting_broker=event.broker_id,
                partitions=[str(each) for each in lost],
            )
            await self._on_replicas_become_offline(
                [PartitionAndReplica(tp, event.broker_id) for tp in lost]
            )

    # -------------------------------------------------------------------------------- call-backs

    async def watch_registrations(self, broker_ids: Sequence[int]) -> None:
        """Watch these brokers' registrations, and apply changes made since they were first read."""
        for broker_id in broker_ids:
            await self.on_broker_modifications(broker_id)

    async def _on_broker_startup(self, broker_ids: Sequence[int]) -> None:
        """Send new brokers all metadata, then LeaderAndIsr for their replicas. Then retry the
        elections, reassignments and topic deletions that may have waited for them."""
        message = f"New broker startup callback for {_listed(broker_ids)}"
        self._log.info("brokers_started", brokers=list(broker_ids), message=message)
        context = self._context
        for broker_id in broker_ids:
            context.replicas_on_offline_dirs.pop(broker_id, None)
        others = [b for b in context.live_or_shutting_down_broker_ids() if b not in broker_ids]
        self._machines.send_update_metadata(others)
        await self._machines.send_all_metadata(broker_ids)
        replicas = context.replicas_on_brokers(broker_ids)
        await self._machines.change_replicas(replicas, ReplicaState.ONLINE)
        await self._machines.trigger_online_partitions()
        await self._reassignments.resume_on(broker_ids)
        being_deleted, _ = topic_deletion.split_by_deletion(context, replicas)
        if being_deleted:
            topics = sorted({r.topic_partition.topic for r in being_deleted})
            self._log.info("topic_deletion_resumed", topics=topics, brokers=list(broker_ids))
            await self._deletions.resume_for(topics)
        await self.watch_registrations(broker_ids)

    async def _on_broker_failure(self, broker_ids: Sequence[int]) -> None:
        message = f"Broker failure callback for {_listed(broker_ids)}"
        self._log.info("brokers_failed", brokers=list(broker_ids), message=message)
        context = self._context
        for broker_id in broker_ids:
            context.replicas_on_offline_dirs.pop(broker_id, None)
        shut_down = [b for b in broker_ids if b in context.shutting_down_broker_ids]
        if shut_down:
            context.shutting_down_broker_ids.difference_update(shut_down)
            message = f"Removed {_listed(shut_down)} from list of shutting down brokers."
            self._log.info("controlled_shutdowns_ended", brokers=shut_down, message=message)
        await self._on_replicas_become_offline(context.replicas_on_brokers(broker_ids))

    async def _on_replicas_become_offline(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Take the partitions that these replicas led Offline, elect leaders for all partitions
        without one, remove the replicas from their ISRs, and halt deletions that need the replicas.
        Topics that are being deleted take no part in elections (DEL-5)."""
        context = self._context
        being_deleted, others = topic_deletion.split_by_deletion(context, replicas)
        leaderless = context.partitions_with_offline_leader()
        await self._machines.change_partitions(leaderless, PartitionState.OFFLINE)
        elected = await self._machines.trigger_online_partitions()
        changed = await self._isr_removals.take_offline(others)
        await self._deletions.fail(being_deleted)
        if not changed and not elected:
            # No request of the steps above has sent the brokers the new list of live brokers.
            self._machines.send_update_metadata(context.live_or_shutting_down_broker_ids())

    async def _bounce(self, brokers: Sequence[Broker]) -> None:
        """Handle a failure and then a start of brokers that restarted before the controller noticed
        that they were gone."""
        ids = [broker.id for broker in brokers]
        self._context.remove_brokers(ids)
        await self._on_broker_failure(ids)
        await self.start_again(brokers)

    async def start_again(self, brokers: Sequence[Broker]) -> None:
        """Handle the start of brokers whose failure was handled just before."""
        if brokers:
            await self._isr_removals.finish()
            self._context.add_brokers(brokers)
            await self._on_broker_startup([broker.id for broker in brokers])

    def _update_broker(self, registered: Broker | None) -> None:
        """Apply new endpoints or a new rack of a known broker. A new epoch means a restart, which
        the event BrokerChange handles."""
        known = self._context.brokers.get(registered.id) if registered is not None else None
        if (
            registered is None
            or known is None
            or known.epoch != registered.epoch
            or known == registered
        ):
            return
        self._log.info(
            "broker_updated", changed_broker=registered.id, endpoints=registered.endpoints
        )
        self._context.add_brokers([replace(registered, epoch=known.epoch)])
        self._services.channels.update_broker(registered)
        self._machines.send_update_metadata(self._context.live_or_shutting_down_broker_ids())


class ControlledShutdowns:
    """Moves leaderships away from a broker before it stops (Kafka's doControlledShutdown)."""

    def __init__(self, services: ControllerServices) -> None:
        self._services = services
        self._context = services.context
        self._log = services.log

    async def on_controlled_shutdown(self, request: ControlledShutdown) -> list[TopicPartition]:
        """Elect other leaders for the broker's partitions and remove it from the ISRs. Return the
        replicated partitions that it still leads. Raises ``KafkaError`` (STALE_BROKER_EPOCH,
        BROKER_NOT_AVAILABLE) and ``ControllerMoved``."""
        broker_id = request.broker_id
        self._check(request)
        self._log.info("controlled_shutdown_requested", leaving_broker=broker_id)
        self._context.shutting_down_broker_ids.add(broker_id)
        led, followed = self._partitions_of(broker_id)
        machines = self._services.machines
        await machines.change_partitions(
            led, PartitionState.ONLINE, ElectionStrategy.CONTROLLED_SHUTDOWN
        )
        # The broker must stop fetching first, or leaders would add it to their ISRs again.
        machines.send_stop_replicas(broker_id, followed)
        await machines.change_replicas(
            [PartitionAndReplica(tp, broker_id) for tp in followed], ReplicaState.OFFLINE
        )
        return self._context.partitions_led_by(broker_id)

    def _check(self, request: ControlledShutdown) -> None:
        known = self._context.brokers.get(request.broker_id)
        if known is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {request.broker_id} does not exist."
            )
        if request.broker_epoch != NO_EPOCH and request.broker_epoch < known.epoch:
            message = (
                "Received controlled shutdown request from an old broker epoch "
                f"{request.broker_epoch} for broker {request.broker_id}. Current broker epoch is "
                f"{known.epoch}."
            )
            self._log.info("controlled_shutdown_refused", error=message)
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, message)

    def _partitions_of(self, broker_id: int) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the replicated partitions that the broker leads, and those that it follows. A
        partition with one replica is left out: no other broker could lead it."""
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for partition in self._context.partitions_on_broker(broker_id):
            known = self._context.leadership.get(partition)
            alone = len(self._context.assignment(partition).replicas) <= 1
            if known is None or alone or self._context.is_queued_for_deletion(partition.topic):
                continue
            (led if known.leader_and_isr.leader == broker_id else followed).append(partition)
        return led, followed
