"""Where leaders write their ISRs: to the controller by AlterPartition, or to the state znodes.

AlterPartition needs ``inter.broker.protocol.version`` 2.7 or newer and a controller that serves it.
Otherwise the leader writes the state znode on the condition of its version, and
``/isr_change_notification`` announces it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minikafka.core.replication.isr_outcomes import (
    IsrFailed,
    IsrLost,
    IsrOutcome,
    IsrWritten,
    outcome_of,
)
from minikafka.kernel.cluster import (
    ZERO_UUID,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import CoordinationError, NoAuth
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrMember,
)
from minikafka.server.broker.node_to_controller import NodeToController
from minikafka.server.zookeeper.store import ZkStore

# Versions of AlterPartition: the last that names topics, the last of all, and the first whose ISR
# has broker epochs, which a cluster with ZooKeeper does not check (KIP-903).
LAST_VERSION_BY_NAME: Final = 1
LAST_VERSION: Final = 3
FIRST_VERSION_WITH_EPOCHS: Final = 3
# One request with all its attempts. Then the changes that are still wanted are requested again.
REQUEST_TIMEOUT_MS: Final = 30_000


class IsrChange(NamedTuple):
    """An ISR that the leader of a partition has proposed: the new state, with the version that it
    replaces. ``topic_id`` is None where the controller has given none."""

    state: LeaderIsrAndControllerEpoch
    topic_id: UUID | None


IsrChanges = Mapping[TopicPartition, IsrChange]


class IsrWrites(Protocol):
    """Writes proposed ISRs. Only one call may be under way."""

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        """Return the outcome of each change."""


class ZnodeIsrWrites:
    """Writes the state znodes (Kafka's ``ZkAlterPartitionManager``)."""

    def __init__(self, store: Callable[[], ZkStore]) -> None:
        self._store = store

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        try:
            versions = await self._store().update_isrs(
                {tp: change.state for tp, change in changes.items()}
            )
        except NoAuth:
            raise
        except CoordinationError as error:
            return dict.fromkeys(changes, IsrFailed(repr(error)))
        return {tp: _znode_outcome(version) for tp, version in versions.items()}


def _znode_outcome(version: int | CoordinationError | None) -> IsrOutcome:
    if isinstance(version, CoordinationError):
        return IsrFailed(repr(version))
    if version is None:
        return IsrLost("the state znode was written or deleted before")
    return IsrWritten(version, is_announced=False)


class ControllerIsrWrites:
    """Requests AlterPartition of the controller (Kafka's ``DefaultAlterPartitionManager``), or
    writes ``otherwise`` if the controller does not serve it.

    The connection is ``controller``'s alone: no other request waits for a slow change. Without
    ``by_id`` topics are requested by name although they have ids, as Kafka does below
    ``inter.broker.protocol.version`` 2.8."""

    def __init__(
        self,
        controller: NodeToController,
        broker_id: int,
        broker_epoch: Callable[[], int],
        by_id: bool,
        otherwise: IsrWrites,
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._by_id = by_id
        self._otherwise = otherwise

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        by_id = self._by_id and all(change.topic_id for change in changes.values())

        def request(version: int) -> AlterPartitionRequest:
            return alter_partition(self._broker_id, self._broker_epoch(), changes, version)

        try:
            response: (
                AlterPartitionResponse | None
            ) = await self._controller.request_in_highest_version(
                ApiKey.ALTER_PARTITION,
                LAST_VERSION if by_id else LAST_VERSION_BY_NAME,
                request,
                REQUEST_TIMEOUT_MS,
            )
        except (ConnectionError, TimeoutError) as error:
            return dict.fromkeys(changes, IsrFailed(str(error)))
        if response is None:
            return await self._otherwise.write(changes)
        if response.error_code != ErrorCode.NONE:
            return dict.fromkeys(changes, IsrFailed(ErrorCode(response.error_code).name))
        return outcomes(changes, response)


def alter_partition(
    broker_id: int, broker_epoch: int, changes: IsrChanges, version: int
) -> AlterPartitionRequest:
    """Return the request for some changes. From version 2 on it names topics by their ids."""
    topics: dict[str, AlterPartitionTopic] = {}
    for tp, change in changes.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic_id = change.topic_id or ZERO_UUID
            topic = topics[tp.topic] = AlterPartitionTopic(tp.topic, topic_id)
        topic.partitions.append(_row(tp.partition, change.state.leader_and_isr, version))
    return AlterPartitionRequest(broker_id, broker_epoch, list(topics.values()))


def _row(partition: int, state: LeaderAndIsr, version: int) -> AlterPartitionPartition:
    row = AlterPartitionPartition(
        partition,
        state.leader_epoch,
        leader_recovery_state=state.leader_recovery_state if version > 0 else 0,
        partition_epoch=state.zk_version,
    )
    if version >= FIRST_VERSION_WITH_EPOCHS:
        row.new_isr_with_epochs = [IsrMember(replica) for replica in state.isr]
    else:
        row.new_isr = list(state.isr)
    return row


def outcomes(
    changes: IsrChanges, response: AlterPartitionResponse
) -> dict[TopicPartition, IsrOutcome]:
    """Return the outcome of each change. One that the response does not name has failed."""
    names = {change.topic_id: tp.topic for tp, change in changes.items() if change.topic_id}
    found: dict[TopicPartition, IsrOutcome] = dict.fromkeys(changes, IsrFailed("no result"))
    for topic in response.topics:
        name = topic.topic_name or names.get(topic.topic_id, "")
        for row in topic.partitions:
            tp = TopicPartition(name, row.partition_index)
            change = changes.get(tp)
            if change is not None:
                found[tp] = outcome_of(change.state.leader_and_isr, _result(row))
    return found


def _result(row: AlteredPartition) -> LeaderAndIsr | ErrorCode:
    if row.error_code != ErrorCode.NONE:
        return ErrorCode(row.error_code)
    return LeaderAndIsr(
        row.leader_id,
        row.leader_epoch,
        tuple(row.isr),
        row.partition_epoch,
        row.leader_recovery_state,
    )
