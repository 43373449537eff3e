"""The wire types, and the annotations by which message fields name them."""

from __future__ import annotations

from typing import Annotated, TypeAlias
from uuid import UUID

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.buffer import Buffer


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of fixed size. ``code`` is its letter in a ``struct`` format."""

    name: str
    code: str
    size: int


@dataclass(frozen=True, slots=True)
class Sized:
    """A type with its length in front: ``code`` of that length outside flexible versions, and
    an unsigned varint of length + 1 in flexible ones (0 is null)."""

    name: str
    code: str
    prefix_size: int


STRING = Sized("string", "h", 2)
BYTES = Sized("bytes", "i", 4)
RECORDS = Sized("records", "i", 4)
BOOL = Fixed("bool", "?", 1)
UUID_TYPE = Fixed("uuid", "16s", 16)

Bool: TypeAlias = Annotated[bool, BOOL]
Int8: TypeAlias = Annotated[int, Fixed("int8", "b", 1)]
Int16: TypeAlias = Annotated[int, Fixed("int16", "h", 2)]
Int32: TypeAlias = Annotated[int, Fixed("int32", "i", 4)]
Int64: TypeAlias = Annotated[int, Fixed("int64", "q", 8)]
Float64: TypeAlias = Annotated[float, Fixed("float64", "d", 8)]
Uuid: TypeAlias = Annotated[UUID, UUID_TYPE]
String: TypeAlias = Annotated[str, STRING]
Bytes: TypeAlias = Annotated[bytes, BYTES]
# Record batches: a memoryview into the frame after decoding, any buffer for encoding.
Records: TypeAlias = Annotated[Buffer, RECORDS]
