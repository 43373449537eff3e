"""Avro columns: decoded all at once where the records are plain, else by fastavro."""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from minikafka.spark.formats.avro_types import AvroFile
from minikafka.spark.formats.flat_avro import FlatDecoder, FlatEncoder
from minikafka.spark.formats.registry_access import FormatError, RegisteredSchema
from minikafka.spark.formats.wire import (
    Decoded,
    NotAtOnce,
    Payloads,
    array_of,
    encoded,
    header,
)

if TYPE_CHECKING:
    import pyarrow as pa

# What fastavro raises for bytes that are not those of the schema, or values that are not.
_UNFIT: Final = (
    EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error,
    AttributeError,
)  # fmt: skip


class AvroFormat:
    """Reads into, and writes with, the schema that the plan has fixed."""

    def __init__(self, schema: RegisteredSchema, message: str | None = None) -> None:
        """Raises FormatError."""
        if message is not None:
            raise FormatError("only Protobuf schemas have messages to choose from")
        self._schema = schema
        self._file = AvroFile(schema)
        self.arrow_type: pa.DataType = self._file.arrow_type()
        self._flat_encoder: FlatEncoder | None = None
        with suppress(NotAtOnce):
            self._flat_encoder = FlatEncoder(self._file.record(), self.arrow_type, schema.id)
        self._writers: dict[int, tuple[AvroFile, FlatDecoder | None]] = {}

    def decode(self, payloads: Payloads, writer: RegisteredSchema) -> Decoded:
        """Raises FormatError for a writer whose schema cannot be used."""
        if writer.id not in self._writers:
            self._writers[writer.id] = self._writer(writer)
        file, flat = self._writers[writer.id]
        if flat is not None:
            try:
                return Decoded(flat.decode(payloads), {})
            except NotAtOnce:
                pass  # fastavro finds the value that does not fit
        return self._one_by_one(payloads, file)

    def encode(self, column: pa.Array) -> pa.Array:
        """Encode a column of structs. Raises FormatError for a row that does not fit."""
        if self._flat_encoder is not None:
            try:
                return self._flat_encoder.encode(column)
            except NotAtOnce:
                pass  # fastavro finds the row that does not fit, and takes defaults
        return encoded(column, self._encoded)

    def _encoded(self, row: Any) -> bytes:
        import fastavro

        buffer = io.BytesIO()
        buffer.write(header(self._schema.id))
        try:
            fastavro.schemaless_writer(buffer, self._file.parsed, row)
        except _UNFIT as error:
            raise FormatError(f"a row does not fit schema {self._schema.id}: {error}") from None
        return buffer.getvalue()

    def _writer(self, writer: RegisteredSchema) -> tuple[AvroFile, FlatDecoder | None]:
        file = AvroFile(writer)
        try:
            return file, FlatDecoder(file.record(), self._file.record(), self.arrow_type)
        except NotAtOnce:
            return file, None

    def _one_by_one(self, payloads: Payloads, file: AvroFile) -> Decoded:
        import fastavro

        unfit = (*_UNFIT, fastavro.read.SchemaResolutionError)
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        for at, payload in enumerate(payloads.each()):
            buffer = io.BytesIO(payload)
            try:
                rows.append(fastavro.schemaless_reader(buffer, file.parsed, self._file.parsed))
                if buffer.tell() != len(payload):
                    raise ValueError(f"{len(payload) - buffer.tell()} bytes too many")
            except unfit as error:
                del rows[at:]
                rows.append(None)
                reasons[at] = f"not Avro of schema {payloads.schema_id}: {error!r}"
        return array_of(rows, self.arrow_type, reasons)
