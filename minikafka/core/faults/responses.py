"""Responses that refuse rows of a request, and their union with the response to the others.

They are those of Kafka's ``AbstractRequest.getErrorResponse``, but an error is set where the
handler of the API would set it: in the innermost rows, or at the top level where the response has
no rows. Groups in OffsetFetch and reassignments have an error above the rows for all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from typing import Any, Final

from minikafka.core.faults.requests import Leaf, TopicName, Tree, leaves, places
from minikafka.core.faults.rules import DONE_ALL_THE_SAME, Row
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.layout import Array, Struct, fields_of, top_fields
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.protocol.places import Level, Places

# Errors of a whole Fetch: they concern its session, and have no place in a row.
_OF_SESSIONS: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
_DONE_THOUGH_LATE: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ELECT_LEADERS,
    }
)
_ERRORS: Final = ("error_code", "partition_error_code")
# In a partition of ShareFetch: that its acknowledgements, which come with the request, have failed.
_ACKNOWLEDGE_ERROR: Final = "acknowledge_error_code"
NULL_NAME_SINCE: Final = 12  # of Metadata: the version in which a topic's name may be null
# In a record batch: its size, its magic, its CRC, and the CRC of the formats before magic 2.
_SIZE_AT, _MAGIC_AT, _CRC_AT, _OLD_CRC_AT = 8, 16, 17, 12
_BEFORE_SIZE: Final = 12  # bytes of a batch that its size does not count


def is_done_all_the_same(api_key: ApiKey, error: ErrorCode) -> bool:
    """Return whether a request with this error in its response has been carried out."""
    return error in DONE_ALL_THE_SAME and api_key in _DONE_THOUGH_LATE


def refusal(
    api_key: ApiKey, version: int, request: Any, error: ErrorCode, is_whole: bool = False
) -> Any:
    """Return the response that refuses all of the request; None if the response has no place for
    the error, so that the connection is closed. ``is_whole`` is true if the request is not a part
    of one whose other rows are served: its error may be set once, above the rows."""
    response: Any = RESPONSES[api_key]()
    if api_key is ApiKey.FETCH and error in _OF_SESSIONS:
        response.error_code = error
        return response
    found = places(api_key, version)
    named = list(leaves(api_key, version, request))
    if is_whole and found.error_level is not None and error not in found.row_errors:
        paths = {tuple(map(id, leaf.path[: found.error_level])): leaf for leaf in named}
        named = [Leaf(leaf.row, leaf.path[: found.error_level]) for leaf in paths.values()]
    placed = [_insert(api_key, version, response, leaf, found, error) for leaf in named]
    return response if any(placed) else None


def served_of_refused(api_key: ApiKey, request: Any, refused: Any) -> Any:
    """Return what is served of a request all of whose rows are refused; None for nothing.

    A client whose ShareAcknowledge has errors in rows alone raises the epoch of its share session.
    So the broker is given the request without rows, and raises it, too."""
    if api_key is not ApiKey.SHARE_ACKNOWLEDGE or refused is None or refused.error_code:
        return None
    rest = copy(request)
    rest.topics = []
    return rest


def joined(api_key: ApiKey, version: int, response: Any, refused: Any) -> Any:
    """Put the rows of ``refused`` into the response to the rest of the request, in place of rows of
    the same names, and return it. A response that has no rows stays as it is. Neither response is
    changed."""
    if not isinstance(response, type(refused)):
        return response
    return _joined(response, refused, places(api_key, version).response)


def metadata_with_error(
    version: int,
    request: Any,
    response: Any,
    chosen: Collection[Row],
    error: ErrorCode,
    topic_name: TopicName,
) -> Any:
    """Return a response to Metadata with the error in its chosen topics. A request for all topics
    is one row, which names nothing: then all of them have the error."""
    levels = places(ApiKey.METADATA, version).response
    named = Tree(ApiKey.METADATA, version, request, levels, topic_name)
    result = copy(response)
    result.topics = []
    for topic in response.topics:
        entry = topic
        if Row() in chosen or named.top_row(topic) in chosen:
            entry = copy(topic)
            entry.error_code, entry.partitions = error, []
        result.topics.append(entry)
    return result


def with_wrong_crc(records: Any) -> bytes:
    """Return a copy of record batches in which the CRC of each is wrong."""
    damaged = bytearray(records)
    start = 0
    while start + _CRC_AT < len(damaged):
        crc = start + (_CRC_AT if damaged[start + _MAGIC_AT] >= 2 else _OLD_CRC_AT)
        damaged[crc] ^= 0xFF
        size = int.from_bytes(damaged[start + _SIZE_AT : start + _BEFORE_SIZE], "big")
        start += _BEFORE_SIZE + size
    return bytes(damaged)


def _insert(
    api_key: ApiKey, version: int, response: Any, leaf: Leaf, found: Places, error: ErrorCode
) -> bool:
    """Add the elements of a leaf to the response, and set the error at the last of them. False if
    the response has no place for it."""
    node, skipped = response, len(found.request) - len(found.response)
    for depth, element in enumerate(leaf.path[skipped:]):
        requested = found.request[depth + skipped]
        node = _entry(node, found.response[depth], requested, element)
    if api_key is ApiKey.METADATA and node is not response:
        node.name = node.name or (None if version >= NULL_NAME_SINCE else "")
    present = top_fields(type(response), version) if node is response else _field_names(type(node))
    for name, value in found.values.items():
        if name in present:
            setattr(node, name, value)
    if _ACKNOWLEDGE_ERROR in present and leaf.path[-1].acknowledgement_batches:
        setattr(node, _ACKNOWLEDGE_ERROR, error)
    for name in _ERRORS:
        if name in present:
            setattr(node, name, error)
            return True
    return node is not response  # a topic without partitions has no error


def _entry(node: Any, level: Level, requested: Level, element: Any) -> Any:
    """Return the entry of a response for an element of the request; add it if need be."""
    entries = getattr(node, level.lists)
    if level.key is None:
        entry = _element_class(type(node), level.lists)()
        entries.append(entry)
        return entry
    identity = requested.identity(element)
    for entry in reversed(entries):
        if level.identity(entry) == identity:
            return entry
    entry = _element_class(type(node), level.lists)()
    setattr(entry, level.key, requested.name(element))
    for attribute in level.also:
        setattr(entry, attribute, getattr(element, attribute))
    entries.append(entry)
    return entry


def _field_names(cls: Any) -> Collection[str]:
    return {field.name for field in fields_of(cls)}


def _element_class(owner: Any, attribute: str) -> Any:
    """Return the class of the elements of a list."""
    for field in fields_of(owner):
        if field.name == attribute:
            assert isinstance(field.type, Array)
            assert isinstance(field.type.element, Struct)
            return field.type.element.cls
    raise AssertionError(f"{owner.__name__} has no list {attribute}")


def _joined(into: Any, refused: Any, levels: tuple[Level, ...]) -> Any:
    result = copy(into)
    if not levels:
        return result
    level, inner = levels[0], levels[1:]
    entries = {level.identity(entry): entry for entry in getattr(into, level.lists) or ()}
    for entry in getattr(refused, level.lists) or ():
        identity = level.identity(entry)
        own = entries.get(identity)
        is_split = bool(inner) and own is not None and bool(getattr(entry, inner[0].lists))
        entries[identity] = _joined(own, entry, inner) if is_split else entry
    setattr(result, level.lists, list(entries.values()))
    return result
