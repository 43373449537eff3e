"""The requests that only the controller serves, to send them to any broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from minikafka.protocol.schema import Message

WAIT_MS: Final = 5_000
# Sends a request in a version to one broker, and returns the response.
Send: TypeAlias = Callable[[Message, int], Awaitable[Any]]


def creating(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names], WAIT_MS)


def altering(user: str) -> AlterUserScramCredentialsRequest:
    row = ScramCredentialUpsertion(user, 2, 4096, b"salt", b"p" * 64)
    return AlterUserScramCredentialsRequest([], [row])


async def administrate(send: Send, suffix: str) -> dict[str, Any]:
    """Send each of the requests, and return what the responses say: ``DONE`` if all is well.

    Leaves the user ``u<suffix>``."""
    name, old = f"t{suffix}", f"old{suffix}"
    made = await send(creating(name), 7)
    made_old = await send(creating(old), 0)
    assert [row.error_code for row in (*made.topics, *made_old.topics)] == [0, 0]
    for topic in (name, old):  # this broker may know of it later
        asked = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        while (await send(asked, 9)).topics[0].error_code:
            pass
    grown = await send(CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None)], WAIT_MS), 3)
    target = ReassignableTopic(name, [ReassignablePartition(0, [1, 2])])
    moved = await send(AlterPartitionReassignmentsRequest(WAIT_MS, topics=[target]), 0)
    listed = await send(ListPartitionReassignmentsRequest(WAIT_MS, None), 0)
    elected = await send(ElectLeadersRequest(0, [ElectLeadersTopic(name, [9])], WAIT_MS), 2)
    altered = await send(altering(f"u{suffix}"), 0)
    updated = await send(UpdateFeaturesRequest(WAIT_MS, [FeatureUpdateKey("unknown", 1)]), 1)
    by_id = DeleteTopicsRequest([DeleteTopicState(None, made.topics[0].topic_id)], [], WAIT_MS)
    deleted = await send(by_id, 6)
    deleted_old = await send(DeleteTopicsRequest([], [old], WAIT_MS), 1)
    return {
        "create": [(row.error_code, row.num_partitions) for row in made.topics],
        "create as once": [row.error_code for row in made_old.topics],
        "grow": [(row.error_code, row.error_message) for row in grown.results],
        "reassign": [p.error_code for topic in moved.responses for p in topic.partitions],
        "list reassignments": (listed.error_code, listed.error_message),
        "elect": [
            p.error_code for t in elected.replica_election_results for p in t.partition_result
        ],
        "alter credentials": [row.error_code for row in altered.results],
        "update features": (updated.error_code, [row.error_code for row in updated.results]),
        "delete": [(row.name == name, row.error_code) for row in deleted.responses],
        "delete as once": [row.error_code for row in deleted_old.responses],
    }


DONE: Final = {
    "create": [(0, 1)],
    "create as once": [0],
    "grow": [(0, None)],
    "reassign": [0],
    "list reassignments": (0, None),
    "elect": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    "alter credentials": [0],
    "update features": (0, [ErrorCode.INVALID_REQUEST]),
    "delete": [(True, 0)],
    "delete as once": [0],
}
