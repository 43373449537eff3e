"""A decoder of what clients push: gauges and sums of an OTLP ``MetricsData``, in protobuf.

It reads the few fields that Kafka's clients write, in their order on the wire, and skips all
others, histograms among them. The messages, with the numbers of the fields that are read:

======================  ==========================================================================
``MetricsData``         1 ``ResourceMetrics``
``ResourceMetrics``     1 ``Resource`` (1 ``KeyValue``), 2 ``ScopeMetrics`` (2 ``Metric``)
``Metric``              1 name, 5 ``Gauge`` (1 data points), 7 ``Sum`` (1 data points,
                        2 temporality, 3 is monotonic)
``NumberDataPoint``     4 a double, 6 a signed integer of 64 bits, 7 ``KeyValue``
``KeyValue``            1 key, 2 ``AnyValue`` (1 text, 2 bool, 3 integer, 4 double)
======================  ==========================================================================

The base package has no protobuf library, and such a library has no bound in work: a push of a
megabyte may hold half a million empty messages. Here a push is read up to ``MAX_FIELDS`` and
``MAX_POINTS``, in steps of some fields.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum, auto
from itertools import islice
from struct import unpack
from typing import Final, NamedTuple, TypeAlias

from minikafka.kernel.errors import ErrorCode, KafkaError

MAX_FIELDS: Final = 20_000
MAX_POINTS: Final = 500
MAX_POINT_BYTES: Final = 2_048  # of one value with its attributes, and of one attribute
MAX_ATTRIBUTES: Final = 20
MAX_TEXT: Final = 200  # characters

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) are deprecated
_DELTA: Final = 1  # a temporality; 2 is cumulative

Labels: TypeAlias = tuple[tuple[str, str], ...]
_Value: TypeAlias = int | memoryview


class PointKind(Enum):
    GAUGE = auto()  # a value that may fall
    DELTA = auto()  # what was added to a counter since the last push
    TOTAL = auto()  # the value of a counter


class Point(NamedTuple):
    """A value of a metric, with the attributes of the client (its resource) and its own."""

    name: str
    labels: Labels
    kind: PointKind
    value: float


class Points(NamedTuple):
    """The values of a push. It is not ``whole`` if it has more of them, or more fields, than are
    read."""

    points: list[Point]
    whole: bool


def decode_metrics(data: bytes) -> Generator[None, None, Points]:
    """Return the points of a ``MetricsData``; yields after some fields. Raises KafkaError:
    INVALID_RECORD if it is malformed."""
    points: list[Point] = []
    try:
        for point in _Decoder().points(memoryview(data)):
            if point is not None:
                if len(points) == MAX_POINTS:
                    return Points(points, whole=False)
                points.append(point)
            yield
    except _Exhausted:
        return Points(points, whole=False)
    except _Malformed as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Malformed metrics: {error}") from None
    return Points(points, whole=True)


class _Malformed(ValueError):
    pass


class _Exhausted(Exception):
    """More than ``MAX_FIELDS`` have been read."""


class _Decoder:
    """Decodes one ``MetricsData``, and counts the fields that it reads."""

    def __init__(self) -> None:
        self._fields_left = MAX_FIELDS

    def points(self, data: memoryview) -> Iterator[Point | None]:
        """Yield each point, and None after a part that has none, so that the caller may pause."""
        for number, resource_metrics in self._messages(data):
            yield None
            labels: Labels = ()
            scopes = []  # the resource may be behind them
            for part, content in self._messages(resource_metrics) if number == 1 else ():
                yield None
                if part == 1:
                    labels = self._labels(content)
                elif part == 2:
                    scopes.append(content)
            for scope in scopes:
                for part, metric in self._messages(scope):
                    yield None
                    if part == 2:
                        yield from self._metric(metric, labels)

    def _metric(self, data: memoryview, labels: Labels) -> Iterator[Point | None]:
        name, parts = "", []
        for number, content in self._messages(data):
            yield None
            if number == 1:
                name = _text(content)
            elif number in (5, 7):
                parts.append((number, content))
        for number, content in parts:
            kind = PointKind.GAUGE
            points, temporality, monotonic = [], 0, 0
            for part, value in self._fields(content):
                yield None
                if part == 1 and isinstance(value, memoryview):
                    points.append(value)
                elif part == 2 and isinstance(value, int):
                    temporality = value
                elif part == 3 and isinstance(value, int):
                    monotonic = value
            if number == 7 and temporality == _DELTA:
                kind = PointKind.DELTA
            elif number == 7 and monotonic:
                kind = PointKind.TOTAL
            for point in points:
                yield self._point(_bounded(point), name, labels, kind)

    def _point(self, data: memoryview, name: str, labels: Labels, kind: PointKind) -> Point:
        value, own = 0.0, list[tuple[str, str]]()
        for number, content in self._fields(data):
            if number == 4:
                value = _double(content)
            elif number == 6:
                value = _integer(content)
            elif number == 7 and isinstance(content, memoryview) and len(own) < MAX_ATTRIBUTES:
                own.append(self._label(content))
        return Point(name, (*labels, *own), kind, value)

    def _labels(self, data: memoryview) -> Labels:
        """Return the first attributes of a resource."""
        found = (self._label(_bounded(each)) for part, each in self._messages(data) if part == 1)
        return tuple(islice(found, MAX_ATTRIBUTES))

    def _label(self, data: memoryview) -> tuple[str, str]:
        key = value = ""
        for number, content in self._messages(data):
            if number == 1:
                key = _text(content)
            elif number == 2:
                value = self._any_value(content)
        return key, value

    def _any_value(self, data: memoryview) -> str:
        text = ""
        for number, value in self._fields(data):
            if number == 1 and isinstance(value, memoryview):
                text = _text(value)
            elif number == 2:
                text = "true" if value else "false"
            elif number == 3 and isinstance(value, int):
                text = str(value - (1 << 64) if value >> 63 else value)
            elif number == 4:
                text = repr(_double(value))
        return text

    def _messages(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Yield the number and the content of each field that is a message or a text."""
        for number, value in self._fields(data):
            if isinstance(value, memoryview):
                yield number, value

    def _fields(self, data: memoryview) -> Iterator[tuple[int, _Value]]:
        """Yield the number of each field, with a number if it is a varint, or else its bytes."""
        position, end = 0, len(data)
        while position < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise _Exhausted
            tag, position = _varint(data, position)
            wire_type = tag & 7
            if wire_type == _VARINT:
                value, position = _varint(data, position)
                yield tag >> 3, value
                continue
            if wire_type == _BYTES:
                size, position = _varint(data, position)
            elif wire_type in (_FIXED64, _FIXED32):
                size = 8 if wire_type == _FIXED64 else 4
            else:
                raise _Malformed(f"wire type {wire_type}")
            if size > end - position:
                raise _Malformed("a field is longer than the rest")
            yield tag >> 3, data[position : position + size]
            position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned number of at most 64 bits, and the position behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise _Malformed("a number is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
    raise _Malformed("a number has more than 64 bits")


def _bounded(data: memoryview) -> memoryview:
    if len(data) > MAX_POINT_BYTES:
        raise _Malformed(f"a value or an attribute of more than {MAX_POINT_BYTES} bytes")
    return data


def _double(value: _Value) -> float:
    if isinstance(value, int) or len(value) != 8:
        raise _Malformed("a double has eight bytes")
    (number,) = unpack("<d", value)
    return float(number)


def _integer(value: _Value) -> int:
    if isinstance(value, int) or len(value) != 8:
        raise _Malformed("a fixed number has eight bytes")
    return int.from_bytes(value, "little", signed=True)


def _text(data: memoryview) -> str:
    return str(data[: 4 * MAX_TEXT], "utf-8", "replace")[:MAX_TEXT]
