"""kio, an independent codec, writes the same bytes as ours for every message that both know."""

import datetime
import io
import typing
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.layout import layout_of
from minikafka.protocol.schema import Message
from tests.support.protocol.messages import ALL_VERSIONS, messages, title

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
CODES = {code.value for code in ErrorCode}
LAST_MS = 250_000_000_000_000  # in the year 9892; Python's datetime ends in 9999


def kio_class(cls: type[Message], version: int) -> type | None:
    assert cls.SPEC.api_key is not None
    name = api_key_map.get(cls.SPEC.api_key)
    if name is None or version not in schema_name_map[name]:
        return None
    load = load_request_schema if cls.SPEC.is_request else load_response_schema
    found: type = load(int(cls.SPEC.api_key), version)
    return found


SHARED = [(cls, version) for cls, version in ALL_VERSIONS if kio_class(cls, version) is not None]


def kio_type(cls: type, field_name: str) -> type:
    """The dataclass behind a field that is an entity or a tuple of them."""
    hint = typing.get_type_hints(cls)[field_name]
    pending = [hint]
    while pending:
        hint = pending.pop()
        if is_dataclass(hint):
            assert isinstance(hint, type)
            return hint
        pending += typing.get_args(hint)
    raise AssertionError(f"{cls.__name__}.{field_name} is no entity")


def scalar(kind: str, value: Any) -> Any:
    """What kio wants for a value of ours, bent to what kio can express."""
    if kind == "error_code":
        return ErrorCode(value) if value in CODES else ErrorCode(value % 100)
    if kind.startswith("timedelta"):
        exact = value if abs(value) < LAST_MS else value % LAST_MS  # kio divides floats
        return datetime.timedelta(milliseconds=exact)
    if kind == "datetime_i64":
        seconds = value % LAST_MS // 1000  # kio reads them by way of a float
        return None if value == -1 else EPOCH + datetime.timedelta(seconds=seconds)
    if isinstance(value, UUID):
        return None if value == ZERO_UUID else value
    return bytes(value) if isinstance(value, memoryview) else value


def to_kio(ours: Any, cls: type, version: int, flexible: bool) -> Any:
    layout = layout_of(type(ours), version, flexible)
    present = {f.name for f in layout.plain + layout.tagged}
    names = [f.name for f in fields(ours) if f.name in present]
    theirs = fields(cls)
    assert len(names) == len(theirs), (names, [f.name for f in theirs])
    values: dict[str, Any] = {}
    for name, field in zip(names, theirs, strict=True):
        assert name.removesuffix("_ms") == field.name
        value = getattr(ours, name)
        if value is None:
            if "tag" not in field.metadata:
                values[field.name] = None
        elif is_dataclass(value):
            values[field.name] = to_kio(value, kio_type(cls, field.name), version, flexible)
        elif isinstance(value, list) and "kafka_type" not in field.metadata:
            inner = kio_type(cls, field.name)
            values[field.name] = tuple(to_kio(v, inner, version, flexible) for v in value)
        elif isinstance(value, list):
            kind = field.metadata["kafka_type"]
            values[field.name] = tuple(scalar(kind, v) for v in value)
        else:
            values[field.name] = scalar(field.metadata["kafka_type"], value)
    return cls(**values)


def test_kio_knows_most_of_our_messages() -> None:
    keys = {cls.SPEC.api_key for cls, _ in SHARED}
    inter_broker = {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
    }
    assert {cls.SPEC.api_key for cls, _ in ALL_VERSIONS} - keys == inter_broker
    assert len(SHARED) > 160


@pytest.mark.mission("R-10")
@pytest.mark.parametrize(("cls", "version"), SHARED, ids=title)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(data=st.data())
def test_same_bytes_as_kio(cls: type[Message], version: int, data: st.DataObject) -> None:
    flexible = version >= cls.SPEC.first_flexible
    theirs = kio_class(cls, version)
    assert theirs is not None
    entity = to_kio(data.draw(messages(cls, version)), theirs, version, flexible)
    buffer = io.BytesIO()
    entity_writer(theirs)(buffer, entity)
    written = buffer.getvalue()

    ours = decode(cls, version, written)
    assert to_kio(ours, theirs, version, flexible) == entity
    assert encode(ours, version) == written
    read: Any
    read, size = entity_reader(theirs)(encode(ours, version), 0)
    assert (read, size) == (entity, len(written))
