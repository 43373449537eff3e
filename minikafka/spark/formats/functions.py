"""The functions of queries: ``from_registry`` decodes a column, ``to_registry`` encodes one.

Both look the schema up when the query is built, so that the types of its columns are fixed in the
plan. A task gets the schema with the function, and takes the schemas of other ids from the registry
when it meets them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from minikafka.spark.formats.columns import Decoding, Encoding, format_of
from minikafka.spark.formats.registry_access import (
    AVRO,
    FormatError,
    RegistryAccess,
    schema_by_id,
    schema_by_version,
    schema_id_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column


def from_registry(
    column: Column | str,
    subject: str,
    registry: RegistryAccess | str,
    *,
    version: int | Literal["latest"] = "latest",
    message: str | None = None,
    mode: Literal["FAILFAST", "PERMISSIVE"] = "FAILFAST",
    reason: str = "_reason",
) -> Column:
    """Decode a binary column into structs of a subject's version.

    Values may have been written with any schema that this version can read. A null stays a null.
    With ``mode`` PERMISSIVE a value that cannot be decoded has nulls in all fields but the
    additional last one, ``reason``; with FAILFAST it is an error of the task. ``message`` is the
    full name of a Protobuf message, by default the first one of the schema. Raises FormatError.
    """
    from pyspark.sql.pandas.types import from_arrow_type

    if mode not in ("FAILFAST", "PERMISSIVE"):
        raise FormatError(f"mode must be FAILFAST or PERMISSIVE, not {mode}")
    access = RegistryAccess(registry) if isinstance(registry, str) else registry
    schema = schema_by_version(access, subject, str(version))
    decoding = Decoding(access, subject, schema, message, reason if mode == "PERMISSIVE" else None)

    def from_registry(values: pa.Array) -> pa.Array:
        return decoding.decode(values)

    kind = from_arrow_type(decoding.arrow_type())
    return _called(from_registry, kind, column)


def to_registry(
    column: Column | str,
    subject: str,
    registry: RegistryAccess | str,
    *,
    version: int | Literal["latest"] = "latest",
    schema: str | None = None,
    schema_type: str = AVRO,
    register: bool = False,
    message: str | None = None,
) -> Column:
    """Encode a column of structs with a subject's version, or with ``schema``.

    ``schema`` is the text of a schema of ``schema_type`` that the subject has, or that is
    registered with ``register``. The structs have fields of the schema, by name; those that are
    missing need a default. A null stays a null. Raises FormatError; the task raises it for a row
    that does not fit.
    """
    access = RegistryAccess(registry) if isinstance(registry, str) else registry
    if schema is None:
        found = schema_by_version(access, subject, str(version))
    else:
        found = schema_by_id(access, schema_id_of(access, subject, schema_type, schema, register))
    format_of(found, message)
    encoding = Encoding(found, message)

    def to_registry(values: pa.Array) -> pa.Array:
        return encoding.encode(values)

    return _called(to_registry, "binary", column)


def _called(function: Any, kind: Any, column: Column | str) -> Column:
    """Return the call of an Arrow function with results of type ``kind``. Spark takes from its
    annotations that it is called with arrays."""
    import pyarrow as pa

    from minikafka.spark.spark_api import arrow_udf

    function.__annotations__ = {"values": pa.Array, "return": pa.Array}
    udf: Any = arrow_udf()(function, kind)
    called: Column = udf(column)
    return called
