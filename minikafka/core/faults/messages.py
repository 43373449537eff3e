"""Where the messages of each API name topics, partitions, groups and transactional ids.

A request names things in lists, at most three deep, and its response has the same lists with an
error in each innermost row. ``SHAPES`` says how the lists and fields are called; ``requests`` and
``responses`` work with any shape. An API without a shape has one error for the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey

# What a list names, and the field of ``Row`` that holds it.
Named: TypeAlias = Literal["topic", "partition", "group", "transactional_id", "coordinator"]


@dataclass(frozen=True, slots=True)
class ListShape:
    """One list: its field in the request and in the response, and the field with the name of an
    element in either. An element without a field is the name itself. ``topic_id`` is true if
    elements may have an id in place of the name."""

    named: Named
    requested: str
    responded: str
    name: str | None
    responded_name: str
    topic_id: bool = False


@dataclass(frozen=True, slots=True)
class MessageShape:
    """The lists of an API from the outermost to the innermost, in versions from ``since`` on.
    ``error`` is the field of the error in the innermost row of the response."""

    lists: tuple[ListShape, ...]
    since: int = 0
    error: str = "error_code"


def _topics(
    requested: str = "topics",
    responded: str = "topics",
    name: str | None = "name",
    responded_name: str = "name",
    topic_id: bool = False,
) -> ListShape:
    return ListShape("topic", requested, responded, name, responded_name, topic_id)


def _partitions(
    requested: str = "partitions",
    responded: str = "partitions",
    name: str | None = "partition_index",
    responded_name: str = "partition_index",
) -> ListShape:
    return ListShape("partition", requested, responded, name, responded_name)


_TOPICS, _PARTITIONS = _topics(), _partitions()
_INDEXES = _partitions("partition_indexes", name=None)
_IN_TRANSACTION = (
    _topics("v3_and_below_topics", "results_by_topic_v3_and_below"),
    _partitions("partitions", "results_by_partition", name=None),
)

# The newest shape first.
SHAPES: Final[Mapping[ApiKey, tuple[MessageShape, ...]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (
            MessageShape(
                (
                    _topics("topic_data", "responses"),
                    _partitions("partition_data", "partition_responses", "index", "index"),
                )
            ),
        ),
        ApiKey.FETCH: (
            MessageShape(
                (
                    _topics("topics", "responses", "topic", "topic", topic_id=True),
                    _partitions(name="partition"),
                )
            ),
        ),
        ApiKey.LIST_OFFSETS: (MessageShape((_TOPICS, _PARTITIONS)),),
        ApiKey.METADATA: (MessageShape((_topics(topic_id=True),)),),
        ApiKey.OFFSET_COMMIT: (MessageShape((_TOPICS, _PARTITIONS)),),
        ApiKey.OFFSET_FETCH: (
            MessageShape(
                (
                    ListShape("group", "groups", "groups", "group_id", "group_id"),
                    _TOPICS,
                    _INDEXES,
                ),
                since=8,
            ),
            MessageShape((_TOPICS, _INDEXES)),
        ),
        ApiKey.FIND_COORDINATOR: (
            MessageShape(
                (ListShape("coordinator", "coordinator_keys", "coordinators", None, "key"),),
                since=4,
            ),
        ),
        ApiKey.DESCRIBE_GROUPS: (
            MessageShape((ListShape("group", "groups", "groups", None, "group_id"),)),
        ),
        ApiKey.CREATE_TOPICS: (MessageShape((_TOPICS,)),),
        ApiKey.DELETE_TOPICS: (
            MessageShape((_topics("topics", "responses", topic_id=True),), since=6),
            MessageShape((_topics("topic_names", "responses", name=None),)),
        ),
        ApiKey.DELETE_RECORDS: (MessageShape((_TOPICS, _PARTITIONS)),),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            MessageShape(
                (
                    _topics(name="topic", responded_name="topic"),
                    _partitions(name="partition", responded_name="partition"),
                )
            ),
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: (
            MessageShape(
                (
                    ListShape(
                        "transactional_id",
                        "transactions",
                        "results_by_transaction",
                        "transactional_id",
                        "transactional_id",
                    ),
                    _topics("topics", "topic_results"),
                    _partitions("partitions", "results_by_partition", name=None),
                ),
                since=4,
                error="partition_error_code",
            ),
            MessageShape(_IN_TRANSACTION, error="partition_error_code"),
        ),
        ApiKey.TXN_OFFSET_COMMIT: (MessageShape((_TOPICS, _PARTITIONS)),),
        ApiKey.CREATE_PARTITIONS: (MessageShape((_topics("topics", "results"),)),),
        ApiKey.DELETE_GROUPS: (
            MessageShape((ListShape("group", "groups_names", "results", None, "group_id"),)),
        ),
        ApiKey.OFFSET_DELETE: (MessageShape((_TOPICS, _PARTITIONS)),),
        ApiKey.DESCRIBE_PRODUCERS: (MessageShape((_TOPICS, _INDEXES)),),
        ApiKey.DESCRIBE_TRANSACTIONS: (
            MessageShape(
                (
                    ListShape(
                        "transactional_id",
                        "transactional_ids",
                        "transaction_states",
                        None,
                        "transactional_id",
                    ),
                )
            ),
        ),
    }
)


def shape_of(api_key: ApiKey, version: int) -> MessageShape | None:
    """Return the lists of a message; None if it names nothing in lists."""
    return next((shape for shape in SHAPES.get(api_key, ()) if version >= shape.since), None)
