"""Requests to the controller: ISRs that leaders want, blocks of producer ids, features."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.controller.alter_partition import (
    decide,
    is_ahead,
    is_current_broker,
    is_done,
)
from minikafka.core.controller.events import AllocateProducerIds, AlterPartition, UpdateFeatures
from minikafka.core.controller.feature_updates import FeatureSupport
from minikafka.core.controller.feature_updates import decide as decide_features
from minikafka.kernel.cluster import LeaderAndIsr, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import BadVersion
from minikafka.kernel.slices import in_slices
from minikafka.server.controller.services import ControllerServices
from minikafka.server.zookeeper.store import MalformedZnode


class BrokerRequests:
    """Handlers of the events that brokers' requests put on the queue. They raise ``KafkaError`` and
    ``ControllerMoved``."""

    def __init__(self, services: ControllerServices) -> None:
        self._services = services
        self._context = services.context
        self._log = services.log

    async def on_alter_partition(
        self, request: AlterPartition
    ) -> dict[TopicPartition, LeaderAndIsr | ErrorCode]:
        """Write the ISRs that are acceptable, and send them to all brokers. Return each partition's
        state or error. Raises ``KafkaError``: STALE_BROKER_EPOCH.

        A leader that does not know INELIGIBLE_REPLICA gets the state that stays instead. Kafka's
        controller sends it OPERATION_NOT_ATTEMPTED, after which a leader of Kafka 2.7 to 3.0 does
        not change the ISR in this leader epoch: ``Partition`` retries in the callback, and
        ``AlterIsrManager`` does not accept it there. A replica that was shut down by ``kill -15``
        would not be in sync again.

        A reassignment whose replicas are in sync now goes on with the watch on the partition's
        state, which this write fires."""
        if not is_current_broker(self._context, request.broker_id, request.broker_epoch):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        context, machines = self._context, self._services.machines
        states = request.states.items()
        ahead = [
            partition
            async for partition, requested in in_slices(states)
            if is_ahead(context, partition, requested)
        ]
        await machines.leaderships.refresh(ahead)
        results: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
        accepted: dict[TopicPartition, LeaderAndIsr] = {}
        async for partition, requested in in_slices(states):
            result = decide(context, partition, requested)
            if result is None:
                accepted[partition] = requested
            else:
                results[partition] = result
        written = await machines.write_isrs(accepted) if accepted else {}
        for partition, outcome in written.items():
            if isinstance(outcome, BadVersion):
                results[partition] = self._after_bad_version(partition, accepted[partition])
            elif isinstance(outcome, Exception):
                results[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
            else:
                results[partition] = outcome
        await self._announce(request, results)
        if not request.knows_ineligible:
            for partition, result in results.items():
                if result is ErrorCode.INELIGIBLE_REPLICA:
                    results[partition] = context.leadership[partition].leader_and_isr
        return results

    async def _announce(
        self, request: AlterPartition, results: Mapping[TopicPartition, LeaderAndIsr | ErrorCode]
    ) -> None:
        """Send the states to all brokers, and log that others were refused. Kafka sends the
        refused ones, too, which costs much when a leader repeats its request fast."""
        current: list[TopicPartition] = []
        refused: list[TopicPartition] = []
        async for partition, result in in_slices(results.items()):
            (current if isinstance(result, LeaderAndIsr) else refused).append(partition)
        if current:
            brokers = self._context.live_or_shutting_down_broker_ids()
            self._services.machines.send_update_metadata(brokers, current)
        if refused:
            error = results[refused[0]]
            self._log.info(
                "isr_changes_refused",
                requesting_broker=request.broker_id,
                partitions=len(refused),
                first=str(refused[0]),
                error=error.name if isinstance(error, ErrorCode) else "",
            )

    def _after_bad_version(
        self, partition: TopicPartition, requested: LeaderAndIsr
    ) -> LeaderAndIsr | ErrorCode:
        """Return the result of a write that was refused; the state has been read again. The znode
        has the requested state if the write was repeated after its response was lost, or if the
        leader had written it itself."""
        if is_done(self._context, partition, requested):
            return self._context.leadership[partition].leader_and_isr
        return ErrorCode.INVALID_UPDATE_VERSION

    async def on_allocate_producer_ids(self, request: AllocateProducerIds) -> range:
        """Allocate the next block. Raises ``KafkaError``: BROKER_ID_NOT_REGISTERED,
        STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR."""
        if request.broker_id not in self._context.brokers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if not is_current_broker(self._context, request.broker_id, request.broker_epoch):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        try:
            return await self._services.store.allocate_producer_ids(request.broker_id)
        except (MalformedZnode, OverflowError) as error:
            self._log.error("producer_ids_not_allocated", error=str(error))
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def on_update_features(self, request: UpdateFeatures) -> Mapping[str, KafkaError | None]:
        """Write the valid updates to ``/feature``, or nothing if all must be valid and one is not.
        Return each feature's error, or None. Raises ``KafkaError``: INVALID_REQUEST before
        inter-broker protocol 2.7, FEATURE_UPDATE_FAILED."""
        store, config = self._services.store, self._services.config
        protocol = config.inter_broker_protocol
        if not protocol.has_features:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Feature versioning system is disabled.")
        try:
            found = await store.finalized_features()
        except MalformedZnode as error:
            self._log.error("feature_updates_failed", error=str(error))
            raise KafkaError(ErrorCode.FEATURE_UPDATE_FAILED, str(error)) from error
        finalized, version = found if found is not None else ({}, -1)
        support = FeatureSupport(config.supported_features, await store.broker_features())
        decision = decide_features(finalized, request.updates, support)
        failed: KafkaError | None = None
        writes = not request.validate_only and (decision.is_whole or not request.all_or_none)
        changed = writes and decision.target != finalized
        if changed and not await store.set_finalized_features(
            decision.target, protocol, version, self._services.fence
        ):
            self._log.warning("feature_updates_failed", error="/feature was changed meanwhile")
            failed = KafkaError(ErrorCode.FEATURE_UPDATE_FAILED)
        return {
            feature: failed if reason is None else KafkaError(ErrorCode.INVALID_REQUEST, reason)
            for feature, reason in decision.refusals.items()
        }
