"""SQL files of a pipeline, parsed by Spark's own parser of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.pipelines.source_code_location import SourceCodeLocation

from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import (
    Flow,
    GraphElements,
    MaterializedView,
    SqlReader,
    StreamingTable,
    TemporaryView,
)


def sql_reader(session: Any) -> SqlReader:
    """For a classic session, whose JVM has the parser."""

    def read(text: str, file: Path, elements: GraphElements) -> None:
        context = session._jvm.org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext
        queries = context.splitSqlFileIntoQueries(session._jsparkSession, text, str(file))
        confs: dict[str, str] = {}
        for number in range(queries.size()):
            _Statement(session, queries.apply(number).plan(), file, confs).register(elements)

    return read


class _Statement:
    """One statement; ``confs`` are those SET before it in its file."""

    def __init__(self, session: Any, plan: Any, file: Path, confs: dict[str, str]) -> None:
        self._session = session
        self._plan = plan
        self._location = SourceCodeLocation(str(file), None)
        self._confs = confs

    def register(self, elements: GraphElements) -> None:
        """Raises PipelineError for what continuous runs do not know."""
        kind = self._plan.getClass().getSimpleName()
        if kind == "CreateStreamingTableAsSelect":
            self._table(elements, StreamingTable)
        elif kind == "CreateMaterializedViewAsSelect":
            self._table(elements, MaterializedView)
        elif kind == "CreateStreamingTable":
            self._output(elements, StreamingTable)
        elif kind == "CreateViewCommand":
            name = self._plan.name().table()
            elements.register_output(
                TemporaryView(name=name, comment=None, source_code_location=self._location)
            )
            self._flow(elements, name, name, self._plan.plan())
        elif kind == "CreateFlowCommand":
            insert = self._plan.flowOperation()
            if insert.getClass().getSimpleName() != "InsertIntoStatement":
                raise PipelineError("SQL flows of Auto CDC need a triggered run")
            target = _name(insert.table())
            self._flow(elements, _name(self._plan.name()), target, insert.query())
        elif kind == "SetCommand":
            pair = self._plan.kv()
            if pair.isDefined() and pair.get()._2().isDefined():
                self._confs[pair.get()._1()] = pair.get()._2().get()
        else:
            raise PipelineError(f"{kind}: this statement needs a triggered run")

    def _table(
        self, elements: GraphElements, kind: type[StreamingTable | MaterializedView]
    ) -> None:
        name = self._output(elements, kind)
        self._flow(elements, name, name, self._plan.query())

    def _output(
        self, elements: GraphElements, kind: type[StreamingTable | MaterializedView]
    ) -> str:
        name = _name(self._plan.name())
        details = self._plan.tableSpec()
        elements.register_output(
            kind(
                name=name,
                comment=_optional(details.comment()),
                source_code_location=self._location,
                table_properties=_dict(details.properties()),
                partition_cols=[_column(each) for each in _items(self._plan.partitioning())],
                cluster_by=None,
                schema=None,
                format=_optional(details.provider()),
            )
        )
        return name

    def _flow(self, elements: GraphElements, name: str, target: str, query: Any) -> None:
        session = self._session

        def frame() -> Any:
            from pyspark.sql import DataFrame

            dataset = session._jvm.org.apache.spark.sql.classic.Dataset
            return DataFrame(dataset.ofRows(session._jsparkSession, query.clone()), session)

        elements.register_flow(
            Flow(
                name=name,
                target=target,
                spark_conf=dict(self._confs),
                source_code_location=self._location,
                func=frame,
            )
        )


def _name(identifier: Any) -> str:
    """Of an unresolved identifier or relation."""
    is_relation = identifier.getClass().getSimpleName() == "UnresolvedRelation"
    parts = identifier.multipartIdentifier() if is_relation else identifier.nameParts()
    return ".".join(_items(parts))


def _column(transform: Any) -> str:
    """Raises PipelineError for what is no plain column."""
    if transform.name() != "identity":
        raise PipelineError(f"partitions by {transform.describe()} need a triggered run")
    return ".".join(transform.references()[0].fieldNames())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _optional(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _dict(pairs: Any) -> dict[str, str]:
    return {pair._1(): pair._2() for pair in _items(pairs.toSeq())}
