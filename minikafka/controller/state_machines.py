"""Runs the two state machines against ZooKeeper and the brokers: read, plan, write, apply, send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from minikafka.controller.config import ControllerConfig
from minikafka.controller.elector import StoreSource
from minikafka.controller.event_history import Journal
from minikafka.controller.metrics import UNCLEAN_ELECTIONS
from minikafka.controller.znode_reads import Leaderships, read_topic_configs
from minikafka.core.controller import partition_machine, reassignment, replica_machine
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.partition_machine import PartitionOutcome, PartitionPlan
from minikafka.core.controller.replica_machine import ReplicaOutcome
from minikafka.core.controller.request_batch import BrokerRequest, RequestBatch
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.core.controller.writes import States, WriteResults
from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    TopicPartition,
)
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import CoordinationError

T = TypeVar("T")

_UNCLEAN_KEY = "unclean.leader.election.enable"
_LOUD = (PartitionState.NEW, PartitionState.ONLINE)
# So many changes, and the brokers are told what is settled: they work on it while the rest is
# written, and nobody is kept waiting by ten thousand partitions in one breath.
SLICE = 1000


class StateMachines:
    """One batch of requests per call, sent when its last write is done; of thousands of changes
    one per slice.

    A znode that somebody else wrote meanwhile is read again and planned again, as often as it
    takes: a leader changes its ISR now and then, not all the time. Raises ``ControllerMoved``.
    """

    def __init__(
        self,
        context: ControllerContext,
        config: ControllerConfig,
        zk: StoreSource,
        send: Callable[[BrokerRequest], None],
        metrics: Metrics,
        journal: Journal,
    ) -> None:
        self._journal = journal
        self._context = context
        self._config = config
        self._zk = zk
        self._send = send
        self._metrics = metrics
        self.unclean_by_default = config.unclean_leader_election_enable
        self.leaderships = Leaderships(context, zk)
        self._elected: set[TopicPartition] = set()  # during this event: all brokers know of it
        self._batch = RequestBatch(config.broker_id, context, config.inter_broker_listener_name)
        self._log = event_log("state-change", controller=config.broker_id)

    def new_event(self) -> None:
        """What was known for sure may be old again."""
        self.leaderships.new_event()
        self._elected.clear()

    def clear(self) -> None:
        """Forget what was not sent: somebody else decides now."""
        self._batch.clear()

    # ------------------------------------------------------------------------------- partitions

    async def change_partitions(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy | None = None,
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """Take partitions to ``target``; the leaderships that came of it."""
        elected: dict[TopicPartition, LeaderAndIsr] = {}
        for some, unfinished in _slices(partitions, _topic):
            if elected:
                await asyncio.sleep(0)
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
        wanted = partition_machine.to_read(self._context, pending, target)
        read, unreadable = await self.leaderships.read(wanted, lambda *_: True)
        while pending:
            self._log_unreadable(unreadable)
            pending = [tp for tp in pending if tp not in unreadable]
            unclean = await self._unclean_topics(read, strategy)
            plan = partition_machine.plan(self._context, pending, target, strategy, read, unclean)
            plan, doubtful = self._set_doubts_aside(plan, read)
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

    def _set_doubts_aside(
        self, plan: PartitionPlan, read: States
    ) -> tuple[PartitionPlan, list[TopicPartition]]:
        """A refusal that rests on what was remembered does not stand: nothing is written that
        would find the error. Those partitions are to be read, and planned again."""
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
        """Seek leaders for all partitions (of ``topic``, if given) that have none
        (triggerOnlinePartitionStateChange)."""
        waiting = partition_machine.to_trigger_online(self._context, topic)
        return await self.change_partitions(
            waiting, PartitionState.ONLINE, ElectionStrategy.OFFLINE
        )

    async def _unclean_topics(
        self, read: States, strategy: ElectionStrategy | None
    ) -> frozenset[str]:
        """Topics whose configuration allows an unclean leader, of those that need one."""
        if strategy is not ElectionStrategy.OFFLINE:
            return frozenset()
        lost = partition_machine.without_live_isr(self._context, read)
        topics = sorted({tp.topic for tp in lost})
        if not topics:
            return frozenset()
        default = str(self.unclean_by_default)
        configs, unreadable = await read_topic_configs(self._zk.store, topics)
        for topic, why in unreadable.items():
            self._log.error("topic_config_unreadable", topic=topic, why=why)
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
            self._log.warning(
                f"No broker in ISR is alive for {partition}. Elect leader {leader} from live "
                f"brokers {live}. There's potential data loss."
            )
        for change in outcome.changes:
            self._journal.transition(epoch, change)
            facts = {"partition": str(change.subject), "epoch": epoch}
            facts |= {"before": str(change.before), "after": str(change.after)}
            facts |= _leadership_facts(change.leadership)
            if change.before is PartitionState.OFFLINE and strategy in (
                ElectionStrategy.OFFLINE,
                ElectionStrategy.UNCLEAN,
            ):
                self._log.info(
                    f"Selected new leader and ISR {outcome.elected[change.subject]} for offline "
                    f"partition {change.subject}",
                    **facts,
                )
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
                reason=refusal.reason,
            )

    # --------------------------------------------------------------------------------- replicas

    async def change_replicas(
        self, replicas: Sequence[PartitionAndReplica], target: ReplicaState
    ) -> None:
        """Take replicas to ``target``, those of one broker at a time. A partition is told of once
        for all its replicas that are named one after the other."""
        slices = _slices(replicas, lambda replica: replica.topic_partition.topic)
        for place, (some, unfinished) in enumerate(slices):
            if place:
                await asyncio.sleep(0)
            self._batch.new_batch()
            for broker_id, of_broker in replica_machine.by_broker(some).items():
                await self._change_replicas(broker_id, of_broker, target)
            self._flush(unfinished)

    async def _change_replicas(
        self, broker_id: int, pending: Sequence[PartitionAndReplica], target: ReplicaState
    ) -> None:
        while pending:
            wanted = replica_machine.to_read(self._context, pending, target)
            read, unreadable = await self.leaderships.read(wanted, partial(_in_isr, broker_id))
            self._log_unreadable(unreadable)
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
            self._journal.transition(epoch, change)
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
                reason=refusal.reason,
            )

    def _log_unreadable(self, unreadable: Mapping[TopicPartition, str]) -> None:
        for partition, why in unreadable.items():
            self._log.error("partition_state_unreadable", partition=str(partition), why=why)

    # ------------------------------------------------------------------------------ leader epochs

    async def raise_leader_epochs(self, partitions: Sequence[TopicPartition]) -> None:
        """The same leaders in a new epoch, which makes them take over their assignment; every
        replica hears of it, new ones that they are new (updateLeaderEpochAndSendRequest)."""
        for some, unfinished in _slices(partitions, _topic):
            await self._raise_leader_epochs(some)
            self._flush(unfinished)

    async def _raise_leader_epochs(self, pending: Sequence[TopicPartition]) -> None:
        self._batch.new_batch()
        read, unreadable = await self.leaderships.read(pending, lambda *_: True)
        while pending:
            self._log_unreadable(unreadable)
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
                self._log.error("leader_epoch_not_raised", partition=str(partition), reason=reason)
            self.leaderships.outdated(pending)
            read, unreadable = await self.leaderships.read(pending)

    # --------------------------------------------------------------------------------- requests

    def send_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()
    ) -> None:
        """Tell these brokers who is live, and who leads these partitions."""
        self._batch.new_batch()
        self._batch.add_update_metadata(broker_ids, partitions)
        self._flush()

    def send_stop_replicas(
        self, broker_id: int, partitions: Iterable[TopicPartition], delete: bool = False
    ) -> None:
        """Tell a broker to stop following, ahead of what ZooKeeper takes its time for."""
        self._batch.new_batch()
        for partition in partitions:
            self._batch.add_stop_replica((broker_id,), partition, delete)
        self._flush()

    def _flush(self, unfinished: Container[str] = ()) -> None:
        requests = self._batch.send_requests_to_brokers(self._context.epoch, unfinished)
        if requests:
            self._context.correlation_id += 1
        for request in requests:
            self._log.debug(
                "request_queued",
                correlation_id=self._context.correlation_id,
                kind=type(request.message).__name__,
                broker=request.broker_id,
                topics=len(request.message.topic_states),
                epoch=self._context.epoch,
            )
            self._send(request)

    async def _write(
        self,
        creates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        updates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
    ) -> WriteResults:
        store, fence = self._zk.store, self._context.epoch_zk_version
        results: dict[TopicPartition, LeaderAndIsr | CoordinationError] = {}
        if creates:
            results.update(await store.create_states(creates, fence))
        if updates:
            wanted = {tp: state.leader_and_isr for tp, state in updates.items()}
            results.update(await store.update_states(wanted, self._context.epoch, fence))
        self.leaderships.written(tp for tp, r in results.items() if isinstance(r, LeaderAndIsr))
        return results


def _slices(
    items: Sequence[T], topic: Callable[[T], str]
) -> Iterator[tuple[Sequence[T], frozenset[str]]]:
    """Each with those of its topics, and of the slices' before it, that are not all told yet."""
    if len(items) <= SLICE:
        if items:
            yield items, frozenset()
        return
    last = {topic(item): place for place, item in enumerate(items)}
    for start in range(0, len(items), SLICE):
        end = start + SLICE
        yield items[start:end], frozenset(name for name, place in last.items() if place >= end)


def _topic(partition: TopicPartition) -> str:
    return partition.topic


def _in_isr(broker_id: int, _: TopicPartition, state: LeaderIsrAndControllerEpoch) -> bool:
    """A remembered ISR with the replica in it is certain to mean a conditional write."""
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
