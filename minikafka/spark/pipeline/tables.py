"""The tables of a pipeline in the catalog: made as declared, materialized views refilled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from minikafka.spark.pipeline.graph import MaterializedView, StreamingTable

_DEFAULT_FORMAT: Final = "spark.sql.sources.default"


class Tables:
    """Of one classic session."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def use(self, catalog: str | None, database: str | None) -> None:
        """Names of one part are meant to be in there. The database is made if it is missing."""
        if catalog is not None:
            self._session.catalog.setCurrentCatalog(catalog)
        if database is not None:
            self._session.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
            self._session.catalog.setCurrentDatabase(database)

    def full_name(self, name: str) -> list[str]:
        """Catalog, database, name."""
        catalog = self._session.catalog
        parts = name.split(".")
        here = [catalog.currentCatalog(), catalog.currentDatabase()]
        return here[: max(0, 3 - len(parts))] + parts

    def format_of(self, table: StreamingTable | MaterializedView) -> str:
        return table.format or str(self._session.conf.get(_DEFAULT_FORMAT))

    def make(self, table: StreamingTable | MaterializedView, frame: DataFrame) -> None:
        """Unless it is there."""
        statement = create_statement(table, self.format_of(table), self._columns(table, frame))
        self._session.sql(statement)

    def refill(self, view: MaterializedView, frame: DataFrame) -> None:
        """With what ``frame`` holds now, in place of what was there. A view whose columns have
        changed is made anew."""
        name = quoted(view.name)
        if self._session.catalog.tableExists(view.name):
            there = self._session.table(view.name).schema
            if _shape(there) != _shape(frame.schema, view.partition_cols or ()):
                self._session.sql(f"DROP TABLE {name}")
        self.make(view, frame)
        columns = self._session.table(view.name).columns
        frame.select(*[f"`{column}`" for column in columns]).write.insertInto(
            view.name, overwrite=True
        )

    def forget_files(self, name: str) -> None:
        """Of a table or a view: the next who reads it looks at what files are there."""
        self._session.catalog.refreshTable(name)

    @contextmanager
    def settings(self, values: Mapping[str, str]) -> Iterator[None]:
        """Set in the session within the block; queries that start there keep them."""
        conf = self._session.conf
        before = {key: conf.get(key, None) for key in values}
        for key, value in values.items():
            conf.set(key, value)
        try:
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    conf.unset(key)
                else:
                    conf.set(key, value)

    def _columns(self, table: StreamingTable | MaterializedView, frame: DataFrame) -> str:
        if isinstance(table.schema, str):
            return table.schema
        schema = table.schema if isinstance(table.schema, StructType) else frame.schema
        return str(
            self._session._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()).toDDL()
        )


def _shape(schema: StructType, last: Any = ()) -> list[tuple[str, str]]:
    """Names and types; the columns ``last`` come at the end, as those of partitions do."""
    rows = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    return [r for r in rows if r[0] not in last] + [r for r in rows if r[0] in last]


def create_statement(table: StreamingTable | MaterializedView, kind: str, columns: str) -> str:
    """In SQL."""
    parts = [f"CREATE TABLE IF NOT EXISTS {quoted(table.name)} ({columns}) USING {kind}"]
    if table.partition_cols:
        parts.append(f"PARTITIONED BY ({', '.join(f'`{c}`' for c in table.partition_cols)})")
    if table.cluster_by:
        parts.append(f"CLUSTER BY ({', '.join(f'`{c}`' for c in table.cluster_by)})")
    if table.comment:
        parts.append(f"COMMENT {_text(table.comment)}")
    if table.table_properties:
        pairs = (f"{_text(k)} = {_text(v)}" for k, v in table.table_properties.items())
        parts.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    return " ".join(parts)


def quoted(name: str) -> str:
    """A name of one or more parts."""
    return ".".join(f"`{part.strip('`')}`" for part in name.split("."))


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
