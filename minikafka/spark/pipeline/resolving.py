"""Resolves the flows of a pipeline in a classic session: functions become DataFrames and views."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import (
    Flow,
    Graph,
    MaterializedView,
    Sink,
    StreamingTable,
    TemporaryView,
)
from minikafka.spark.pipeline.ordering import resolve_all
from minikafka.spark.pipeline.tables import Tables

_MISSING: Final = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass
class Resolved:
    """``flows`` in an order in which each comes after what it reads; their frames by name."""

    flows: list[Flow] = field(default_factory=list)
    frames: dict[str, DataFrame] = field(default_factory=dict)


class Resolver:
    """Of one graph. What a flow reads by name must be there before it: a view, or a table."""

    def __init__(self, session: Any, graph: Graph, tables: Tables, folder: Path) -> None:
        self._session = session
        self._graph = graph
        self._tables = tables
        self._folder = folder

    def resolve(self) -> Resolved:
        """All flows; tables are made, materialized views filled. Raises PipelineError."""
        resolved = Resolved()

        def attempt(flow: Flow) -> Missing | None:
            try:
                frame = self.frame_of(flow)
                unfilled = self._unfilled_that(flow, frame, resolved)
                if unfilled is not None:
                    return unfilled
                self._provide(flow, frame)
            except PySparkException as error:
                return missing_of(flow, error)
            resolved.frames[flow.name] = frame
            return None

        resolved.flows, missing = resolve_all(self._graph.flows, attempt)
        refuse(missing, self._graph)
        return resolved

    def frame_of(self, flow: Flow) -> DataFrame:
        """What its function returns, if that is of a kind that fits its target. Raises
        PipelineError, PySparkException."""
        frame = call(flow, self._folder, self._tables)
        output = self._graph.output_of(flow)
        if isinstance(output, MaterializedView) and frame.isStreaming:
            raise PipelineError(f"flow {flow.name}: a materialized view is of a batch query")
        if isinstance(output, StreamingTable | Sink) and not frame.isStreaming:
            raise PipelineError(
                f"flow {flow.name}: {flow.target} is filled by streams, and this is a batch query"
            )
        return frame

    def _unfilled_that(self, flow: Flow, frame: DataFrame, resolved: Resolved) -> Missing | None:
        """A materialized view that ``frame`` reads and that has not been filled in this run: it
        is there from an earlier one, and its files will go."""
        for view in self._graph.flows_to(MaterializedView):
            is_unfilled = view.name not in resolved.frames and view.target != flow.target
            if is_unfilled and reads(frame, self._tables.full_name(view.target)):
                return Missing(flow.name, view.target, f"flow {flow.name}: reads {view.target}")
        return None

    def _provide(self, flow: Flow, frame: DataFrame) -> None:
        """What others may read of it."""
        output = self._graph.output_of(flow)
        if isinstance(output, TemporaryView):
            frame.createOrReplaceTempView(output.name)
        elif isinstance(output, StreamingTable):
            self._tables.make(output, frame)
        elif isinstance(output, MaterializedView):
            self._tables.refill(output, frame)

    def refresh(self, flows: list[Flow]) -> list[str]:
        """Refill the materialized views among ``flows`` (in their order), with what there is now:
        DataFrames of the past have fixed which files they read. Returns the names of the views.
        Raises PipelineError."""
        refilled = []
        for table in self._graph.flows_to(StreamingTable):
            self._tables.forget_files(table.target)
        for flow in flows:
            output = self._graph.output_of(flow)
            try:
                if isinstance(output, MaterializedView | TemporaryView):
                    frame = self.frame_of(flow)
                    if not frame.isStreaming:
                        self._provide(flow, frame)
                if isinstance(output, MaterializedView):
                    refilled.append(output.name)
            except PySparkException as error:
                raise PipelineError(f"flow {flow.name}: {cause_of(error)}") from error
        return refilled


def call(flow: Flow, folder: Path, tables: Tables) -> DataFrame:
    """What the flow's function returns, called where spark-pipelines calls it. Raises
    PipelineError, PySparkException."""
    with chdir(folder), tables.settings(flow.spark_conf):
        try:
            frame = flow.func()
        except (PySparkException, PipelineError):
            raise
        except Exception as error:  # whatever the user's function raises
            said = f"{type(error).__name__}: {cause_of(error)}"
            raise PipelineError(f"flow {flow.name}: {said}") from error
    if not isinstance(frame, DataFrame):
        raise PipelineError(f"flow {flow.name}: its function returned no DataFrame")
    return frame


class Missing(NamedTuple):
    """A table or view that a flow reads and that is not there (yet)."""

    flow: str
    name: str
    said: str


def missing_of(flow: Flow, error: PySparkException) -> Missing:
    """Raises PipelineError for every other error."""
    said = f"flow {flow.name}: {cause_of(error)}"
    if not isinstance(error, AnalysisException) or error.getCondition() != _MISSING:
        raise PipelineError(said) from error
    parameters = error.getMessageParameters() or {}
    return Missing(flow.name, parameters.get("relationName", "").replace("`", ""), said)


def refuse(missing: Sequence[Missing], graph: Graph) -> None:
    """Raises PipelineError if anything is missing: for what nobody makes, rather than for what
    was not made because of it."""
    strangers = [each for each in missing if each.name not in graph.outputs]
    if strangers:
        raise PipelineError(strangers[0].said)
    if missing:
        circle = ", ".join(f"{each.flow} reads {each.name}" for each in missing)
        raise PipelineError(f"these flows wait for each other: {circle}")


def reads(frame: DataFrame, full_name: list[str]) -> bool:
    """Whether a DataFrame of a classic session reads the table of that name."""
    plan: str = frame._jdf.queryExecution().analyzed().toString()
    return f"SubqueryAlias {'.'.join(full_name)}\n" in plan
