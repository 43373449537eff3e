"""The row of an API: all that a broker says about it, apart from its messages.

An API has its handler, then who may send the request, and at the end its row in one file, which
has the name of the file of its messages; APIs that share the one share the other. ``table`` finds
the row, and imports the file at the first request. An entry that is missing in a row is a TypeError
at import.

Facts about the messages (versions, limits of elements, where they name topics and have errors) are
in ``protocol/messages``, since proxies and clients need them, too.

These requests have a handler that changes state: Produce, Fetch, LeaderAndIsr, StopReplica,
UpdateMetadata, OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, DeleteRecords,
ConsumerGroupHeartbeat, ShareGroupHeartbeat, ShareFetch, ShareAcknowledge, AlterShareGroupOffsets,
DeleteShareGroupOffsets, InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState,
DeleteShareGroupState, ReadShareGroupStateSummary, StreamsGroupHeartbeat, InitProducerId,
AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers, TxnOffsetCommit, AlterReplicaLogDirs,
DeleteGroups, OffsetDelete. A bug of theirs ends the node, since half a change may be left. A bug of
any other handler closes one connection; in the simulator it fails the scenario all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from minikafka.protocol.api_keys import ApiKey
from minikafka.server.broker.apis.guards import ApiGuard
from minikafka.server.broker.apis.request import Handler
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.quotas import Quota


class Senders(Enum):
    """Who sends the requests of an API."""

    CLIENTS = auto()
    # Their events are the history of the replicas, and are not bounded for each client.
    BROKERS = auto()
    CLIENTS_AND_BROKERS = auto()


@dataclass(frozen=True, kw_only=True)
class Api:
    """A row. ``handler`` makes the handler from the broker's parts, at the first request.

    ``task`` is true for a ``TaskHandler``, which runs as a task of the node: its request type must
    have no memoryview fields. With ``in_parts`` the record batches of the response are sent without
    a copy. An ``overlapping`` handler may be called while earlier requests of this API on the same
    connection have no reply; it keeps the order of their effects itself. If it returns a coroutine,
    the next request of the connection waits for the reply all the same.

    ``authorization`` is the guard that is put around the handler if the broker has an authorizer,
    ``guards.OPEN`` for an API that everybody may use, or ``guards.BY_HANDLER``.

    ``changes_state`` is true if the handler changes this broker's own state in several steps:
    logs, partitions, coordinators, sessions. An unexpected exception may then leave half a change,
    and ends the node. It is false if the handler only reads, or hands one change to ZooKeeper or
    to the controller: an unexpected exception then closes the connection, and nothing else.

    ``parks_reads`` is true if the handler parks requests whose completion only reads, although the
    handler itself may change state: an unexpected exception in the completion closes the connection
    of the parked request, unless it is a failed assertion. Any other completion that fails ends the
    node.

    If brokers send the requests, too (``senders``), all versions are served, even those that are
    newer than the release shown to clients: brokers do not negotiate.

    ``to_controller`` is true if only the controller serves the requests, by a ``TaskHandler``:
    other brokers of the newest release forward them to it (``forwarding``)."""

    key: ApiKey
    handler: Callable[[Services], Handler]
    task: bool
    authorization: ApiGuard
    quota: Quota
    changes_state: bool
    senders: Senders = Senders.CLIENTS
    in_parts: bool = False
    overlapping: bool = False
    parks_reads: bool = False
    to_controller: bool = False
