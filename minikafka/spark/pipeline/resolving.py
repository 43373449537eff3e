"""Resolution of a pipeline's flows in a classic session: each flow becomes a DataFrame.

A flow reads tables and views by name, and they must exist when its function is called. So the flows
are tried in rounds: each round calls the functions of the flows that are left, and creates the
views and tables of those that succeed, until all have succeeded or a round makes no progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import (
    Flow,
    Graph,
    MaterializedView,
    PersistedView,
    Sink,
    StreamingTable,
    TemporaryView,
)
from minikafka.spark.pipeline.tables import Tables

_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
T = TypeVar("T")
E = TypeVar("E")


@dataclass
class Resolved:
    """The resolved flows, each after those whose outputs it reads, and their DataFrames by name."""

    flows: list[Flow] = field(default_factory=list)
    frames: dict[str, DataFrame] = field(default_factory=dict)


class Missing(NamedTuple):
    """A table or view that a flow reads and that does not exist, or not yet."""

    flow: str
    name: str
    message: str


class Resolver:
    """Resolves the flows of one graph. ``folder`` is the project's folder."""

    def __init__(self, session: Any, graph: Graph, tables: Tables, folder: Path) -> None:
        self._session = session
        self._graph = graph
        self._tables = tables
        self._folder = folder

    def resolve(self) -> Resolved:
        """Resolve all flows: create the tables and views, and fill the materialized views.

        Raises PipelineError if a flow fails or reads what does not exist."""
        resolved = Resolved()

        def attempt(flow: Flow) -> Missing | None:
            try:
                frame = self.frame_of(flow)
                stale_view = self._stale_view_read_by(flow, frame, resolved)
                if stale_view is not None:
                    return stale_view
                self._create_output(flow, frame)
            except PySparkException as error:
                return missing_in(error, flow)
            resolved.frames[flow.name] = frame
            return None

        resolved.flows, missing = resolve_in_rounds(self._graph.flows, attempt)
        raise_if_missing(missing, self._graph)
        return resolved

    def frame_of(self, flow: Flow) -> DataFrame:
        """Call the flow's function and return its DataFrame.

        Raises PipelineError if the function fails, or if it returns a stream where the target
        needs a batch query, or the reverse. Raises PySparkException if Spark rejects the query."""
        frame = call_function(flow, self._folder, self._tables)
        output = self._graph.output_of(flow)
        if isinstance(output, MaterializedView | PersistedView) and frame.isStreaming:
            kind = "materialized" if isinstance(output, MaterializedView) else "persisted"
            raise PipelineError(
                f"flow {flow.name}: {flow.target} is a {kind} view and needs a batch query, "
                "and this is a stream"
            )
        if isinstance(output, StreamingTable | Sink) and not frame.isStreaming:
            raise PipelineError(
                f"flow {flow.name}: {flow.target} is filled by streams, and this is a batch query"
            )
        return frame

    def _stale_view_read_by(
        self, flow: Flow, frame: DataFrame, resolved: Resolved
    ) -> Missing | None:
        """Return a materialized view that ``frame`` reads and that this run has yet to fill.

        Such a view exists from an earlier run, and this run will replace its files."""
        for view in self._graph.flows_to(MaterializedView):
            is_stale = view.name not in resolved.frames and view.target != flow.target
            if is_stale and reads(frame, self._tables.full_name(view.target)):
                return Missing(flow.name, view.target, f"flow {flow.name}: reads {view.target}")
        return None

    def _create_output(self, flow: Flow, frame: DataFrame) -> None:
        """Create the view or table that other flows may read. A sink needs nothing."""
        output = self._graph.output_of(flow)
        if isinstance(output, PersistedView):
            self._tables.create_view(output)
        elif isinstance(output, TemporaryView):
            frame.createOrReplaceTempView(output.name)
        elif isinstance(output, StreamingTable):
            self._tables.create_if_missing(output, frame)
        elif isinstance(output, MaterializedView):
            self._tables.refill(output, frame)

    def refresh(self, flows: list[Flow]) -> list[str]:
        """Refill the materialized views among ``flows``, in their order, from current data.

        The functions are called again, because a DataFrame keeps the list of files that it had when
        it was made. Returns the names of the views. Raises PipelineError if a flow fails."""
        refilled = []
        for table in self._graph.flows_to(StreamingTable):
            self._tables.forget_files(table.target)
        for flow in flows:
            output = self._graph.output_of(flow)
            try:
                if isinstance(output, MaterializedView | TemporaryView):
                    frame = self.frame_of(flow)
                    if not frame.isStreaming:
                        self._create_output(flow, frame)
                if isinstance(output, MaterializedView):
                    refilled.append(output.name)
            except PySparkException as error:
                raise PipelineError(f"flow {flow.name}: {cause_of(error)}") from error
        return refilled


def resolve_in_rounds(
    items: Iterable[T], attempt: Callable[[T], E | None]
) -> tuple[list[T], list[E]]:
    """Try all items in rounds until each has succeeded or a round makes no progress.

    ``attempt`` returns None if the item succeeded, otherwise what the item is missing. Returns the
    items that succeeded, in that order, and what the others are missing."""
    pending = list(items)
    succeeded: list[T] = []
    while pending:
        results = [(item, attempt(item)) for item in pending]
        succeeded += [item for item, missing in results if missing is None]
        failed = [(item, missing) for item, missing in results if missing is not None]
        if len(failed) == len(pending):
            return succeeded, [missing for _, missing in failed]
        pending = [item for item, _ in failed]
    return succeeded, []


def call_function(flow: Flow, folder: Path, tables: Tables) -> DataFrame:
    """Call the flow's function in the working folder that spark-pipelines uses, the project's.

    Raises PipelineError if the function fails or returns no DataFrame, PySparkException if Spark
    rejects the query."""
    with chdir(folder), tables.settings(flow.spark_conf):
        try:
            frame = flow.func()
        except (PySparkException, PipelineError):
            raise
        except Exception as error:  # user code may raise anything: report it to the user
            message = f"{type(error).__name__}: {cause_of(error)}"
            raise PipelineError(f"flow {flow.name}: {message}") from error
    if not isinstance(frame, DataFrame):
        raise PipelineError(f"flow {flow.name}: its function returned no DataFrame")
    return frame


def missing_in(error: PySparkException, flow: Flow) -> Missing:
    """Return the table or view that Spark did not find. Raises PipelineError for another error."""
    message = f"flow {flow.name}: {cause_of(error)}"
    if not isinstance(error, AnalysisException) or error.getCondition() != _NOT_FOUND:
        raise PipelineError(message) from error
    parameters = error.getMessageParameters() or {}
    return Missing(flow.name, parameters.get("relationName", "").replace("`", ""), message)


def raise_if_missing(missing: Sequence[Missing], graph: Graph) -> None:
    """Raise PipelineError if anything is missing.

    The error names something that the pipeline does not define, if there is such a thing: that is
    the cause, and flows that read the outputs of failed flows are its consequence."""
    undefined = [each for each in missing if each.name not in graph.outputs]
    if undefined:
        raise PipelineError(undefined[0].message)
    if missing:
        circle = ", ".join(f"{each.flow} reads {each.name}" for each in missing)
        raise PipelineError(f"these flows wait for each other: {circle}")


def reads(frame: DataFrame, full_name: list[str]) -> bool:
    """Return whether a DataFrame of a classic session reads the table with this full name."""
    plan: str = frame._jdf.queryExecution().analyzed().toString()
    return f"SubqueryAlias {'.'.join(full_name)}\n" in plan
