"""Relieves a broker that wants to go of what it leads (Kafka's doControlledShutdown)."""

from __future__ import annotations

from minikafka.controller.services import Tools
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.events import ControlledShutdown
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import NO_EPOCH, PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError


class ControlledShutdowns:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._context = tools.context
        self._log = tools.log

    async def on_controlled_shutdown(self, wish: ControlledShutdown) -> list[TopicPartition]:
        """Move leaderships away from the broker and take it out of the ISRs; which replicated
        partitions it still leads. Raises ``KafkaError``: STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE,
        and ``ControllerMoved``."""
        broker_id = wish.broker_id
        self._check(wish)
        self._log.info(f"Shutting down broker {broker_id}")
        self._context.shutting_down_broker_ids.add(broker_id)
        led, followed = self._partitions_of(broker_id)
        machines = self._tools.machines
        await machines.change_partitions(
            led, PartitionState.ONLINE, ElectionStrategy.CONTROLLED_SHUTDOWN
        )
        # It stops fetching first, or leaders would take it back into their ISRs.
        machines.send_stop_replicas(broker_id, followed)
        await machines.change_replicas(
            [PartitionAndReplica(tp, broker_id) for tp in followed], ReplicaState.OFFLINE
        )
        return self._context.partitions_led_by(broker_id)

    def _check(self, wish: ControlledShutdown) -> None:
        known = self._context.brokers.get(wish.broker_id)
        if known is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {wish.broker_id} does not exist."
            )
        if wish.broker_epoch != NO_EPOCH and wish.broker_epoch < known.epoch:
            message = (
                "Received controlled shutdown request from an old broker epoch "
                f"{wish.broker_epoch} for broker {wish.broker_id}. Current broker epoch is "
                f"{known.epoch}."
            )
            self._log.info(message)
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, message)

    def _partitions_of(self, broker_id: int) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Replicated partitions that the broker leads, and that it follows. One without another
        replica cannot be moved: its leader keeps it to the end."""
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for partition in self._context.partitions_on_broker(broker_id):
            known = self._context.leadership.get(partition)
            alone = len(self._context.assignment(partition).replicas) <= 1
            if known is None or alone or self._context.is_queued_for_deletion(partition.topic):
                continue
            (led if known.leader_and_isr.leader == broker_id else followed).append(partition)
        return led, followed
