"""The driver of the partition and replica state machines: read, plan, write, apply, send.

``core/controller/partition_machine`` and ``replica_machine`` decide; they are pure. For each change
of states this module

1. reads the state znodes that the plan needs, as far as the cached ones are not good enough,
2. lets the machine ``plan``: which states change, and which znodes to write at which versions,
3. writes the znodes in conditional multis, fenced by the version of ``/controller_epoch``,
4. lets the machine ``apply`` the results to the context and to the request batch,
5. repeats this for the znodes that another writer changed meanwhile,
6. sends the requests of the batch.

A change of thousands of partitions is cut into slices of ``SLICE``, and each slice is sent when its
writes are done. So the brokers work on the first slices while later ones are written, and other
tasks of this broker run in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from minikafka.core.controller import partition_machine, reassignment, replica_machine
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.partition_machine import PartitionOutcome, PartitionPlan
from minikafka.core.controller.replica_machine import ReplicaOutcome
from minikafka.core.controller.request_batch import BrokerRequest, RequestBatch
from minikafka.core.controller.states import (
    PartitionState,
    ReplicaState,
    States,
    WriteResults,
    check_first_state,
    check_next_state,
)
from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    TopicPartition,
)
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import BadVersion, CoordinationError
from minikafka.kernel.slices import in_slices, run_in_slices
from minikafka.server.controller.channel_manager import ControllerChannels
from minikafka.server.controller.config import ControllerConfig
from minikafka.server.controller.event_history import EventHistory
from minikafka.server.controller.metrics import UNCLEAN_ELECTIONS
from minikafka.server.controller.znode_reads import Leaderships, read_topic_configs, trust_all
from minikafka.server.zookeeper.session import ZkSession

T = TypeVar("T")

_UNCLEAN_KEY = "unclean.leader.election.enable"
_LOUD = (PartitionState.NEW, PartitionState.ONLINE)
SLICE = 1000  # changes that are written and sent together


class StateMachines:
    """Each public method changes states, writes the znodes and sends one batch of requests, or one
    for each slice. Methods raise ``ControllerMoved``.

    If another writer changed a znode meanwhile, the znode is read and planned again, without a
    limit of attempts: leaders change an ISR only now and then.
    """

    def __init__(
        self,
        context: ControllerContext,
        config: ControllerConfig,
        zk: ZkSession,
        channels: ControllerChannels,
        metrics: Metrics,
        history: EventHistory,
    ) -> None:
        self._history = history
        self._context = context
        self._config = config
        self._zk = zk
        self._channels = channels
        self._metrics = metrics
        self.unclean_by_default = config.unclean_leader_election_enable
        self._log = event_log("state-change", controller=config.broker_id)
        self.leaderships = Leaderships(context, zk, self._log)
        self._elected: set[TopicPartition] = set()  # elections of this event, sent to all brokers
        self._batch = RequestBatch(config.broker_id, context, config.inter_broker_listener_name)

    def new_event(self) -> None:
        """Forget which states are fresh: another event begins."""
        self.leaderships.new_event()
        self._elected.clear()

    def clear(self) -> None:
        """Drop requests that were not sent: this broker is not the controller any more."""
        self._batch.clear()

    # ------------------------------------------------------------------------------- partitions

    async def change_partitions(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy | None = None,
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Take partitions to the state ``target``; return the new leaders of those that were
        elected. ``strategy`` is needed for the target Online only."""
        elected: dict[TopicPartition, LeaderAndIsr] = {}
        async for some, unfinished in in_slices(_slices(partitions, _topic), look_every=1):
            elected.update(await self._change_partitions(some, target, strategy))
            self._flush(unfinished)
        return elected

    async def _change_partitions(
        self,
        pending: Sequence[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy | None,
    ) -> dict[TopicPartition, LeaderAndIsr]:
        elected: dict[TopicPartition, LeaderAndIsr] = {}
        self._batch.new_batch()
        to_read = partition_machine.to_read(self._context, pending, target)
        read, unreadable = await self.leaderships.read(to_read, trust_all)
        while pending:
            pending = [tp for tp in pending if tp not in unreadable]
            unclean = await self._unclean_topics(read, strategy)
            plan = partition_machine.plan(
                self._context,
                pending,
                target,
                strategy,
                read,
                unclean,
                self._config.inter_broker_protocol.has_leader_recovery,
            )
            plan, doubtful = self._without_doubtful_refusals(plan, read)
            results = await self._write(plan.creates, plan.updates)
            outcome = partition_machine.apply(self._context, self._batch, plan, results)
            self._log_partitions(plan, outcome, strategy)
            elected.update(outcome.elected)
            pending = [*outcome.retry, *doubtful]
            self.leaderships.outdated(pending)
            read, unreadable = await self.leaderships.read(pending)
        if strategy is ElectionStrategy.OFFLINE:
            self._elected.update(elected)
        return elected

    def _without_doubtful_refusals(
        self, plan: PartitionPlan, read: States
    ) -> tuple[PartitionPlan, list[TopicPartition]]:
        """Remove the refusals that are based on a cached state, and return their partitions. No
        conditional write would reveal that the state is outdated, so they are read and planned
        again."""
        doubtful = [
            refusal.subject
            for refusal in plan.refusals
            if refusal.subject in read and not self.leaderships.is_fresh(refusal.subject)
        ]
        standing = tuple(r for r in plan.refusals if r.subject not in doubtful)
        return replace(plan, refusals=standing), doubtful

    async def trigger_online_partitions(
        self, topic: str | None = None
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Elect leaders for all partitions without one, or for those of ``topic`` if it is given
        (triggerOnlinePartitionStateChange)."""
        waiting = partition_machine.to_trigger_online(self._context, topic)
        return await self.change_partitions(
            waiting, PartitionState.ONLINE, ElectionStrategy.OFFLINE
        )

    async def _unclean_topics(
        self, read: States, strategy: ElectionStrategy | None
    ) -> frozenset[str]:
        """Return the topics that need an unclean leader and whose configuration allows it."""
        if strategy is not ElectionStrategy.OFFLINE:
            return frozenset()
        lost = partition_machine.without_live_isr(self._context, read)
        topics = sorted({tp.topic for tp in lost})
        if not topics:
            return frozenset()
        default = str(self.unclean_by_default)
        configs = await read_topic_configs(self._zk.store, topics, self._log)
        return frozenset(
            topic
            for topic, config in configs.items()
            if config.get(_UNCLEAN_KEY, default).lower() == "true"
        )

    def _log_partitions(
        self, plan: PartitionPlan, outcome: PartitionOutcome, strategy: ElectionStrategy | None
    ) -> None:
        epoch = self._context.epoch
        for partition in sorted(plan.unclean & outcome.elected.keys()):
            self._metrics.counter(UNCLEAN_ELECTIONS).mark()
            leader = outcome.elected[partition].leader
            live = ",".join(map(str, plan.recipients[partition]))
            message = (
                f"No broker in ISR is alive for {partition}. Elect leader {leader} from live "
                f"brokers {live}. There's potential data loss."
            )
            self._log.warning(
                "unclean_leader_elected", partition=str(partition), leader=leader, message=message
            )
        for change in outcome.changes:
            self._history.transition(epoch, change)
            facts = {"partition": str(change.subject), "epoch": epoch}
            facts |= {"before": str(change.before), "after": str(change.after)}
            facts |= _leadership_facts(change.leadership)
            if change.before is PartitionState.OFFLINE and strategy in (
                ElectionStrategy.OFFLINE,
                ElectionStrategy.UNCLEAN,
            ):
                message = (
                    f"Selected new leader and ISR {outcome.elected[change.subject]} for offline "
                    f"partition {change.subject}"
                )
                self._log.info("offline_partition_leader_elected", message=message, **facts)
            else:
                write = self._log.info if change.after in _LOUD else self._log.debug
                write("partition_state_changed", **facts)
        for refusal in outcome.refusals:
            self._log.error(
                "partition_state_change_failed",
                partition=str(refusal.subject),
                before=str(refusal.before),
                after=str(refusal.after),
                epoch=epoch,
                error=refusal.reason,
            )

    # --------------------------------------------------------------------------------- replicas

    async def change_replicas(
        self, replicas: Sequence[PartitionAndReplica], target: ReplicaState
    ) -> None:
        """Take replicas to the state ``target``, broker by broker. Replicas of a partition that
        follow each other in ``replicas`` are in the same slice, so one request covers them."""
        slices = _slices(replicas, lambda replica: replica.topic_partition.topic)
        async for some, unfinished in in_slices(slices, look_every=1):
            self._batch.new_batch()
            for broker_id, of_broker in replica_machine.by_broker(some).items():
                await self._change_replicas(broker_id, of_broker, target)
            self._flush(unfinished)

    async def _change_replicas(
        self, broker_id: int, pending: Sequence[PartitionAndReplica], target: ReplicaState
    ) -> None:
        while pending:
            to_read = replica_machine.to_read(self._context, pending, target)
            read, unreadable = await self.leaderships.read(to_read, partial(_in_isr, broker_id))
            pending = [r for r in pending if r.topic_partition not in unreadable]
            plan = replica_machine.plan(self._context, broker_id, pending, target, read)
            results = await self._write({}, plan.updates)
            outcome = replica_machine.apply(
                self._context, self._batch, plan, results, self._elected
            )
            self._log_replicas(outcome)
            pending = outcome.retry
            self.leaderships.outdated(r.topic_partition for r in pending)

    def _log_replicas(self, outcome: ReplicaOutcome) -> None:
        epoch = self._context.epoch
        for change in outcome.changes:
            self._history.transition(epoch, change)
            self._log.debug(
                "replica_state_changed",
                partition=str(change.subject.topic_partition),
                replica=change.subject.replica,
                before=str(change.before),
                after=str(change.after),
                epoch=epoch,
                **_leadership_facts(change.leadership),
            )
        for refusal in outcome.refusals:
            self._log.error(
                "replica_state_change_failed",
                partition=str(refusal.subject.topic_partition),
                replica=refusal.subject.replica,
                before=str(refusal.before),
                after=str(refusal.after),
                epoch=epoch,
                error=refusal.reason,
            )

    # ------------------------------------------------------------------------------ leader epochs

    async def raise_leader_epochs(self, partitions: Sequence[TopicPartition]) -> None:
        """Increment the leader epochs without a change of leader, so that the leaders apply changed
        assignments (updateLeaderEpochAndSendRequest). All replicas get a LeaderAndIsr request, in
        which replicas that are being added are marked as new."""
        for some, unfinished in _slices(partitions, _topic):
            await self._raise_leader_epochs(some)
            self._flush(unfinished)

    async def _raise_leader_epochs(self, pending: Sequence[TopicPartition]) -> None:
        self._batch.new_batch()
        read, _ = await self.leaderships.read(pending, trust_all)
        while pending:
            raised, refused = reassignment.plan_epochs(self._context, read)
            results = await self._write({}, raised)
            written, pending = reassignment.apply_epochs(self._context, self._batch, results)
            for partition, leadership in written.items():
                self._log.info(
                    "leader_epoch_raised",
                    partition=str(partition),
                    replicas=list(self._context.assignment(partition).replicas),
                    epoch=self._context.epoch,
                    **_leadership_facts(leadership),
                )
            for partition, reason in refused.items():
                self._log.error("leader_epoch_not_raised", partition=str(partition), error=reason)
            self.leaderships.outdated(pending)
            read, _ = await self.leaderships.read(pending)

    # -------------------------------------------------------------------------- ISRs of leaders

    async def write_isrs(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> WriteResults:
        """Write states that leaders have requested, and record those that were written. A state
        that another writer changed meanwhile is read again, and its result is ``BadVersion``."""
        store, epoch = self._zk.store, self._context.epoch
        results = await store.update_states(states, epoch, self._context.fence)
        for partition, result in results.items():
            if isinstance(result, LeaderAndIsr):
                state = LeaderIsrAndControllerEpoch(result, epoch)
                self._context.leadership[partition] = state
                self._log.debug(
                    "isr_altered", partition=str(partition), epoch=epoch, **_leadership_facts(state)
                )
        self.leaderships.written(tp for tp, r in results.items() if isinstance(r, LeaderAndIsr))
        await self.leaderships.refresh(
            [tp for tp, result in results.items() if isinstance(result, BadVersion)]
        )
        return results

    # --------------------------------------------------------------------------------- requests

    def send_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()
    ) -> None:
        """Send UpdateMetadata to these brokers, with all live brokers and these partitions."""
        self._batch.new_batch()
        self._batch.add_update_metadata(broker_ids, partitions)
        self._flush()

    async def send_all_metadata(self, broker_ids: Collection[int]) -> None:
        """Send UpdateMetadata with all partitions that have a leader to these brokers."""
        partitions = self._context.partitions_with_leaders()
        version = self._config.inter_broker_protocol.update_metadata_version
        steps = self._batch.metadata_steps(broker_ids, partitions, version)
        self._send(await run_in_slices(steps))

    def send_stop_replicas(
        self, broker_id: int, partitions: Iterable[TopicPartition], delete: bool = False
    ) -> None:
        """Send StopReplica to a broker at once, before the slower writes to ZooKeeper."""
        self._batch.new_batch()
        for partition in partitions:
            self._batch.add_stop_replica((broker_id,), partition, delete)
        self._flush()

    def _flush(self, unfinished: Container[str] = ()) -> None:
        self._send(self._batch.send_requests_to_brokers(self._context.epoch, unfinished))

    def _send(self, requests: Sequence[BrokerRequest]) -> None:
        if requests:
            self._context.correlation_id += 1
        for request in requests:
            self._log.debug(
                "request_queued",
                correlation_id=self._context.correlation_id,
                kind=type(request.message).__name__,
                target_broker=request.broker_id,
                topics=len(request.message.topic_states),
                epoch=self._context.epoch,
            )
            assert request.message.controller_epoch == self._context.epoch
            self._channels.send(request)

    async def _write(
        self,
        creates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        updates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
    ) -> WriteResults:
        store, fence = self._zk.store, self._context.fence
        results: dict[TopicPartition, LeaderAndIsr | CoordinationError] = {}
        for partition, state in creates.items():
            check_first_state(state, self._context.epoch, self._context.assignment(partition))
        for partition, state in updates.items():
            check_next_state(self._context.leadership[partition], state, self._context.epoch)
        if creates:
            results.update(await store.create_states(creates, fence))
        if updates:
            states = {tp: state.leader_and_isr for tp, state in updates.items()}
            results.update(await store.update_states(states, self._context.epoch, fence))
        self.leaderships.written(tp for tp, r in results.items() if isinstance(r, LeaderAndIsr))
        return results


def _slices(
    items: Sequence[T], topic: Callable[[T], str]
) -> Iterator[tuple[Sequence[T], frozenset[str]]]:
    """Cut ``items`` into slices; with each, yield the topics that have begun and continue in a
    later slice."""
    last = {topic(item): place for place, item in enumerate(items)} if len(items) > SLICE else {}
    begun: set[str] = set()
    for start in range(0, len(items), SLICE):
        some, end = items[start : start + SLICE], start + SLICE
        begun.update(map(topic, some))
        begun = {name for name in begun if last.get(name, 0) >= end}
        yield some, frozenset(begun)


def _topic(partition: TopicPartition) -> str:
    return partition.topic


def _in_isr(broker_id: int, _: TopicPartition, state: LeaderIsrAndControllerEpoch) -> bool:
    """Trust a cached state whose ISR contains the broker: removing it is a conditional write."""
    return broker_id in state.leader_and_isr.isr


def _leadership_facts(leadership: LeaderIsrAndControllerEpoch | None) -> dict[str, object]:
    if leadership is None:
        return {}
    known = leadership.leader_and_isr
    return {
        "leader": known.leader,
        "isr": list(known.isr),
        "leader_epoch": known.leader_epoch,
        "zk_version": known.zk_version,
    }
