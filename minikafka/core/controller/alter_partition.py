"""The controller's decision on ISRs that leaders request (Kafka's tryProcessAlterPartition)."""

from __future__ import annotations

from dataclasses import replace

from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import LeaderAndIsr, TopicPartition
from minikafka.kernel.errors import ErrorCode

RECOVERED, RECOVERING = 0, 1  # leader_recovery_state


def is_current_broker(context: ControllerContext, broker_id: int, broker_epoch: int) -> bool:
    """Return whether the broker is registered with this epoch."""
    known = context.brokers.get(broker_id)
    return known is not None and known.epoch == broker_epoch


def is_ahead(
    context: ControllerContext, partition: TopicPartition, requested: LeaderAndIsr
) -> bool:
    """Return whether the leader knows a later state than the context. The leader may have written
    an ISR itself, before it used AlterPartition, and not have announced it yet."""
    known = context.leadership.get(partition)
    return known is not None and _is_later(requested, known.leader_and_isr)


def is_done(context: ControllerContext, partition: TopicPartition, requested: LeaderAndIsr) -> bool:
    """Return whether the partition has the requested state already, at the version that the request
    names or a later one."""
    known = context.leadership.get(partition)
    return known is not None and _is_done(requested, known.leader_and_isr)


def _is_later(requested: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    return (
        requested.zk_version > current.zk_version or requested.leader_epoch > current.leader_epoch
    )


def _is_done(requested: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    return (
        requested.zk_version <= current.zk_version
        and replace(requested, zk_version=current.zk_version) == current
    )


def decide(
    context: ControllerContext, partition: TopicPartition, requested: LeaderAndIsr
) -> LeaderAndIsr | ErrorCode | None:
    """Return None if the requested state is to be written, the current state if it says the same
    already, or the error of the response.

    ``requested`` names the broker that sent the request as the leader, and the version that it
    replaces. The comparison with the current state comes before the check of that version, so
    that a request whose response was lost can be repeated."""
    known = context.leadership.get(partition)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = known.leader_and_isr
    if _is_later(requested, current):
        # The leader knows more than this controller, which therefore may not be one any more.
        return ErrorCode.NOT_CONTROLLER
    if requested.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if _is_done(requested, current):
        return current
    if requested.zk_version < current.zk_version:
        return ErrorCode.INVALID_UPDATE_VERSION
    if _is_invalid(context, partition, current, requested):
        return ErrorCode.INVALID_REQUEST
    if not all(context.is_live_broker(broker_id) for broker_id in requested.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _is_invalid(
    context: ControllerContext,
    partition: TopicPartition,
    current: LeaderAndIsr,
    requested: LeaderAndIsr,
) -> bool:
    """Return whether no leader sends such a request. Kafka with ZooKeeper checks the recovery state
    alone; its KRaft controller also checks the rest, without which any client could make itself
    the leader or put a broker without a replica into the ISR. A member that has no replica may
    stay: a tool, or another controller, has put it there."""
    isr, recovering = requested.isr, requested.leader_recovery_state == RECOVERING
    return (
        requested.leader != current.leader
        or requested.leader not in isr
        or len(set(isr)) < len(isr)
        or not set(isr) <= {*current.isr, *context.assignment(partition).replicas}
        or (recovering and len(isr) > 1)
        or (recovering and current.leader_recovery_state == RECOVERED)
    )
