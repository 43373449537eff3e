"""What the controller does when brokers come, go, come back, or change their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minikafka.controller.isr_removal import LeavingReplicas
from minikafka.controller.reassignment import Reassignments
from minikafka.controller.services import Tools
from minikafka.controller.topic_deletion import TopicDeletions
from minikafka.controller.znode_reads import read_brokers, read_log_dir_events
from minikafka.core.controller import topic_deletion
from minikafka.core.controller.answers import replica_errors
from minikafka.core.controller.events import LeaderAndIsrResponseReceived
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import Broker, PartitionAndReplica
from minikafka.kernel.errors import ErrorCode
from minikafka.zookeeper.store import MalformedZnode


def _listed(items: Sequence[object]) -> str:
    return ",".join(str(item) for item in items)


class BrokerDuties:
    """Called with the broker set in ZooKeeper as the truth. Raises ``ControllerMoved``."""

    def __init__(
        self,
        tools: Tools,
        deletions: TopicDeletions,
        reassignments: Reassignments,
        leaving: LeavingReplicas,
    ) -> None:
        self._tools = tools
        self._context = tools.context
        self._machines = tools.machines
        self._deletions = deletions
        self._reassignments = reassignments
        self._leaving = leaving
        self._log = tools.log

    # ----------------------------------------------------------------------------------- events

    async def on_broker_change(self) -> None:
        """Compare /brokers/ids with what is known: new, bounced (a new epoch), dead."""
        now, unreadable = await read_brokers(self._tools.store, self._tools.watches.term)
        for broker_id, why in unreadable.items():
            self._log.error("broker_registration_unreadable", broker=broker_id, why=why)
        known = self._context.brokers
        new = sorted(now.keys() - known.keys())
        dead = sorted(known.keys() - now.keys() - unreadable.keys())
        bounced = sorted(b for b in now.keys() & known.keys() if now[b].epoch > known[b].epoch)
        self._log.info("brokers_changed", new=new, dead=dead, bounced=bounced, live=sorted(now))
        for broker_id in (*bounced, *dead):
            await self._tools.channels.remove_broker(broker_id)
        for broker_id in (*new, *bounced):
            self._tools.channels.add_broker(now[broker_id])
        if new:
            self._context.add_brokers(now[b] for b in new)
            await self._on_broker_startup(new)
        if bounced:
            await self._bounce([now[b] for b in bounced])
        if dead:
            self._context.remove_brokers(dead)
            await self._on_broker_failure(dead)

    async def on_broker_modifications(self, broker_id: int) -> None:
        """A live broker wrote its registration anew, e.g. with other endpoints."""
        try:
            now = await self._tools.store.broker(broker_id, self._tools.watches.term)
        except MalformedZnode as error:
            self._log.error("broker_registration_unreadable", broker=broker_id, why=str(error))
            return
        self._take_over(now)

    async def on_broker_unresponsive(self, broker_id: int) -> None:
        """Its queue of requests was dropped: it is taken as dead and come back."""
        broker = self._context.brokers.get(broker_id)
        if broker is not None:
            await self._bounce([broker])

    async def on_log_dir_events(self) -> None:
        """Brokers lost a log directory: asked by LeaderAndIsr, they say which replicas are gone."""
        sequences = await self._tools.store.log_dir_events(self._tools.watches.term)
        brokers, unreadable = await read_log_dir_events(self._tools.store, sequences)
        for why in unreadable:
            self._log.error("log_dir_event_unreadable", why=why)
        if brokers:
            self._log.info("log_dir_failures", brokers=sorted(brokers))
            replicas = self._context.replicas_on_brokers(brokers)
            await self._machines.change_replicas(replicas, ReplicaState.ONLINE)
        await self._tools.store.delete_log_dir_events(sequences, self._tools.fence)

    async def on_leader_and_isr_response(self, answer: LeaderAndIsrResponseReceived) -> None:
        """Replicas that their broker has no disk for any more are offline. Not so by an answer of
        an earlier life, which this controller comes to after it has told the new one (in Kafka it
        counts)."""
        broker = self._context.brokers.get(answer.broker_id)
        if broker is None or broker.epoch != answer.broker_epoch:
            return
        error = ErrorCode(answer.response.error_code)
        if error is not ErrorCode.NONE:
            self._log.error("leader_and_isr_refused", broker=answer.broker_id, error=error.name)
            return
        errors = replica_errors(answer.response, self._context.topic_names)
        offline = {tp for tp, code in errors.items() if code is ErrorCode.KAFKA_STORAGE_ERROR}
        online = {tp for tp, code in errors.items() if code is ErrorCode.NONE}
        before = self._context.replicas_on_offline_dirs.get(answer.broker_id, set())
        after = (before - online) | offline
        self._context.replicas_on_offline_dirs[answer.broker_id] = after
        lost = sorted(after - before)
        if lost:
            self._log.info("replicas_offline", broker=answer.broker_id, partitions=_listed(lost))
            await self._on_replicas_become_offline(
                [PartitionAndReplica(tp, answer.broker_id) for tp in lost]
            )

    # -------------------------------------------------------------------------------- call-backs

    async def watch_registrations(self, broker_ids: Sequence[int]) -> None:
        """Watch these brokers' data, and take over what changed until now."""
        for broker_id in broker_ids:
            await self.on_broker_modifications(broker_id)

    async def _on_broker_startup(self, broker_ids: Sequence[int]) -> None:
        """New brokers get all metadata, then their replicas; then leaderless partitions are looked
        at again, reassignments, and deletions that waited for them."""
        self._log.info(f"New broker startup callback for {_listed(broker_ids)}")
        context = self._context
        for broker_id in broker_ids:
            context.replicas_on_offline_dirs.pop(broker_id, None)
        others = [b for b in context.live_or_shutting_down_broker_ids() if b not in broker_ids]
        self._machines.send_update_metadata(others)
        self._machines.send_update_metadata(broker_ids, context.partitions_with_leaders())
        replicas = context.replicas_on_brokers(broker_ids)
        await self._machines.change_replicas(replicas, ReplicaState.ONLINE)
        await self._machines.trigger_online_partitions()
        await self._reassignments.resume_on(broker_ids)
        doomed, _ = topic_deletion.split_by_deletion(context, replicas)
        if doomed:
            topics = sorted({r.topic_partition.topic for r in doomed})
            self._log.info("topic_deletion_resumed", topics=topics, brokers=list(broker_ids))
            await self._deletions.resume_for(topics)
        await self.watch_registrations(broker_ids)

    async def _on_broker_failure(self, broker_ids: Sequence[int]) -> None:
        self._log.info(f"Broker failure callback for {_listed(broker_ids)}")
        context = self._context
        for broker_id in broker_ids:
            context.replicas_on_offline_dirs.pop(broker_id, None)
        were_going = [b for b in broker_ids if b in context.shutting_down_broker_ids]
        if were_going:
            context.shutting_down_broker_ids.difference_update(were_going)
            self._log.info(f"Removed {_listed(were_going)} from list of shutting down brokers.")
        await self._on_replicas_become_offline(context.replicas_on_brokers(broker_ids))

    async def _on_replicas_become_offline(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Partitions led there go Offline, all leaderless ones seek a leader, the replicas leave
        their ISRs, and deletions that need them wait. DEL-5: topics that are being deleted take no
        part in elections."""
        context = self._context
        doomed, others = topic_deletion.split_by_deletion(context, replicas)
        leaderless = context.partitions_with_offline_leader()
        await self._machines.change_partitions(leaderless, PartitionState.OFFLINE)
        elected = await self._machines.trigger_online_partitions()
        left = await self._leaving.leave(others)
        await self._deletions.fail(doomed)
        if not left and not elected:
            # Nothing told the brokers yet that somebody is missing.
            self._machines.send_update_metadata(context.live_or_shutting_down_broker_ids())

    async def _bounce(self, brokers: Sequence[Broker]) -> None:
        """They went and came back before we saw it: what they promised before is void."""
        ids = [broker.id for broker in brokers]
        self._context.remove_brokers(ids)
        await self._on_broker_failure(ids)
        await self._leaving.finish()
        self._context.add_brokers(brokers)
        await self._on_broker_startup(ids)

    def _take_over(self, now: Broker | None) -> None:
        """New endpoints or rack of a known broker. Another epoch is BrokerChange's business."""
        known = self._context.brokers.get(now.id) if now is not None else None
        if now is None or known is None or known.epoch != now.epoch or known == now:
            return
        self._log.info(f"Broker info update callback for {now.id}", endpoints=now.endpoints)
        self._context.add_brokers([replace(now, epoch=known.epoch)])
        self._tools.channels.update_broker(now)
        self._machines.send_update_metadata(self._context.live_or_shutting_down_broker_ids())
