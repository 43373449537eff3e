"""Replay: the flows of a pipeline read a range of records as batches and write it to their topics.

A replay writes exactly once under its sink id: if it is run again, it writes only what is
missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minikafka.kernel.config import ConfigError
from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.definitions import load_graph
from minikafka.spark.pipeline.engine import Engine, static_settings
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import Flow, Graph, Sink, StreamingTable, TemporaryView
from minikafka.spark.pipeline.job_progress import tasks_shown
from minikafka.spark.pipeline.replay_plan import ReplayPlan
from minikafka.spark.pipeline.resolving import (
    Missing,
    call_function,
    missing_in,
    raise_if_missing,
    resolve_in_rounds,
)
from minikafka.spark.pipeline.run_log import ShowLine
from minikafka.spark.pipeline.spec import Spec
from minikafka.spark.pipeline.tables import Tables
from minikafka.spark.session import local_session

FORMAT: Final = "minikafka"
# A repeated run must split its rows into the same tasks. Adaptive execution would choose them by
# the sizes of data that it sees.
_SAME_TASKS: Final = {"spark.sql.adaptive.enabled": "false"}


@dataclass(frozen=True)
class ReplayOrder:
    """What to replay: the range of ``plan`` through ``flows``, given by name.

    Without names, all flows that write topics are replayed. ``into`` names a topic to write instead
    of the flow's own topic."""

    sink_id: str
    plan: ReplayPlan
    flows: tuple[str, ...] = ()
    into: str | None = None


def run_replay(spec: Spec, engine: Engine, order: ReplayOrder, show: ShowLine) -> None:
    """Start a session and replay in it.

    Raises JavaError if there is no usable Java, and the errors of ``replay``."""
    settings = {**static_settings(engine, "hive"), **spec.configuration, **_SAME_TASKS}
    session = local_session(spec.name, engine.master, settings)
    try:
        replay(session, spec, order, show)
    finally:
        session.stop()


def replay(session: Any, spec: Spec, order: ReplayOrder, show: ShowLine) -> None:
    """Replay one flow after the other.

    Raises PipelineError if a flow fails or cannot be replayed; ConfigError if the order does not
    fit the pipeline; KafkaError if the brokers cannot be reached; OSError if the plan cannot be
    saved."""
    tables = Tables(session)
    tables.use(spec.catalog, spec.database)
    graph = load_graph(spec, session)
    flows = flows_to_topics(graph, order.flows)
    if order.into is not None and len(flows) > 1:
        raise ConfigError("--into needs exactly one flow: name it with --flow")
    frames = BatchFrames(session, spec, graph, tables, order.plan).frames_of(flows)
    for flow in flows:
        name = f"{order.sink_id}-{flow.name}"
        facts = f"sink.id={name} of_offsets={order.plan.records()}"
        show(f"flow={flow.name} started {facts}")
        with tasks_shown(session, f"flow={flow.name}", show):
            _write(graph, flow, frames[flow.name], name, order.into)
        show(f"flow={flow.name} replayed {facts}")


def flows_to_topics(graph: Graph, names: Sequence[str]) -> list[Flow]:
    """Return the flows that write topics: those named, or all if there are no names.

    Raises PipelineError if there are none, or if a name is not one of them."""
    flows = {
        flow.name: flow
        for flow in graph.flows
        if isinstance(sink := graph.output_of(flow), Sink) and sink.format == FORMAT
    }
    if not flows:
        raise PipelineError("no flow writes a topic: a replay writes only topics")
    for name in names:
        if name not in flows:
            raise PipelineError(f"--flow {name}: flows to topics are {', '.join(sorted(flows))}")
    return [flow for flow in flows.values() if not names or flow.name in names]


def _write(graph: Graph, flow: Flow, frame: DataFrame, sink_id: str, into: str | None) -> None:
    sink = graph.output_of(flow)
    assert isinstance(sink, Sink), sink
    options = {k: v for k, v in sink.options.items() if k.lower() != "delivery"}
    if into is not None:
        options["topic"] = into
    writer = frame.write.format(FORMAT).mode("append").options(**options)
    try:
        writer.option("sink.id", sink_id).save()
    except PySparkException as error:
        raise PipelineError(f"flow {flow.name} failed: {cause_of(error)}") from error


class BatchFrames:
    """The DataFrames of flows that read a range of records as batches in place of streams.

    The views and tables of the pipeline that a flow reads are computed from the range, too, and not
    read from the catalog."""

    def __init__(
        self, session: Any, spec: Spec, graph: Graph, tables: Tables, plan: ReplayPlan
    ) -> None:
        self._session = session
        self._spec = spec
        self._graph = graph
        self._tables = tables
        self._plan = plan
        self._frames: dict[str, DataFrame] = {}

    def frames_of(self, flows: Sequence[Flow]) -> dict[str, DataFrame]:
        """Call the functions of the flows and return their DataFrames by the flow's name.

        Raises PipelineError if a flow fails; ConfigError if the range has no offsets for a source;
        KafkaError if the brokers cannot be reached; OSError if the plan cannot be saved."""
        views = self._graph.flows_to(TemporaryView)
        with streams_read_as_batches(self):
            _, missing = resolve_in_rounds(views, self._create_view)
            raise_if_missing(missing, self._graph)
            try:
                return {flow.name: self._frame(flow) for flow in flows}
            except PySparkException as error:
                raise PipelineError(cause_of(error)) from error

    def table(self, name: str) -> DataFrame:
        """Return the view or table of the pipeline with this name, computed from the range.

        Raises PipelineError if the pipeline does not define it."""
        output = self._graph.outputs.get(name)
        if not isinstance(output, TemporaryView | StreamingTable):
            raise PipelineError(f"a replay cannot read {name}, which this pipeline does not define")
        frames = [self._frame(flow) for flow in self._graph.flows if flow.target == name]
        union = frames[0]
        for frame in frames[1:]:
            union = union.unionByName(frame, allowMissingColumns=True)
        return union

    def load(self, source: str, options: dict[str, str], schema: Any) -> DataFrame:
        """Return the range of the topics that a stream with these options reads.

        Raises PipelineError if the source does not read topics, ConfigError if an option is
        invalid."""
        if source != FORMAT:
            raise PipelineError(f"a replay reads only topics, and this flow reads {source} streams")
        try:
            batch_options = self._plan.options(options)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        reader = self._session.read.format(FORMAT).options(**batch_options)
        frame: DataFrame = (reader if schema is None else reader.schema(schema)).load()
        return frame

    def _frame(self, flow: Flow) -> DataFrame:
        if flow.name not in self._frames:
            self._frames[flow.name] = call_function(flow, self._spec.folder, self._tables)
        return self._frames[flow.name]

    def _create_view(self, flow: Flow) -> Missing | None:
        try:
            self._frame(flow).createOrReplaceTempView(flow.target)
        except PySparkException as error:
            return missing_in(error, flow)
        return None


class _BatchReader:
    """Replaces Spark's DataStreamReader for flows that read batches. It has the same methods."""

    def __init__(self, frames: BatchFrames) -> None:
        self._frames = frames
        self._format = ""
        self._options: dict[str, str] = {}
        self._schema: Any = None

    def format(self, source: str) -> _BatchReader:
        self._format = source
        return self

    def schema(self, schema: Any) -> _BatchReader:
        self._schema = schema
        return self

    def option(self, key: str, value: Any) -> _BatchReader:
        return self.options(**{key: value})

    def options(self, **options: Any) -> _BatchReader:
        for key, value in options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            self._options[key.lower()] = text
        return self

    def load(self, *_: Any, **options: Any) -> DataFrame:
        source = options.pop("format", self._format)
        self.schema(options.pop("schema", self._schema)).options(**options)
        return self._frames.load(source, self._options, self._schema)

    def table(self, name: str) -> DataFrame:
        return self._frames.table(name)


@contextmanager
def streams_read_as_batches(frames: BatchFrames) -> Iterator[None]:
    """Let ``spark.readStream`` of every session read batches within the block."""
    original = SparkSession.readStream
    SparkSession.readStream = property(lambda _: _BatchReader(frames))  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        SparkSession.readStream = original  # type: ignore[method-assign]
