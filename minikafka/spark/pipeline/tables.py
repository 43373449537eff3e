"""The tables of a pipeline in Spark's catalog: how they are created and refilled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from minikafka.spark.pipeline.graph import MaterializedView, PersistedView, StreamingTable

_DEFAULT_FORMAT: Final = "spark.sql.sources.default"


class Tables:
    """The tables in the catalog of one classic session."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def use(self, catalog: str | None, database: str | None) -> None:
        """Make a catalog and a database the current ones, in which names without a database are
        looked up. Create the database if it does not exist. None keeps the current one."""
        if catalog is not None:
            self._session.catalog.setCurrentCatalog(catalog)
        if database is not None:
            self._session.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
            self._session.catalog.setCurrentDatabase(database)

    def full_name(self, name: str) -> list[str]:
        """Return the parts of a full name: catalog, database, table."""
        catalog = self._session.catalog
        parts = name.split(".")
        current = [catalog.currentCatalog(), catalog.currentDatabase()]
        return current[: max(0, 3 - len(parts))] + parts

    def format_of(self, table: StreamingTable | MaterializedView) -> str:
        return table.format or str(self._session.conf.get(_DEFAULT_FORMAT))

    def create_if_missing(self, table: StreamingTable | MaterializedView, frame: DataFrame) -> None:
        """Create a table unless it exists. Its columns are those declared, else those of
        ``frame``."""
        statement = create_statement(
            table, self.format_of(table), self._declared_columns(table, frame)
        )
        self._session.sql(statement)

    def refill(self, view: MaterializedView, frame: DataFrame) -> None:
        """Replace the rows of a materialized view with the current rows of ``frame``.

        Create the view if it does not exist; drop it and create it again if its columns changed."""
        name = quoted(view.name)
        if self._session.catalog.tableExists(view.name):
            existing = self._session.table(view.name).schema
            if _columns_of(existing, []) != _columns_of(frame.schema, view.partition_cols or []):
                self._session.sql(f"DROP TABLE {name}")
        self.create_if_missing(view, frame)
        columns = self._session.table(view.name).columns
        frame.select(*[f"`{column}`" for column in columns]).write.insertInto(
            view.name, overwrite=True
        )

    def create_view(self, view: PersistedView) -> None:
        """Create a view in the catalog, in place of one of this name."""
        comment = f" COMMENT {_string_literal(view.comment)}" if view.comment else ""
        self._session.sql(f"CREATE OR REPLACE VIEW {quoted(view.name)}{comment} AS {view.text}")

    def forget_files(self, name: str) -> None:
        """Drop the cached list of a table's files, so that the next query lists them again."""
        self._session.catalog.refreshTable(name)

    @contextmanager
    def settings(self, values: Mapping[str, str]) -> Iterator[None]:
        """Set values in the session within the block. A query started in the block keeps them."""
        conf = self._session.conf
        previous = {key: conf.get(key, None) for key in values}
        for key, value in values.items():
            conf.set(key, value)
        try:
            yield
        finally:
            for key, value in previous.items():
                if value is None:
                    conf.unset(key)
                else:
                    conf.set(key, value)

    def _declared_columns(self, table: StreamingTable | MaterializedView, frame: DataFrame) -> str:
        if isinstance(table.schema, str):
            return table.schema
        schema = table.schema if isinstance(table.schema, StructType) else frame.schema
        return str(
            self._session._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()).toDDL()
        )


def _columns_of(schema: StructType, partition_columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names and types of columns, those of partitions last: Spark stores them so."""
    rows = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    return [row for row in rows if row[0] not in partition_columns] + [
        row for row in rows if row[0] in partition_columns
    ]


def create_statement(
    table: StreamingTable | MaterializedView, file_format: str, columns: str
) -> str:
    """Return the CREATE TABLE statement of a table.

    ``file_format`` is its format, ``columns`` their definitions in SQL."""
    parts = [f"CREATE TABLE IF NOT EXISTS {quoted(table.name)} ({columns}) USING {file_format}"]
    if table.partition_cols:
        parts.append(f"PARTITIONED BY ({', '.join(f'`{c}`' for c in table.partition_cols)})")
    if table.cluster_by:
        parts.append(f"CLUSTER BY ({', '.join(f'`{c}`' for c in table.cluster_by)})")
    if table.comment:
        parts.append(f"COMMENT {_string_literal(table.comment)}")
    if table.table_properties:
        pairs = (
            f"{_string_literal(k)} = {_string_literal(v)}"
            for k, v in table.table_properties.items()
        )
        parts.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    return " ".join(parts)


def quoted(name: str) -> str:
    """Quote a name of one or more parts for SQL."""
    return ".".join(f"`{part.strip('`')}`" for part in name.split("."))


def _string_literal(value: str) -> str:
    """Quote a string for SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
