"""Decodes the keys and values of a topic as a reader wishes, also by schemas and by the names of
internal topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.page.dashboard.records.decoding import (
    AUTO,
    HEX,
    INTERNAL,
    JSON,
    MOST_DECODED,
    NULL,
    SCHEMA,
    TEXT,
    DecodedPart,
    as_text,
    decode_auto,
    hex_dump,
    json_or_absent,
    json_value,
    plain_value,
    text_of,
)
from minikafka.page.dashboard.records.expression import ABSENT, Json
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.internal_topics import (
    OFFSETS_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_STATES,
    JsonObject,
    RecordTypes,
    coordinator_record,
)
from minikafka.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue

_TRANSACTION_RECORDS: Final[RecordTypes] = ((TransactionLogKey, TransactionLogValue),)
_INTERNAL: Final[Mapping[str, RecordTypes]] = {
    "__consumer_offsets": OFFSETS_RECORDS,
    "__share_group_state": SHARE_STATE_RECORDS,
    "__transaction_state": _TRANSACTION_RECORDS,
}
_SCHEMAS: Final = "_schemas"  # JSON
_HEADER_BYTES: Final = 5  # a zero, and the id of a schema as int32


class Schema(Protocol):
    """A schema of a registry. ``read`` raises ValueError."""

    @property
    def read(self) -> Callable[[bytes], Json]: ...

    def facts(self, preferred: str) -> Mapping[str, Any]:
        """Return id, subject, version and type; the subject is ``preferred`` if it has this
        schema."""
        ...


class Schemas(Protocol):
    """The schemas that were loaded from a registry."""

    async def load(self, ids: Iterable[int]) -> None: ...

    def known(self, schema_id: int) -> Schema | str:
        """Return a schema that was loaded, or why there is none."""
        ...


class _Special(NamedTuple):
    """What was decoded by more than the bytes."""

    how: str
    value: Json
    schema: Mapping[str, Any] | None = None


def schema_id(data: bytes | None) -> int | None:
    """Return the id of the schema that serializers of Confluent put in front."""
    if data is None or len(data) < _HEADER_BYTES or data[0] != 0:
        return None
    found = int.from_bytes(data[1:_HEADER_BYTES], "big", signed=True)
    return found if found > 0 else None


class Decoder:
    """The decodings of one query. Call ``prepare`` with records before anything else."""

    def __init__(self, topic: str, key_as: str, value_as: str, schemas: Schemas | None) -> None:
        self._topic = topic
        self._how = {True: key_as, False: value_as}
        self._schemas = schemas

    async def prepare(self, records: Iterable[ConsumerRecord]) -> None:
        """Load the schemas of these records."""
        if self._schemas is None:
            return
        wanted: set[int | None] = set()
        for is_key, how in self._how.items():
            if how in (AUTO, SCHEMA):
                wanted |= {schema_id(record.key if is_key else record.value) for record in records}
        await self._schemas.load(number for number in wanted if number is not None)

    def key(self, record: ConsumerRecord, most_bytes: int) -> DecodedPart:
        return self._decoded(record, True, most_bytes)

    def value(self, record: ConsumerRecord, most_bytes: int) -> DecodedPart:
        return self._decoded(record, False, most_bytes)

    def key_text(self, record: ConsumerRecord) -> str | None:
        return self._decoded(record, True, MOST_DECODED).text

    def value_text(self, record: ConsumerRecord) -> str | None:
        return self._decoded(record, False, MOST_DECODED).text

    def key_json(self, record: ConsumerRecord) -> Json:
        return self._json(record, True)

    def value_json(self, record: ConsumerRecord) -> Json:
        return self._json(record, False)

    def _decoded(self, record: ConsumerRecord, is_key: bool, most_bytes: int) -> DecodedPart:
        data: bytes | None = record.key if is_key else record.value
        how = self._how[is_key]
        if data is None:
            return DecodedPart(NULL, None)
        problem = None
        try:
            special = self._special(record, is_key, data)
            if special is not None:
                text = as_text(special.value)
                cut = len(text) > most_bytes
                return DecodedPart(special.how, text[:most_bytes], special.schema, truncated=cut)
        except ValueError as error:
            problem = str(error)
            if how != AUTO:
                return hex_dump(data, most_bytes, problem)
        match how:
            case "auto":
                return decode_auto(data, most_bytes)._replace(error=problem)
            case "text":
                found = text_of(data, most_bytes)
                text = data[:most_bytes].decode(errors="replace") if found is None else found
                return DecodedPart(TEXT, text, truncated=len(data) > most_bytes)
            case "hex":
                return hex_dump(data, most_bytes)
        try:
            text = as_text(plain_value(data, how))
        except ValueError as error:
            return hex_dump(data, most_bytes, str(error))
        return DecodedPart(how, text[:most_bytes], truncated=len(text) > most_bytes)

    def _json(self, record: ConsumerRecord, is_key: bool) -> Json:
        data: bytes | None = record.key if is_key else record.value
        how = self._how[is_key]
        if data is None:
            return None
        try:
            special = self._special(record, is_key, data)
            if special is not None:
                return special.value
            if how in (AUTO, TEXT, JSON):
                return json_or_absent(data)
            return ABSENT if how == HEX else plain_value(data, how)
        except ValueError:
            return json_or_absent(data) if how == AUTO else ABSENT

    def _special(self, record: ConsumerRecord, is_key: bool, data: bytes) -> _Special | None:
        """Decode by the topic's name or a schema; None if neither is meant. Raises ValueError."""
        how = self._how[is_key]
        if how in (AUTO, INTERNAL) and (self._topic in _INTERNAL or how == INTERNAL):
            return _Special(INTERNAL, self._internal(record, is_key, data))
        if how not in (AUTO, SCHEMA):
            return None
        number = schema_id(data)
        if self._schemas is None or number is None:
            if how == AUTO:
                return None
            raise ValueError(
                "the bytes do not begin with the id of a schema"
                if number is None
                else "there is no registry: start the page with --registry URL"
            )
        schema = self._schemas.known(number)
        if isinstance(schema, str):
            if how == AUTO:
                return None
            raise ValueError(schema)
        if len(data) > MOST_DECODED:
            raise ValueError(f"more than {MOST_DECODED:,} bytes are not decoded by a schema")
        facts = schema.facts(f"{self._topic}-{'key' if is_key else 'value'}")
        return _Special(SCHEMA, schema.read(data[_HEADER_BYTES:]), facts)

    def _internal(self, record: ConsumerRecord, is_key: bool, data: bytes) -> Json:
        if self._topic == _SCHEMAS:
            return json_value(data)
        types = _INTERNAL.get(self._topic)
        if types is None:
            raise ValueError(f"{self._topic} is no internal topic with a known format")
        if record.key is None:
            raise ValueError("the record has no key")
        try:
            key, value = coordinator_record(types, record.key, None if is_key else data)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        if is_key or value is None:
            return key
        return _with_state(value) if types is _TRANSACTION_RECORDS else value


def _with_state(value: JsonObject) -> JsonObject:
    """Name the state of a transaction."""
    status = value["data"].get("transactionStatus")
    if isinstance(status, int) and 0 <= status < len(TRANSACTION_STATES):
        value["data"]["transactionStatus"] = TRANSACTION_STATES[status]
    return value
