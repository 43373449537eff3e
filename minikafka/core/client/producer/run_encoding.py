"""Encoding of many keys and values at once: loops of C, no step of the interpreter for a record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise, repeat
from operator import add
from typing import Final

from minikafka.core.client.producer.producer_batch import RECORD_OVERHEAD_BYTES, EncodedRun
from minikafka.protocol.buffer import write_uvarint, write_varlong
from minikafka.protocol.records.record import encode_record

# Offset deltas below these numbers take one, two and three bytes.
_OFFSET_BOUNDS: Final = (0, 1 << 6, 1 << 13, 1 << 20, 1 << 27)
# The 64 lowest deltas, zigzag-coded: alone, and as the first byte of a longer number.
_SHORT: Final = [bytes([2 * delta]) for delta in range(64)]
_LOW: Final = [bytes([0x80 | 2 * delta]) for delta in range(64)]
_NULL: Final = b"\x01"
_NO_HEADERS: Final = b"\0"


def encode_runs(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    timestamp_ms: int,
    most_bytes: int,
) -> Iterator[EncodedRun]:
    """Encode records in order, in runs of at most ``most_bytes`` or one record."""
    for begin, end in _cut(record_sizes(values, keys), most_bytes):
        some = values[begin:end]
        of_keys = None if keys is None else keys[begin:end]
        yield EncodedRun(_encode(some, of_keys), end - begin, timestamp_ms, timestamp_ms)


def record_sizes(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> list[int]:
    """Return an upper bound of each record's encoded size, in bytes."""
    sizes = map(add, _lengths(values), repeat(RECORD_OVERHEAD_BYTES))
    return list(sizes if keys is None else map(add, sizes, _lengths(keys)))


def _lengths(contents: Sequence[bytes | None]) -> Iterable[int]:
    if None in contents:
        return [len(content or b"") for content in contents]
    return map(len, contents)  # type: ignore[arg-type]


def _cut(sizes: Sequence[int], most_bytes: int) -> Iterator[tuple[int, int]]:
    ends = list(accumulate(sizes))
    begin = begun_bytes = 0
    while begin < len(ends):
        end = max(begin + 1, bisect_right(ends, begun_bytes + most_bytes))
        yield begin, end
        begin, begun_bytes = end, ends[end - 1]


def _encode(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> bytes:
    if None in values or (keys is not None and None in keys):
        of_keys = keys or repeat(None)
        rows = enumerate(zip(values, of_keys, strict=False))
        return b"".join(encode_record(at, 0, key, value, ()) for at, (value, key) in rows)
    pieces: list[bytes] = []
    deltas = _offset_deltas(len(values))
    for width, (begin, end) in enumerate(pairwise(_OFFSET_BOUNDS), 1):
        if begin >= len(values):
            break
        some, offsets = values[begin:end], deltas[begin:end]
        sizes = list(map(len, some))  # type: ignore[arg-type]
        if keys is None:
            heads = map(_Heads(width).__getitem__, zip(repeat(-1), sizes, strict=False))
            rest = map(_ValueSizes(_NULL).__getitem__, sizes)
            parts = zip(heads, offsets, rest, some, repeat(_NO_HEADERS), strict=False)
        else:
            of_keys = keys[begin:end]
            key_sizes = list(map(len, of_keys))  # type: ignore[arg-type]
            heads = map(_Heads(width).__getitem__, zip(key_sizes, sizes, strict=True))
            before = map(_ValueSizes().__getitem__, key_sizes)
            rest = map(_ValueSizes().__getitem__, sizes)
            parts = zip(
                heads, offsets, before, of_keys, rest, some, repeat(_NO_HEADERS), strict=False
            )
        pieces.append(b"".join(chain.from_iterable(parts)))  # type: ignore[arg-type]
    return b"".join(pieces)


def _offset_deltas(count: int) -> list[bytes]:
    """Encode the numbers from 0 to ``count`` and a few more, zigzag-coded."""
    highs = map(write_uvarint, range(1, (count + 63) >> 6))
    return _SHORT + [low + high for high in highs for low in _LOW]


class _Heads(dict[tuple[int, int], bytes]):
    """The first bytes of records by the sizes of key and value: length, attributes 0, timestamp
    delta 0. ``width`` is the size of the offset delta that follows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def __missing__(self, sizes: tuple[int, int]) -> bytes:
        contents = sum(len(write_varlong(size)) + max(0, size) for size in sizes)
        head = self[sizes] = write_varlong(3 + self._width + contents) + b"\0\0"
        return head


class _ValueSizes(dict[int, bytes]):
    """Encoded sizes, after bytes that are the same for all records."""

    def __init__(self, before: bytes = b"") -> None:
        super().__init__()
        self._before = before

    def __missing__(self, size: int) -> bytes:
        encoded = self[size] = self._before + write_varlong(size)
        return encoded
