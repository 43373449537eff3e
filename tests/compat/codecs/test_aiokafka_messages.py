"""aiokafka's hand-written schemas write the same bytes as ours, the lowest versions included."""

import importlib
from dataclasses import is_dataclass
from typing import Any

import pytest
from aiokafka.protocol.api import RequestStruct, Response
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.codec import decode, encode
from minikafka.protocol.layout import layout_of
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest
from minikafka.protocol.schema import Message
from tests.support.protocol.messages import ALL_VERSIONS, messages, title

for name in ("admin", "coordination", "fetch", "metadata", "offset", "produce", "transaction"):
    importlib.import_module(f"aiokafka.protocol.{name}")

# It has the first two with an epoch of 64 bits, but does not send them; it nests the count and the
# assignments of the others in a separate struct, which is no difference in bytes.
NOT_KAFKAS = {
    (ListOffsetsRequest, 4),
    (ListOffsetsRequest, 5),
    (CreatePartitionsRequest, 0),
    (CreatePartitionsRequest, 1),
}


def known(base: type) -> dict[tuple[int, int], Any]:
    subclasses: list[Any] = base.__subclasses__()
    return {(cls.API_KEY, cls.API_VERSION): cls for cls in subclasses}


REQUEST_SCHEMAS, RESPONSE_SCHEMAS = known(RequestStruct), known(Response)


def aiokafka_class(cls: type[Message], version: int) -> Any:
    assert cls.SPEC.api_key is not None
    schemas = REQUEST_SCHEMAS if cls.SPEC.is_request else RESPONSE_SCHEMAS
    return schemas.get((int(cls.SPEC.api_key), version))


SHARED = [
    (cls, version)
    for cls, version in ALL_VERSIONS
    if aiokafka_class(cls, version) is not None
    and version < cls.SPEC.first_flexible
    and (cls, version) not in NOT_KAFKAS
]


def as_tuple(value: Any, version: int, *, top: bool = False) -> Any:
    """Its structs are tuples in field order, and of a single field just that field."""
    if is_dataclass(value):
        plain = layout_of(type(value), version, flexible=False).plain
        found = tuple(as_tuple(getattr(value, f.name), version) for f in plain)
        return found[0] if len(found) == 1 and not top else found
    if isinstance(value, list):
        return [as_tuple(v, version) for v in value]
    return value


def test_it_knows_the_low_versions() -> None:
    lows = {cls.__name__ for cls, version in SHARED if version == 0}
    assert {"ProduceRequest", "ProduceResponse", "FetchRequest", "FetchResponse"} <= lows
    assert len(SHARED) > 80


@pytest.mark.mission("R-10")
@pytest.mark.parametrize(("cls", "version"), SHARED, ids=title)
@settings(max_examples=8, deadline=None, database=None)
@given(data=st.data())
def test_same_bytes_as_aiokafka(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version))
    theirs = aiokafka_class(cls, version)
    written = theirs(*as_tuple(message, version, top=True)).encode()
    assert encode(message, version) == written
    assert decode(cls, version, written) == message
