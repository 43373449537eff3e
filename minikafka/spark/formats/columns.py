"""Columns that are decoded and encoded by the schemas of a registry, a batch at a time.

A batch is split by the ids of its schemas (``wire``), and each group of values goes to the format
of its schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from minikafka.kernel.extras import imports_of
from minikafka.spark.formats.registry_access import (
    AVRO,
    JSON,
    PROTOBUF,
    SCHEMA_NOT_FOUND,
    FormatError,
    RegisteredSchema,
    RegistryAccess,
    schema_by_id,
)
from minikafka.spark.formats.wire import NO_HEADER, Decoded, Payloads, joined, split_column

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FORMATS: Final = 100


class ColumnFormat(Protocol):
    """Decodes and encodes the values of one schema."""

    @property
    def arrow_type(self) -> pa.DataType: ...

    def decode(self, payloads: Payloads, writer: RegisteredSchema) -> Decoded: ...

    def encode(self, column: pa.Array) -> pa.Array: ...


Fixed: TypeAlias = tuple[RegisteredSchema, str | None]  # the schema of the plan, and its message


@dataclass(frozen=True)
class Decoding:
    """What a plan fixes for a column that is decoded. ``reason`` is the name of the field that
    says why a value was not decoded; without it such a value is an error."""

    access: RegistryAccess
    subject: str
    schema: RegisteredSchema
    message: str | None = None
    reason: str | None = None

    def arrow_type(self) -> pa.DataType:
        """Raises FormatError."""
        import pyarrow as pa

        kind = format_of(self.schema, self.message).arrow_type
        if self.reason is None:
            return kind
        if self.reason in [each.name for each in kind]:
            raise FormatError(f"the schema has a field {self.reason}: name the reason otherwise")
        return pa.struct([*kind, pa.field(self.reason, pa.string())])

    def decode(self, column: pa.Array) -> pa.Array:
        """Decode a column of binary values. Raises FormatError: without ``reason`` for a value that
        cannot be decoded, else if the registry cannot be used."""
        fixed = format_of(self.schema, self.message)
        groups, headless = split_column(column)
        parts = [(each.rows, self._decoded(fixed, each)) for each in groups]
        values, reasons = joined(len(column), parts, fixed.arrow_type)
        reasons |= dict.fromkeys(headless.tolist(), NO_HEADER)
        if self.reason is None:
            if reasons:
                first = reasons[min(reasons)]
                raise FormatError(f"{self.subject}: {len(reasons)} values, the first: {first}")
            return values
        return _with_reasons(column, values, reasons, self.arrow_type())

    def _decoded(self, fixed: ColumnFormat, payloads: Payloads) -> Decoded:
        import pyarrow as pa

        count = len(payloads.rows)
        try:
            writer = schema_by_id(self.access, payloads.schema_id)
        except FormatError as error:
            if error.code != SCHEMA_NOT_FOUND:
                raise  # the next attempt of the task may find the registry
            reason = f"schema {payloads.schema_id} is not registered"
        else:
            if writer.kind == self.schema.kind:
                try:
                    return fixed.decode(payloads, writer)
                except FormatError as error:
                    reason = str(error)
            else:
                reason = f"schema {writer.id} is of type {writer.kind}, not {self.schema.kind}"
        return Decoded(pa.nulls(count, fixed.arrow_type), dict.fromkeys(range(count), reason))


@dataclass(frozen=True)
class Encoding:
    """What a plan fixes for a column that is encoded."""

    schema: RegisteredSchema
    message: str | None = None

    def encode(self, column: pa.Array) -> pa.Array:
        """Encode a column of structs. Raises FormatError for a row that does not fit."""
        import pyarrow as pa

        fixed = format_of(self.schema, self.message)
        if not pa.types.is_struct(column.type):
            raise FormatError(f"only structs can be encoded, not {column.type}")
        known = {each.name for each in fixed.arrow_type}
        if unknown := [each.name for each in column.type if each.name not in known]:
            raise FormatError(f"schema {self.schema.id} has no field {', '.join(unknown)}")
        return fixed.encode(column)


@lru_cache(maxsize=MOST_FORMATS)
def format_of(schema: RegisteredSchema, message: str | None) -> ColumnFormat:
    """Return the format of a schema; the second time without parsing it. Raises FormatError."""
    with imports_of("registry", f"a schema of type {schema.kind}"):
        if schema.kind == AVRO:
            from minikafka.spark.formats.avro_format import AvroFormat

            return AvroFormat(schema, message)
        if schema.kind == JSON:
            from minikafka.spark.formats.json_format import JsonFormat

            return JsonFormat(schema, message)
        if schema.kind == PROTOBUF:
            from minikafka.spark.formats.protobuf_format import ProtobufFormat

            return ProtobufFormat(schema, message)
    raise FormatError(f"schemas of type {schema.kind} are not known")


def _with_reasons(
    column: pa.Array, values: pa.Array, reasons: dict[int, str], kind: pa.DataType
) -> pa.Array:
    """Add the reasons as the last field. Only a null in ``column`` is a null here."""
    import pyarrow as pa

    texts = np.full(len(column), None, object)
    for row, reason in reasons.items():
        texts[row] = reason
    fields = [*values.flatten(), pa.array(texts, pa.string())]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null())
