"""Leader elections: who leads a partition, and who is left in sync (Kafka's Election object)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from minikafka.core.controller.assignment import target_replicas
from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import LeaderAndIsr, TopicPartition

RECOVERING = 1  # leader_recovery_state after an unclean election (KIP-704)


class ElectionStrategy(Enum):
    """Why a leader is sought. The order of the assignment decides in all of them, never that of
    the ISR."""

    OFFLINE = "offline"  # a leader is missing; unclean if the topic's configuration says so
    UNCLEAN = "unclean"  # as OFFLINE, and unclean allowed by whoever asked
    REASSIGN = "reassign"  # the leader is not among the target replicas, or dead
    PREFERRED = "preferred"  # the first replica should lead
    CONTROLLED_SHUTDOWN = "controlled shutdown"  # the leader wants to go
    NO_OP = "no-op"  # keep leader and ISR, raise the leader epoch

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """``leader_and_isr`` still carries the znode version that was read; ``None``: nobody can lead.
    ``recipients`` are the brokers that have to know. ``unclean``: records may be lost."""

    leader_and_isr: LeaderAndIsr | None
    recipients: tuple[int, ...]
    unclean: bool = False


# ------------------------------------------------------------------------------------ who leads


def offline_leader(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int], unclean: bool
) -> int | None:
    """The first live replica in sync; else, if ``unclean``, the first live one."""
    in_sync = next((r for r in assignment if r in live and r in isr), None)
    if in_sync is not None or not unclean:
        return in_sync
    return next((r for r in assignment if r in live), None)


def reassign_leader(
    target: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """The first target replica that is live and in sync."""
    return next((r for r in target if r in live and r in isr), None)


def preferred_leader(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """The first of the assignment, if live and in sync."""
    return next((r for r in assignment[:1] if r in live and r in isr), None)


def controlled_shutdown_leader(
    assignment: Sequence[int],
    isr: Collection[int],
    live: Collection[int],
    shutting_down: Collection[int],
) -> int | None:
    """The first replica live and in sync whose broker stays."""
    return next((r for r in assignment if r in live and r in isr and r not in shutting_down), None)


# ------------------------------------------------------------------------------------ elections


def elect(
    context: ControllerContext,
    partition: TopicPartition,
    current: LeaderAndIsr,
    strategy: ElectionStrategy,
    unclean: bool = False,
) -> ElectionResult:
    """The next leader epoch of ``partition``, given its state znode. ``unclean``: the topic's
    ``unclean.leader.election.enable``, looked at by OFFLINE only."""
    match strategy:
        case ElectionStrategy.OFFLINE:
            return _for_offline(context, partition, current, unclean)
        case ElectionStrategy.UNCLEAN:
            return _for_offline(context, partition, current, True)
        case ElectionStrategy.REASSIGN:
            return _for_reassign(context, partition, current)
        case ElectionStrategy.PREFERRED:
            return _for_preferred(context, partition, current)
        case ElectionStrategy.CONTROLLED_SHUTDOWN:
            return _for_controlled_shutdown(context, partition, current)
        case ElectionStrategy.NO_OP:
            return ElectionResult(
                current.new_leader(current.leader), context.assignment(partition).replicas
            )


def live_isr(
    context: ControllerContext, partition: TopicPartition, isr: Collection[int]
) -> tuple[int, ...]:
    return tuple(r for r in isr if context.is_replica_online(r, partition))


def _for_offline(
    context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr, unclean: bool
) -> ElectionResult:
    replicas = context.assignment(partition).replicas
    live = live_isr(context, partition, replicas)
    leader = offline_leader(replicas, current.isr, live, unclean)
    if leader is None:
        return ElectionResult(None, live)
    if leader in current.isr:
        isr = live_isr(context, partition, current.isr)
        return ElectionResult(current.new_leader(leader, isr), live)
    elected = replace(current.new_leader(leader, (leader,)), leader_recovery_state=RECOVERING)
    return ElectionResult(elected, live, unclean=True)


def _for_reassign(
    context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr
) -> ElectionResult:
    target = target_replicas(context.assignment(partition))
    leader = reassign_leader(target, current.isr, live_isr(context, partition, target))
    return ElectionResult(None if leader is None else current.new_leader(leader), target)


def _for_preferred(
    context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr
) -> ElectionResult:
    replicas = context.assignment(partition).replicas
    leader = preferred_leader(replicas, current.isr, live_isr(context, partition, replicas))
    return ElectionResult(None if leader is None else current.new_leader(leader), replicas)


def _for_controlled_shutdown(
    context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr
) -> ElectionResult:
    going = context.shutting_down_broker_ids
    there = tuple(
        r
        for r in context.assignment(partition).replicas
        if context.is_replica_online(r, partition, or_shutting_down=True)
    )
    leader = controlled_shutdown_leader(there, current.isr, there, going)
    if leader is None:
        return ElectionResult(None, there)
    isr = tuple(r for r in current.isr if r not in going)
    return ElectionResult(current.new_leader(leader, isr), there)
