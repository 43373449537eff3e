"""Replays a range of records through the functions of a pipeline into its topics, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minikafka.kernel.config import ConfigError
from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.definitions import load_graph
from minikafka.spark.pipeline.engine import Engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import Flow, Graph, Sink, StreamingTable, TemporaryView
from minikafka.spark.pipeline.ordering import resolve_all
from minikafka.spark.pipeline.replay_plan import ReplayPlan
from minikafka.spark.pipeline.resolving import Missing, call, missing_of, refuse
from minikafka.spark.pipeline.settings import static_settings
from minikafka.spark.pipeline.spec import Spec
from minikafka.spark.pipeline.tables import Tables
from minikafka.spark.session import local_session

FORMAT = "minikafka"
# Tasks of a run that is repeated must be those of the first, whatever sizes Spark has seen since.
_PINNED = {"spark.sql.adaptive.enabled": "false"}

Show = Callable[[str], object]


@dataclass(frozen=True)
class ReplayOrder:
    """``flows``: names; none for all that write topics. ``into``: another topic than theirs."""

    sink_id: str
    plan: ReplayPlan
    flows: tuple[str, ...] = ()
    into: str | None = None


def run_replay(spec: Spec, engine: Engine, order: ReplayOrder, show: Show) -> None:
    """In a session of its own. Raises JavaError, and what ``replay`` does."""
    settings = {**static_settings(engine), **spec.configuration, **_PINNED}
    session = local_session(spec.name, engine.master, settings)
    try:
        replay(session, spec, order, show)
    finally:
        session.stop()


def replay(session: Any, spec: Spec, order: ReplayOrder, show: Show) -> None:
    """Flow after flow. Raises PipelineError, ConfigError, KafkaError, OSError."""
    tables = Tables(session)
    tables.use(spec.catalog, spec.database)
    graph = load_graph(spec, session)
    flows = flows_to_topics(graph, order.flows)
    if order.into is not None and len(flows) > 1:
        raise ConfigError("--into is for one flow: name it by --flow")
    frames = BatchFrames(session, spec, graph, tables, order.plan).of(flows)
    for flow in flows:
        name = f"{order.sink_id}-{flow.name}"
        _write(graph, flow, frames[flow.name], name, order.into)
        show(f"flow={flow.name} replayed sink.id={name} of_offsets={order.plan.records()}")


def flows_to_topics(graph: Graph, wanted: Sequence[str]) -> list[Flow]:
    """Raises PipelineError for a name that is none of them."""
    flows = {
        flow.name: flow
        for flow in graph.flows
        if isinstance(sink := graph.output_of(flow), Sink) and sink.format == FORMAT
    }
    if not flows:
        raise PipelineError("no flow writes a topic, and a replay writes topics only")
    for name in wanted:
        if name not in flows:
            raise PipelineError(f"--flow {name}: flows to topics are {', '.join(sorted(flows))}")
    return [flow for flow in flows.values() if not wanted or flow.name in wanted]


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
    """What the functions of flows return when the streams that they read are a range of records.
    Views and tables in between hold what that range makes of them, not what is in the catalog."""

    def __init__(
        self, session: Any, spec: Spec, graph: Graph, tables: Tables, plan: ReplayPlan
    ) -> None:
        self._session = session
        self._spec = spec
        self._graph = graph
        self._tables = tables
        self._plan = plan
        self._made: dict[str, DataFrame] = {}

    def of(self, flows: Sequence[Flow]) -> dict[str, DataFrame]:
        """By the name of the flow. Raises PipelineError, ConfigError, KafkaError, OSError."""
        views = self._graph.flows_to(TemporaryView)
        with streams_read_by(self):
            _, missing = resolve_all(views, self._make_view)
            refuse(missing, self._graph)
            try:
                return {flow.name: self._frame(flow) for flow in flows}
            except PySparkException as error:
                raise PipelineError(cause_of(error)) from error

    def table(self, name: str) -> DataFrame:
        """What a flow reads as a stream by that name."""
        output = self._graph.outputs.get(name)
        if not isinstance(output, TemporaryView | StreamingTable):
            raise PipelineError(f"a replay cannot read {name}, which this pipeline does not make")
        frames = [self._frame(flow) for flow in self._graph.flows if flow.target == name]
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame, allowMissingColumns=True)
        return whole

    def load(self, form: str, options: dict[str, str], schema: Any) -> DataFrame:
        """What a flow reads as a stream from outside."""
        if form != FORMAT:
            raise PipelineError(f"a replay reads topics, and not streams of {form}")
        try:
            mine = self._plan.options(options)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        reader = self._session.read.format(FORMAT).options(**mine)
        frame: DataFrame = (reader if schema is None else reader.schema(schema)).load()
        return frame

    def _frame(self, flow: Flow) -> DataFrame:
        if flow.name not in self._made:
            self._made[flow.name] = call(flow, self._spec.folder, self._tables)
        return self._made[flow.name]

    def _make_view(self, flow: Flow) -> Missing | None:
        try:
            self._frame(flow).createOrReplaceTempView(flow.target)
        except PySparkException as error:
            return missing_of(flow, error)
        return None


class _Reader:
    """Stands in for Spark's DataStreamReader."""

    def __init__(self, frames: BatchFrames) -> None:
        self._frames = frames
        self._format = ""
        self._options: dict[str, str] = {}
        self._schema: Any = None

    def format(self, source: str) -> _Reader:
        self._format = source
        return self

    def schema(self, schema: Any) -> _Reader:
        self._schema = schema
        return self

    def option(self, key: str, value: Any) -> _Reader:
        return self.options(**{key: value})

    def options(self, **options: Any) -> _Reader:
        for key, value in options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            self._options[key.lower()] = text
        return self

    def load(self, *_: Any, **options: Any) -> DataFrame:
        form = options.pop("format", self._format)
        self.schema(options.pop("schema", self._schema)).options(**options)
        return self._frames.load(form, self._options, self._schema)

    def table(self, name: str) -> DataFrame:
        return self._frames.table(name)


@contextmanager
def streams_read_by(frames: BatchFrames) -> Iterator[None]:
    """Within the block ``spark.readStream`` of every session reads batches."""
    before = SparkSession.readStream
    SparkSession.readStream = property(lambda _: _Reader(frames))  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        SparkSession.readStream = before  # type: ignore[method-assign]
