"""The wire format of schema registries: a zero byte, the id of the schema in four, the payload.

One call takes the headers of all values of a column apart, without a loop in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from minikafka.client.columnar.varints import Bytes, Ints

if TYPE_CHECKING:
    import pyarrow as pa

HEADER_BYTES: Final = 5
NO_HEADER: Final = "the value does not begin with the id of a schema"


class NotAtOnce(Exception):
    """These values are not decoded or encoded all at once: a library takes them one by one."""


class Payloads(NamedTuple):
    """The payloads of the values of one schema: their rows in the column and their ranges in
    ``data``, in increasing order."""

    schema_id: int
    rows: Ints
    data: Bytes
    starts: Ints
    ends: Ints

    def each(self) -> Iterator[bytes]:
        """Yield each payload."""
        view = memoryview(self.data)  # type: ignore[arg-type]
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield bytes(view[start:end])


def split_column(column: pa.Array) -> tuple[list[Payloads], Ints]:
    """Group the values of a binary column by the ids of their schemas. The second result has the
    rows whose values are too short or begin with another byte. Rows of nulls are in neither."""
    import pyarrow as pa

    column = column.cast(pa.binary())
    _, bounds, buffer = column.buffers()
    offsets = np.frombuffer(bounds, np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
    there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    starts, ends = offsets[there].astype(np.int64), offsets[there + 1].astype(np.int64)
    has_room = ends - starts >= HEADER_BYTES
    good = has_room.copy()
    good[has_room] = data[starts[has_room]] == 0
    rows, starts, ends = there[good], starts[good], ends[good]
    ids = np.zeros(len(rows), np.int64)
    for place in range(1, HEADER_BYTES):
        ids = (ids << 8) | data[starts + place]
    groups = []
    for schema_id in np.unique(ids).tolist():
        of = np.flatnonzero(ids == schema_id)
        groups.append(Payloads(schema_id, rows[of], data, starts[of] + HEADER_BYTES, ends[of]))
    return groups, there[~good]


def header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


class Decoded(NamedTuple):
    """The values of one group as an array, null where ``reasons`` says why, by position in it."""

    values: pa.Array
    reasons: Mapping[int, str]


def joined(
    count: int, parts: list[tuple[Ints, Decoded]], kind: pa.DataType
) -> tuple[pa.Array, dict[int, str]]:
    """Put the decoded groups together in the order of the column's rows."""
    import pyarrow as pa

    order = np.full(count, -1, np.int64)
    reasons: dict[int, str] = {}
    arrays, begun = [], 0
    for rows, decoded in parts:
        order[rows] = np.arange(begun, begun + len(rows))
        begun += len(rows)
        arrays.append(decoded.values)
        reasons |= {int(rows[at]): reason for at, reason in decoded.reasons.items()}
    everything = pa.concat_arrays([*arrays, pa.nulls(0, kind)])
    return everything.take(pa.array(order, mask=order < 0)), reasons


def encoded(column: pa.Array, encode: Callable[[Any], bytes]) -> pa.Array:
    """Encode a column of structs row by row; a null stays a null. ``encode`` gets a dict."""
    import pyarrow as pa

    rows = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if row is None else encode(row) for row in rows], pa.binary())


def array_of(rows: list[Any], kind: pa.DataType, reasons: dict[int, str]) -> Decoded:
    """Make an array of Python's values. Those that do not fit the type become nulls with a
    reason."""
    import pyarrow as pa

    unfit = (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError)
    try:
        return Decoded(pa.array(rows, kind), reasons)
    except unfit:
        for at, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except unfit as error:
                rows[at], reasons[at] = None, str(error)
        return Decoded(pa.array(rows, kind), reasons)
