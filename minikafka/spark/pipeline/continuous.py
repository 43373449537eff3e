"""Runs a pipeline without end: each flow is a streaming query of a classic session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.checkpoints import checkpoint_folder
from minikafka.spark.pipeline.definitions import load_graph
from minikafka.spark.pipeline.engine import Engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import Flow, Graph, MaterializedView, Sink, StreamingTable
from minikafka.spark.pipeline.progress import FlowsListener, bootstrap_servers_of
from minikafka.spark.pipeline.resolving import Resolved, Resolver, reads
from minikafka.spark.pipeline.settings import static_settings
from minikafka.spark.pipeline.signals import StopRequest, asked_to_stop
from minikafka.spark.pipeline.spec import Spec
from minikafka.spark.pipeline.tables import Tables
from minikafka.spark.session import local_session
from minikafka.spark.starting import start_query
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 0.2  # between two looks at the queries
TELL_S: Final = 10.0  # for the last lines of progress

Show = Callable[[str], object]


def run_continuously(spec: Spec, engine: Engine, show: Show) -> None:
    """Until SIGTERM or SIGINT, upon which running batches end first; a second signal does not wait
    for them. Raises PipelineError when a flow fails, after the others were stopped; ConfigError,
    JavaError, OSError."""
    for folder in (engine.metastore_dir, engine.state_dir / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    settings = {**static_settings(engine), **spec.configuration}
    session = local_session(spec.name, engine.master, settings)
    try:
        with asked_to_stop() as asked:
            run = ContinuousRun(session, spec, engine, show)
            try:
                run.start()
                run.watch(asked)
            finally:
                run.stop()
    finally:
        _quietly(session.stop)


class ContinuousRun:
    """One life of a pipeline: started once, watched until its end."""

    def __init__(self, session: Any, spec: Spec, engine: Engine, show: Show) -> None:
        self._session = session
        self._spec = spec
        self._engine = engine
        self._show = show
        self._clock = WallClock()
        self._tables = Tables(session)
        self._listener = FlowsListener(spec.name, show)
        self._queries: dict[str, Any] = {}
        self._resolver: Resolver | None = None
        self._refreshed: list[Flow] = []

    def start(self) -> None:
        """Make tables and views, then start a query for each flow to a table or a sink.
        Raises PipelineError, also for a flow whose query fails at once."""
        self._tables.use(self._spec.catalog, self._spec.database)
        graph = load_graph(self._spec, self._session)
        self._resolver = Resolver(self._session, graph, self._tables, self._spec.folder)
        resolved = self._resolver.resolve()
        self._refreshed = self._to_refresh(graph, resolved)
        self._session.streams.addListener(self._listener)
        for flow in resolved.flows:
            if isinstance(graph.output_of(flow), StreamingTable | Sink):
                self._start_query(graph, flow, resolved.frames[flow.name])
        if not self._queries:
            raise PipelineError("no flow is a stream: there is nothing to run continuously")

    def watch(self, asked: StopRequest) -> None:
        """Return when a stop was requested and running batches have ended. Raises PipelineError
        for a flow that ended, or a materialized view that could not be refreshed."""
        refresh_at_ms = self._next_refresh_ms()
        try:
            while not asked.wait(LOOK_S):
                self._check(self._queries)
                if self._clock.monotonic_ms() >= refresh_at_ms:
                    self._refresh()
                    refresh_at_ms = self._next_refresh_ms()
            self._show("stopping: running batches end first")
            self._let_batches_end(asked)
        except Py4JError as error:
            if not asked.count:
                raise PipelineError(f"Spark has gone away: {cause_of(error)}") from error

    def stop(self) -> None:
        """Stop the queries of all flows, running batches too, after a failed start as well."""
        for query in self._queries.values():
            _quietly(query.stop)
        self._listener.wait(TELL_S)
        _quietly(lambda: self._session.streams.removeListener(self._listener))

    def _to_refresh(self, graph: Graph, resolved: Resolved) -> list[Flow]:
        """Not the views that a stream joins: it goes on reading the files that were there when it
        started, so they must stay."""
        streams = [frame for frame in resolved.frames.values() if frame.isStreaming]
        kept = {
            flow.name
            for flow in graph.flows_to(MaterializedView)
            if any(reads(frame, self._tables.full_name(flow.target)) for frame in streams)
        }
        flows = [flow for flow in resolved.flows if flow.name not in kept]
        any_view = any(isinstance(graph.output_of(flow), MaterializedView) for flow in flows)
        return flows if any_view else []

    def _refresh(self) -> None:
        assert self._resolver is not None, "not started"
        begun_ms = self._clock.monotonic_ms()
        views = self._resolver.refresh(self._refreshed)
        took_ms = round(self._clock.monotonic_ms() - begun_ms)
        self._show(f"views={','.join(views)} refreshed ms={took_ms}")

    def _next_refresh_ms(self) -> float:
        if not self._refreshed:
            return float("inf")
        return self._clock.monotonic_ms() + self._engine.refresh_interval_ms

    def _start_query(self, graph: Graph, flow: Flow, frame: DataFrame) -> None:
        output = graph.output_of(flow)
        is_table = isinstance(output, StreamingTable)
        target = self._tables.full_name(output.name) if is_table else [output.name]
        writer = (
            frame.writeStream.queryName(flow.name)
            .outputMode("append")
            .trigger(processingTime=f"{self._engine.trigger_interval_ms} milliseconds")
            .option("checkpointLocation", self._checkpoint(target, flow.name))
        )
        self._listener.expect(flow.name, bootstrap_servers_of(frame))
        start: Callable[[], StreamingQuery]
        try:
            if isinstance(output, StreamingTable):
                if output.partition_cols:
                    writer = writer.partitionBy(*output.partition_cols)
                writer = writer.format(self._tables.format_of(output))
                start = partial(writer.toTable, output.name)
            else:
                assert isinstance(output, Sink), output
                start = writer.format(output.format).options(**output.options).start
            with self._tables.settings(flow.spark_conf):
                self._queries[flow.name] = start_query(start, self._show, flow.name)
        except PySparkException as error:
            raise PipelineError(f"flow {flow.name} failed: {cause_of(error)}") from error

    def _checkpoint(self, target: list[str], flow: str) -> str:
        """The newest folder of the flow; 0 if there is none."""
        base = checkpoint_folder(self._spec.storage, target, flow.rpartition(".")[2])
        path = self._session._jvm.org.apache.hadoop.fs.Path(base)
        files = path.getFileSystem(self._session._jsc.hadoopConfiguration())
        names = (
            [each.getPath().getName() for each in files.listStatus(path)]
            if files.exists(path)
            else []
        )
        return f"{base}/{max((int(name) for name in names if name.isdecimal()), default=0)}"

    def _check(self, names: Iterable[str]) -> None:
        """Raises PipelineError for a flow that has ended: none does by itself."""
        for name in names:
            query = self._queries[name]
            if not query.isActive:
                failure = query.exception()
                why = "its query has ended" if failure is None else cause_of(failure)
                raise PipelineError(f"flow {name} failed: {why}")

    def _let_batches_end(self, asked: StopRequest) -> None:
        """Those that run now: each query is stopped as soon as it is idle, or at its next batch.
        Raises PipelineError for a flow that fails in the end."""
        deadline_ms = self._clock.monotonic_ms() + self._engine.shutdown_timeout_ms
        running = {name: _batch_of(query) for name, query in self._queries.items()}
        while running and asked.count < 2 and self._clock.monotonic_ms() < deadline_ms:
            self._check(running)
            for name, batch in list(running.items()):
                query = self._queries[name]
                if not query.status["isTriggerActive"] or _batch_of(query) != batch:
                    query.stop()
                    del running[name]
            threading.Event().wait(0.02)


def _batch_of(query: Any) -> int:
    """The last batch whose end was told."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _quietly(stop: Callable[[], object]) -> None:
    """What is stopped may have gone already, and the JVM with it."""
    try:
        stop()
    except (Py4JError, PySparkException, OSError):
        return
