"""Continuous runs of a pipeline: each flow is a streaming query of one classic session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.checkpoints import checkpoint_folder
from minikafka.spark.pipeline.definitions import load_graph
from minikafka.spark.pipeline.engine import Engine, metrics_address, static_settings
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import Flow, Graph, MaterializedView, Sink, StreamingTable
from minikafka.spark.pipeline.progress import FlowsListener, kafka_options_of
from minikafka.spark.pipeline.resolving import Resolved, Resolver, reads
from minikafka.spark.pipeline.run_log import ShowLine
from minikafka.spark.pipeline.signals import StopRequest, stop_on_signals
from minikafka.spark.pipeline.spec import Spec
from minikafka.spark.pipeline.tables import Tables
from minikafka.spark.query_metrics import MetricsServer, QueryMetrics
from minikafka.spark.session import local_session
from minikafka.spark.starting import start_query
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

CHECK_INTERVAL_S: Final = 0.2  # between two checks of the queries
LAST_EVENTS_S: Final = 10.0  # how long to wait for the last lines of progress


def run_continuously(spec: Spec, engine: Engine, show: ShowLine) -> None:
    """Run a pipeline until SIGTERM or SIGINT.

    The first signal lets running batches end, a second one aborts them. A signal during the start
    ends the run when Spark is there, or before the next flow. Raises PipelineError if a flow fails,
    after the others have been stopped; ConfigError if a definition file is neither Python nor SQL;
    JavaError if there is no usable Java; OSError if a file cannot be read or written."""
    for folder in (engine.metastore_dir, engine.state_dir / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    settings = {**static_settings(engine, "hive"), **spec.configuration}
    metrics = QueryMetrics({"pipeline": spec.name})
    with _served(metrics, engine, show), stop_on_signals() as stop:
        try:
            # Not interrupted: a JVM whose start is interrupted would outlive this process.
            session = local_session(spec.name, engine.master, settings)
            with stop_on_signals(request=stop):  # again: SparkContext has replaced that of SIGINT
                _run(session, spec, engine, show, metrics, stop)
        except KeyboardInterrupt:
            return  # from SparkContext's handler, before it was replaced
        except (Py4JError, PySparkException, ConnectionError):
            # A signal to the process group ends the JVM as well, while Python still calls it.
            if not stop.count:
                raise


@contextmanager
def _served(metrics: QueryMetrics, engine: Engine, show: ShowLine) -> Iterator[None]:
    """Serve the metrics within the block if the engine has a listener for them. Raises
    ConfigError, PipelineError for an address that cannot be used."""
    if not engine.metrics_listener:
        yield
        return
    host, port = metrics_address(engine.metrics_listener)
    try:
        server = MetricsServer(metrics.text, port, host)
    except OSError as error:
        raise PipelineError(
            f"metrics.listener {engine.metrics_listener}: {error.strerror or error}; port 0 lets "
            "the system choose a free one"
        ) from None
    with server:
        show(f"metrics={server.url}")
        yield


def _run(
    session: Any,
    spec: Spec,
    engine: Engine,
    show: ShowLine,
    metrics: QueryMetrics,
    stop: StopRequest,
) -> None:
    try:
        if stop.count:
            return
        run = ContinuousRun.load(session, spec, engine, show, metrics)
        try:
            run.start(stop)
            run.watch(stop)
        finally:
            run.stop()
    finally:
        _ignore_if_stopped(session.stop)


class ContinuousRun:
    """The streaming queries of a pipeline. Start them once, watch them, and stop them always."""

    def __init__(
        self,
        session: Any,
        spec: Spec,
        engine: Engine,
        graph: Graph,
        tables: Tables,
        show: ShowLine,
        metrics: QueryMetrics,
    ) -> None:
        self._session = session
        self._graph = graph
        self._spec = spec
        self._engine = engine
        self._show = show
        self._clock = WallClock()
        self._tables = tables
        self._listener = FlowsListener(spec.name, show, metrics)
        self._queries: dict[str, Any] = {}
        self._resolver = Resolver(session, graph, tables, spec.folder)
        self._to_refresh: list[Flow] = []

    @classmethod
    def load(
        cls, session: Any, spec: Spec, engine: Engine, show: ShowLine, metrics: QueryMetrics
    ) -> ContinuousRun:
        """Load the definitions of a pipeline, without starting queries.

        Raises PipelineError if a definition is invalid, ConfigError if a definition file is neither
        Python nor SQL."""
        tables = Tables(session)
        tables.use(spec.catalog, spec.database)
        return cls(session, spec, engine, load_graph(spec, session), tables, show, metrics)

    def start(self, stop: StopRequest) -> None:
        """Create the tables and views, then start a query for each flow to a table or a sink.

        Returns early at a signal. Raises PipelineError if a flow cannot be resolved or if its query
        fails immediately."""
        resolved = self._resolver.resolve()
        self._to_refresh = self._refreshable_flows(resolved)
        self._session.streams.addListener(self._listener)
        for flow in resolved.flows:
            if stop.count:
                return
            if isinstance(self._graph.output_of(flow), StreamingTable | Sink):
                self._start_query(flow, resolved.frames[flow.name], stop)
        if not self._queries:
            raise PipelineError("no flow is a stream: run the pipeline without --continuous")

    def watch(self, stop: StopRequest) -> None:
        """Refresh the materialized views until a stop is requested, then let running batches end.

        Raises PipelineError if a query ends before that, if a materialized view cannot be
        refreshed, or if the JVM is gone."""
        refresh_at_ms = self._next_refresh_ms()
        try:
            while not stop.wait(CHECK_INTERVAL_S):
                self._raise_if_ended(self._queries)
                if self._clock.monotonic_ms() >= refresh_at_ms:
                    self._refresh()
                    refresh_at_ms = self._next_refresh_ms()
            self._show("stopping: waiting for running batches to end")
            self._let_batches_end(stop)
        except Py4JError as error:
            if not stop.count:
                raise PipelineError(f"Spark's JVM is gone: {cause_of(error)}") from error

    def stop(self) -> None:
        """Stop all queries and abort their running batches. Call this also if ``start`` failed."""
        for query in self._queries.values():
            _ignore_if_stopped(query.stop)
        self._listener.wait(LAST_EVENTS_S)
        _ignore_if_stopped(lambda: self._session.streams.removeListener(self._listener))

    def _refreshable_flows(self, resolved: Resolved) -> list[Flow]:
        """Return the flows to call at a refresh, in order; none if no view can be refreshed.

        A materialized view that a stream joins is not refreshed: the stream keeps reading the files
        that existed at its start, so they must not be replaced."""
        streams = [frame for frame in resolved.frames.values() if frame.isStreaming]
        joined = {
            flow.name
            for flow in self._graph.flows_to(MaterializedView)
            if any(reads(frame, self._tables.full_name(flow.target)) for frame in streams)
        }
        flows = [flow for flow in resolved.flows if flow.name not in joined]
        any_view = any(isinstance(self._graph.output_of(flow), MaterializedView) for flow in flows)
        return flows if any_view else []

    def _refresh(self) -> None:
        start_ms = self._clock.monotonic_ms()
        views = self._resolver.refresh(self._to_refresh)
        elapsed_ms = round(self._clock.monotonic_ms() - start_ms)
        self._show(f"views={','.join(views)} refreshed ms={elapsed_ms}")

    def _next_refresh_ms(self) -> float:
        if not self._to_refresh:
            return float("inf")
        return self._clock.monotonic_ms() + self._engine.refresh_interval_ms

    def _start_query(self, flow: Flow, frame: DataFrame, stop: StopRequest) -> None:
        output = self._graph.output_of(flow)
        is_table = isinstance(output, StreamingTable)
        target = self._tables.full_name(output.name) if is_table else [output.name]
        writer = (
            frame.writeStream.queryName(flow.name)
            .outputMode("append")
            .trigger(processingTime=f"{self._engine.trigger_interval_ms} milliseconds")
            .option("checkpointLocation", self._checkpoint(target, flow.name))
        )
        self._listener.expect(flow.name, kafka_options_of(frame))
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
            if stop.count:
                return  # the signal has ended the JVM, too
            raise PipelineError(f"flow {flow.name} failed: {cause_of(error)}") from error

    def _checkpoint(self, target: list[str], flow: str) -> str:
        """Return the flow's checkpoint folder with the highest number, 0 if there is none yet."""
        base = checkpoint_folder(self._spec.storage, target, flow.rpartition(".")[2])
        path = self._session._jvm.org.apache.hadoop.fs.Path(base)
        files = path.getFileSystem(self._session._jsc.hadoopConfiguration())
        names = (
            [each.getPath().getName() for each in files.listStatus(path)]
            if files.exists(path)
            else []
        )
        return f"{base}/{max((int(name) for name in names if name.isdecimal()), default=0)}"

    def _raise_if_ended(self, flows: Iterable[str]) -> None:
        """Raise PipelineError if a query of these flows has ended: it ends by itself only if it
        fails."""
        for name in flows:
            query = self._queries[name]
            if not query.isActive:
                failure = query.exception()
                cause = "its query has ended" if failure is None else cause_of(failure)
                raise PipelineError(f"flow {name} failed: {cause}")

    def _let_batches_end(self, stop: StopRequest) -> None:
        """Stop each query when its running batch has ended.

        Returns early at a second signal or after ``shutdown.timeout.ms``. Raises PipelineError if a
        query fails meanwhile."""
        deadline_ms = self._clock.monotonic_ms() + self._engine.shutdown_timeout_ms
        running = {name: _last_batch(query) for name, query in self._queries.items()}
        while running and stop.count < 2 and self._clock.monotonic_ms() < deadline_ms:
            self._raise_if_ended(running)
            for name, batch in list(running.items()):
                query = self._queries[name]
                if not query.status["isTriggerActive"] or _last_batch(query) != batch:
                    query.stop()
                    del running[name]
            threading.Event().wait(0.02)


def _last_batch(query: Any) -> int:
    """Return the number of the last batch that the query has reported, -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _ignore_if_stopped(stop: Callable[[], object]) -> None:
    """Stop a query or a session, and ignore the error if it, or the JVM, has ended already."""
    try:
        stop()
    except (Py4JError, PySparkException, OSError):
        return
