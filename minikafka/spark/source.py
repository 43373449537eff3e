"""The entry point of the data source ``minikafka``, which Spark loads by the name of its package.

Readers and writers are imported when they are created, because every session with this package
installed imports this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from minikafka.spark.option_parsing import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS = "array<struct<key:string,value:binary>>"


class DefaultSource(DataSource):
    """The data source of ``spark.read.format("minikafka")``, and of ``readStream``, ``write``,
    ``writeStream`` and SQL's ``USING minikafka``.

    Columns, options and the JSON of offsets are those of Spark's Kafka connector. In addition a
    user may pass a schema with some of the columns; then only these are decoded."""

    @classmethod
    def name(cls) -> str:
        return "minikafka"

    def schema(self) -> str:
        from minikafka.spark.options import include_headers

        columns = dict(COLUMNS)
        if include_headers(self.options):
            columns["headers"] = HEADERS
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        from minikafka.spark.options import batch_options
        from minikafka.spark.read.batch_reader import batch_reader

        check_schema(schema)
        return batch_reader(schema, batch_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from minikafka.spark.options import stream_options
        from minikafka.spark.read.stream_reader import RefusedStreamReader, StreamReader
        from minikafka.spark.spark_api import adapted_reader, check_read_limits

        try:
            check_schema(schema)
            options = stream_options(self.options)
            check_read_limits(options)
            return adapted_reader(StreamReader(schema, options))
        except OptionError as error:
            return adapted_reader(RefusedStreamReader(error))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from minikafka.spark.write.write_options import write_options
        from minikafka.spark.write.writers import BatchWriter

        if overwrite:
            raise OptionError("save mode overwrite is not allowed for Kafka: use append")
        return BatchWriter(write_options(self.options, types_of(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from minikafka.spark.gc_tuning import spare_the_collector
        from minikafka.spark.spark_api import adapted_writer
        from minikafka.spark.write.write_options import write_options
        from minikafka.spark.write.writers import StreamWriter

        spare_the_collector()
        options = write_options(self.options, types_of(schema), streaming=True)
        return adapted_writer(StreamWriter(options), schema)


def types_of(schema: Any) -> dict[str, str]:
    """Return the type of each column by name, in Spark's notation, such as ``bigint``."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def check_schema(schema: Any) -> None:
    """Check that a user's schema has no other columns or types than this source.

    Raises OptionError."""
    known = {**COLUMNS, "headers": HEADERS}
    for name, kind in types_of(schema).items():
        if known.get(name) != kind:
            raise OptionError(
                f"column {name} {kind}: a schema for Kafka may hold "
                + ", ".join(f"{column} {type_}" for column, type_ in known.items())
            )
