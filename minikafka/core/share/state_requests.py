"""The table of the five requests about states of share-partitions: decision and message types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.core.share.persister import TopicIdPartition
from minikafka.core.share.state_shard import Decide, ShareStateShard
from minikafka.kernel.cluster import grouped
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages import share_group_state as messages

# One of the requests of ``messages``, and its response.
StateRequest: TypeAlias = Any
StateResponse: TypeAlias = Any


class StateVerb(NamedTuple):
    """How a request is handled, and its types. ``act`` is its name in messages of errors,
    ``named`` the type of its topics, ``topic`` and ``row`` those of topics and partitions in the
    response."""

    decide: Decide
    act: str
    named: type[Any]
    response: type[Any]
    topic: type[Any]
    row: type[Any] = messages.StatePartitionResult


STATE_VERBS: Final[Mapping[type[Any], StateVerb]] = MappingProxyType(
    {
        messages.InitializeShareGroupStateRequest: StateVerb(
            ShareStateShard.initialize,
            "initialize share group state",
            messages.InitializeTopic,
            messages.InitializeShareGroupStateResponse,
            messages.TopicResult,
        ),
        messages.ReadShareGroupStateRequest: StateVerb(
            ShareStateShard.read,
            "read share group state",
            messages.ReadTopic,
            messages.ReadShareGroupStateResponse,
            messages.ReadTopicResult,
            messages.StateReadResult,
        ),
        messages.WriteShareGroupStateRequest: StateVerb(
            ShareStateShard.write,
            "write share group state",
            messages.WriteTopic,
            messages.WriteShareGroupStateResponse,
            messages.TopicResult,
        ),
        messages.DeleteShareGroupStateRequest: StateVerb(
            ShareStateShard.delete,
            "delete share group state",
            messages.DeleteTopic,
            messages.DeleteShareGroupStateResponse,
            messages.TopicResult,
        ),
        messages.ReadShareGroupStateSummaryRequest: StateVerb(
            ShareStateShard.summarize,
            "read share group state summary",
            messages.ReadTopic,
            messages.ReadShareGroupStateSummaryResponse,
            messages.SummaryTopicResult,
            messages.SummaryResult,
        ),
    }
)


def refused(request: StateRequest, error: KafkaError) -> StateResponse:
    """Return the response that has ``error`` for each partition."""
    verb = STATE_VERBS[type(request)]
    return verb.response(
        [
            verb.topic(
                topic.topic_id,
                [verb.row(row.partition, error.code, error.message) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def request_of(
    kind: type[Any], group_id: str, rows: Mapping[TopicIdPartition, Any]
) -> StateRequest:
    """Return the request of this kind with a row for each partition."""
    by_topic = grouped((where.topic_id, row) for where, row in rows.items())
    topic = STATE_VERBS[kind].named
    return kind(group_id, [topic(topic_id, of_topic) for topic_id, of_topic in by_topic.items()])


def rows_of(response: StateResponse) -> dict[TopicIdPartition, Any]:
    """Return the rows of a response by their partitions."""
    return {
        TopicIdPartition(topic.topic_id, row.partition): row
        for topic in response.results
        for row in topic.partitions
    }
