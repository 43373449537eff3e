"""Loading of a pipeline's definition files, Python and SQL, into a graph for a classic session.

The files are the ones that ``spark-pipelines`` loads over Spark Connect, unmodified.

They register into a ``Graph`` in place of the registry of ``spark-pipelines``. That is the one
internal interface of PySpark that is used here.
"""

from __future__ import annotations

import importlib.util
import traceback
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame

from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import (
    Flow,
    Graph,
    GraphElements,
    MaterializedView,
    PersistedView,
    StreamingTable,
    TemporaryView,
)
from minikafka.spark.pipeline.spec import Spec


def load_graph(spec: Spec, session: Any) -> Graph:
    """Import the Python files and parse the SQL files of a pipeline.

    Raises PipelineError, with the file and the line, for what a file raises or defines wrongly;
    ConfigError if a file is neither Python nor SQL."""
    elements = GraphElements(partial(register_sql_file, session))
    with chdir(spec.folder), graph_element_registration_context(elements):
        for file in spec.definition_files():
            try:
                if file.suffix == ".py":
                    _import(file, session)
                else:
                    elements.register_sql(file.read_text(encoding="utf-8"), file)
            except PipelineError as error:
                raise PipelineError(f"{file.name}: {error}") from error
            except Exception as error:  # user code may raise anything: report it to the user
                raise PipelineError(f"{file.name}{_line(error, file)}: {_text(error)}") from error
    return elements.graph()


def _import(file: Path, session: Any) -> None:
    module_spec = importlib.util.spec_from_file_location(file.stem, file)
    assert module_spec is not None, file
    assert module_spec.loader is not None, file
    module = importlib.util.module_from_spec(module_spec)
    module.__dict__["spark"] = session  # spark-pipelines defines this name, too
    module_spec.loader.exec_module(module)


def _line(error: BaseException, file: Path) -> str:
    """Return `` line 12``, or nothing if no line of the file is known to have raised the error."""
    if isinstance(error, SyntaxError):
        return f" line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f" line {lines[-1]}" if lines else ""


def _text(error: BaseException) -> str:
    if isinstance(error, PySparkException):
        return cause_of(error)
    return f"{type(error).__name__}: {cause_of(error)}"


def register_sql_file(session: Any, text: str, file: Path, elements: GraphElements) -> None:
    """Parse a SQL file with Spark's own parser and register what its statements define.

    ``session`` is a classic session, whose JVM has the parser. Raises PipelineError for a statement
    that continuous runs do not support."""
    context = session._jvm.org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext
    queries = context.splitSqlFileIntoQueries(session._jsparkSession, text, str(file))
    sql_file = _SqlFile(session, file, elements)
    for number in range(queries.size()):
        sql_file.register(queries.apply(number).plan())


class _SqlFile:
    """A SQL file whose statements are registered in order.

    The flows that a statement defines get the settings of all SET statements before it."""

    def __init__(self, session: Any, file: Path, elements: GraphElements) -> None:
        self._session = session
        self._location = SourceCodeLocation(str(file), None)
        self._elements = elements
        self._settings: dict[str, str] = {}

    def register(self, plan: Any) -> None:
        """Register what a statement, given as its logical plan, defines.

        Raises PipelineError for a statement that continuous runs do not support."""
        kind = plan.getClass().getSimpleName()
        if kind == "CreateStreamingTableAsSelect":
            self._register_filled_table(plan, StreamingTable)
        elif kind == "CreateMaterializedViewAsSelect":
            self._register_filled_table(plan, MaterializedView)
        elif kind == "CreateStreamingTable":
            self._register_table(plan, StreamingTable)
        elif kind == "CreateViewCommand":
            name = plan.name().table()
            self._elements.register_output(
                TemporaryView(name=name, comment=None, source_code_location=self._location)
            )
            self._register_flow(name, name, plan.plan())
        elif kind == "CreateView":
            name, text = _name(plan.child()), _optional(plan.originalText())
            self._elements.register_output(
                PersistedView(name, _optional(plan.comment()), self._location, text)
            )
            self._register_flow(name, name, plan.query())
        elif kind == "CreateFlowCommand":
            insert = plan.flowOperation()
            if insert.getClass().getSimpleName() != "InsertIntoStatement":
                raise PipelineError(
                    "SQL flows of Auto CDC need a triggered run (leave out --continuous) and "
                    "a table with row-level operations, such as Iceberg's"
                )
            self._register_flow(_name(plan.name()), _name(insert.table()), insert.query())
        elif kind == "SetCommand":
            pair = plan.kv()
            if pair.isDefined() and pair.get()._2().isDefined():
                self._settings[pair.get()._1()] = pair.get()._2().get()
        else:
            raise PipelineError(f"{kind}: this statement needs a triggered run")

    def _register_filled_table(
        self, plan: Any, kind: type[StreamingTable | MaterializedView]
    ) -> None:
        """Register a table and the flow that its AS SELECT defines."""
        self._register_table(plan, kind)
        name = _name(plan.name())
        self._register_flow(name, name, plan.query())

    def _register_table(self, plan: Any, kind: type[StreamingTable | MaterializedView]) -> None:
        details = plan.tableSpec()
        self._elements.register_output(
            kind(
                name=_name(plan.name()),
                comment=_optional(details.comment()),
                source_code_location=self._location,
                table_properties=_dict(details.properties()),
                partition_cols=[_column(each) for each in _items(plan.partitioning())],
                cluster_by=None,
                schema=None,
                format=_optional(details.provider()),
            )
        )

    def _register_flow(self, name: str, target: str, query: Any) -> None:
        session = self._session

        def frame() -> DataFrame:
            dataset = session._jvm.org.apache.spark.sql.classic.Dataset
            return DataFrame(dataset.ofRows(session._jsparkSession, query.clone()), session)

        self._elements.register_flow(
            Flow(
                name=name,
                target=target,
                spark_conf=dict(self._settings),
                source_code_location=self._location,
                func=frame,
            )
        )


def _name(identifier: Any) -> str:
    """Return the name in an unresolved identifier or an unresolved relation."""
    is_relation = identifier.getClass().getSimpleName() == "UnresolvedRelation"
    parts = identifier.multipartIdentifier() if is_relation else identifier.nameParts()
    return ".".join(_items(parts))


def _column(transform: Any) -> str:
    """Return the column that a table is partitioned by.

    Raises PipelineError if it is partitioned by an expression."""
    if transform.name() != "identity":
        raise PipelineError(f"partitions by {transform.describe()} need a triggered run")
    return ".".join(transform.references()[0].fieldNames())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _optional(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _dict(pairs: Any) -> dict[str, str]:
    return {pair._1(): pair._2() for pair in _items(pairs.toSeq())}
