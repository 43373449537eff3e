"""Responses that refuse rows of a request, and their union with the response to the others.

Kafka's ``AbstractRequest.getErrorResponse``: the error is in every innermost row, or at the top
level where the response has no rows.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any, Final

from minikafka.core.faults.messages import ListShape, shape_of
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.layout import top_fields
from minikafka.protocol.messages.registry import RESPONSES

ERROR: Final = "error_code"


def refusal(api_key: ApiKey, version: int, request: Any, error: ErrorCode) -> Any:
    """Return the response that refuses all of the request; None if the response has no place for
    the error, so that the connection is closed."""
    response: Any = RESPONSES[api_key]()
    shape = shape_of(api_key, version)
    if shape is not None and getattr(request, shape.lists[0].requested):
        _fill(response, request, shape.lists, shape.error, error)
        return response
    if ERROR not in top_fields(type(response), version):
        return None
    setattr(response, ERROR, error)
    return response


def _fill(
    answer: Any, element: Any, lists: Sequence[ListShape], error_field: str, error: ErrorCode
) -> None:
    """Give a response, or a row of it, the refused rows of the request, or of a row of it."""
    first, *inner = lists
    row_class = _element_class(type(answer), first.responded)
    rows: list[Any] = []
    for each in getattr(element, first.requested) or ():
        row = row_class()
        if first.name is None:
            setattr(row, first.responded_name, each)
        else:
            setattr(row, first.responded_name, getattr(each, first.name))
            if first.topic_id:
                row.topic_id = each.topic_id
        if inner:
            _fill(row, each, inner, error_field, error)
        else:
            setattr(row, error_field, error)
        rows.append(row)
    setattr(answer, first.responded, rows)


def _element_class(owner: type, field: str) -> Any:
    """Return the class of the elements of a list."""
    hint = typing.get_type_hints(owner)[field]
    pending = [hint]
    while pending:
        hint = pending.pop()
        if dataclasses.is_dataclass(hint):
            return hint
        pending.extend(typing.get_args(hint))
    raise TypeError(f"{owner.__name__}.{field} has no elements of a class")


def joined(api_key: ApiKey, version: int, response: Any, refused: Any) -> Any:
    """Put the rows of ``refused`` into the response to the rest of the request, in place of rows of
    the same names, and return it. A response that has no rows stays as it is."""
    shape = shape_of(api_key, version)
    if shape is not None and isinstance(response, type(refused)):
        _merge(response, refused, shape.lists)
    return response


def _merge(answer: Any, refused: Any, lists: Sequence[ListShape]) -> None:
    first, *inner = lists
    present = {_key(row, first): row for row in getattr(answer, first.responded) or ()}
    for row in getattr(refused, first.responded):
        key = _key(row, first)
        if inner and key in present:
            _merge(present[key], row, inner)
        else:
            present[key] = row
    setattr(answer, first.responded, list(present.values()))


def _key(row: Any, shape: ListShape) -> Any:
    if shape.topic_id and row.topic_id != ZERO_UUID:
        return row.topic_id
    return getattr(row, shape.responded_name)
