"""The schema of a message: a dataclass whose annotations are the wire types of its fields.

A message is ``@dataclass(slots=True)``, derives from ``Message`` and names its API once. Fields are
annotated with the wire types (``Int32``, ``String``, ...), in wire order, each with Kafka's
default::

    @dataclass(slots=True)
    class PingRequest(Message):
        SPEC = request(ApiKey.PING, WHOLE, max_elements=ORDINARY)
        node_id: Int32 = -1
        name: String | None = None                                 # nullable in every version
        hosts: Annotated[list[Host], In("2+", ignorable=True)] = field(default_factory=list)
        leader: Annotated[Leader | None, In("4+", tag=0)] = None   # tagged: None is absent

A field without ``In`` exists wherever its message or struct does. Nested structs are plain
``@dataclass(slots=True)`` classes without ``SPEC``.

``max_elements`` is how many array elements one request may have: a few megabytes can hold millions
of them, and each becomes an object. The compiled decoders count the elements of all arrays of a
request together, and unknown tagged fields with them. They raise DecodeError before they make the
objects of an array that exceeds the limit. The limits are far above what clients send: Kafka
recommends at most 200,000 partitions in a cluster, and the Java clients send one request for each
coordinator, leader or resource.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import NEVER, ApiKey
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.places import Addresses, Places

FOREVER = (1 << 15) - 1

# One request names every partition of a cluster, with several broker ids for each.
WHOLE_CLUSTER: Final = 4_000_000
# One request names the partitions that one broker leads, those of a group or a transaction, or the
# topics that a client uses or an administrator changes.
MANY: Final = 25_000
# One request names some groups, transactions, users or resources, each of which is looked up.
LOOK_UPS: Final = 10_000
# One request has few elements, or elements that cost little more than their decoding.
ORDINARY: Final = 100_000

Encoder: TypeAlias = Callable[[Any, list[Buffer]], None]
Decoder: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]


class VersionRange(NamedTuple):
    first: int
    last: int

    def has(self, version: int) -> bool:
        return self.first <= version <= self.last


def parse_versions(text: str) -> VersionRange:
    """``"3+"``, ``"0-2"`` or ``"1"``."""
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), FOREVER)
    first, _, last = text.partition("-")
    return VersionRange(int(first), int(last or first))


ALWAYS = VersionRange(0, FOREVER)


@dataclass(frozen=True, slots=True)
class In:
    """The versions in which a field exists.

    ``nullable`` are the versions in which it may be None, by default all if its type allows None.
    (A tagged struct without ``nullable`` is never null; None means that it is absent.) If
    ``ignorable`` is True, the value is dropped silently in versions without the field; otherwise
    EncodeError is raised. If ``encoded`` is True, the array may hold objects of a subclass of its
    struct: their attribute ``encoded`` has their bytes, in the version of the message, and none of
    their fields is read.
    ``varies`` marks a number that usually differs between the requests that a client repeats (see
    ``prepared``)."""

    versions: str
    nullable: str | None = None
    tag: int | None = None
    ignorable: bool = False
    encoded: bool = False
    varies: bool = False


@dataclass(slots=True, eq=False)
class MessageSpec:
    """The API, versions and compiled codecs of a message class.

    ``first_flexible_header``: the first version whose header has tagged fields.
    ``max_elements`` and ``places`` are those of requests, ``addresses`` those of responses.
    """

    versions: VersionRange
    first_flexible: int
    first_flexible_header: int = NEVER
    api_key: ApiKey | None = None
    is_request: bool = False
    max_elements: int | None = None
    places: tuple[Places, ...] = ()
    addresses: tuple[Addresses, ...] = ()
    encoders: dict[int, Encoder] = field(default_factory=dict, repr=False)
    decoders: dict[int, Decoder] = field(default_factory=dict, repr=False)


class Message:
    """Base of everything that has versions: requests, responses, records of internal topics."""

    __slots__ = ()
    SPEC: ClassVar[MessageSpec]


def request(
    api_key: ApiKey, places: Places, *later_places: Places, max_elements: int
) -> MessageSpec:
    """The SPEC of a request: ``places`` from version 0 on, the later ones from their ``since``."""
    return MessageSpec(
        VersionRange(api_key.first_version, api_key.max_version),
        api_key.first_flexible,
        api_key.first_flexible,
        api_key,
        is_request=True,
        max_elements=max_elements,
        places=(places, *later_places),
    )


def response(api_key: ApiKey, *addresses: Addresses) -> MessageSpec:
    # Who reads an ApiVersions response does not know yet what the broker speaks (KIP-511).
    flexible_header = NEVER if api_key is ApiKey.API_VERSIONS else api_key.first_flexible
    return MessageSpec(
        VersionRange(api_key.first_version, api_key.max_version),
        api_key.first_flexible,
        flexible_header,
        api_key,
        addresses=addresses,
    )


def data(versions: str, flexible: str | None = None) -> MessageSpec:
    """A versioned value outside the request protocol, such as a record of an internal topic."""
    first_flexible = NEVER if flexible is None else parse_versions(flexible).first
    return MessageSpec(parse_versions(versions), first_flexible)


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
UInt16: TypeAlias = Annotated[int, Fixed("uint16", "H", 2)]
Int32: TypeAlias = Annotated[int, Fixed("int32", "i", 4)]
Int64: TypeAlias = Annotated[int, Fixed("int64", "q", 8)]
Float64: TypeAlias = Annotated[float, Fixed("float64", "d", 8)]
Uuid: TypeAlias = Annotated[UUID, UUID_TYPE]
String: TypeAlias = Annotated[str, STRING]
Bytes: TypeAlias = Annotated[bytes, BYTES]
# Record batches: a memoryview into the frame after decoding, any buffer for encoding.
Records: TypeAlias = Annotated[Buffer, RECORDS]
