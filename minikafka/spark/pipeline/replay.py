"""Replay: the flows of a pipeline read a range of records as batches and write it to their topics.

A replay writes exactly once under its sink id: if it is run again, it writes only what is
missing.

A plan fixes the offsets before the replay writes anything. A user may give the range as times or as
``latest``, which mean other offsets at another time. A replay that was interrupted can only be
continued exactly if it reads the same records again. So the plan resolves the range once for each
source and keeps the offsets in a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minikafka.kernel.cluster import TopicPartition, parse_topic_id, topic_id_text
from minikafka.kernel.config import ConfigError
from minikafka.spark.cluster import Cluster
from minikafka.spark.failure_text import cause_of
from minikafka.spark.options import ReadOptions, TopicSelection, batch_options
from minikafka.spark.pipeline.definitions import load_graph
from minikafka.spark.pipeline.engine import Engine, static_settings
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import Flow, Graph, Sink, StreamingTable, TemporaryView
from minikafka.spark.pipeline.progress import tasks_shown
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
from minikafka.spark.read.offsets import Offsets, offsets_json, parse_offsets
from minikafka.spark.read.planning import ending_offsets, starting_offsets, without_recreated
from minikafka.spark.session import local_session

_SINK_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_EDGES: Final = ("earliest", "latest")
# Options for the range of a source, and for how much of it one batch of a stream reads.
_RANGE_OPTIONS: Final = re.compile(
    r"(starting|ending)(offsets.*|timestamp)|(max|min)offsetspertrigger|maxtriggerdelay"
)


@dataclass(frozen=True)
class ReplayRange:
    """The range of records to replay, ``end`` excluded.

    Each edge is ``earliest``, ``latest``, a time in ms, or offsets by partition."""

    start: str | int | Offsets
    end: str | int | Offsets

    def options(self, subscription: TopicSelection) -> dict[str, str]:
        """Return the options of a batch read for the part of the range in this subscription.

        Raises ConfigError if the range is given as offsets and has none for the subscription."""
        return {
            **_edge_options("starting", self.start, subscription),
            **_edge_options("ending", self.end, subscription),
            # If no record is as late as the start, begin at the end of the log: read nothing.
            "startingoffsetsbytimestampstrategy": "latest",
        }


def parse_range(start: str, end: str) -> ReplayRange:
    """Parse the values of ``--from`` and ``--to``. Raises ConfigError if one is invalid."""
    return ReplayRange(_parse_edge("--from", start), _parse_edge("--to", end))


def _parse_edge(option: str, text: str) -> str | int | Offsets:
    text = text.strip()
    if text in _EDGES:
        return text
    if text.isdecimal():
        return int(text)
    try:
        if text.startswith("{"):
            return parse_offsets(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{option} {text}: expected a time (2024-05-01T00:00:00Z, or ms), offsets "
            '({"topic":{"0":23}}), earliest or latest'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _edge_options(
    name: str, value: str | int | Offsets, subscription: TopicSelection
) -> dict[str, str]:
    if isinstance(value, int):
        return {f"{name}timestamp": str(value)}
    if isinstance(value, str):
        return {f"{name}offsets": value}
    mine = {each: offset for each, offset in value.items() if _is_in(each, subscription)}
    if not mine:
        raise ConfigError(
            f"the range has no offsets for {source_text(subscription)}: add them to --from and --to"
        )
    return {f"{name}offsets": json.dumps(offsets_json(mine))}


def _is_in(each: TopicPartition, subscription: TopicSelection) -> bool:
    if subscription.partitions:
        return each in subscription.partitions
    if subscription.pattern:
        return re.fullmatch(subscription.pattern, each.topic) is not None
    return each.topic in subscription.topics


def source_text(subscription: TopicSelection) -> str:
    """Return what a source subscribes to as a short text, which identifies it in the plan."""
    if subscription.partitions:
        return ",".join(f"{each.topic}-{each.partition}" for each in subscription.partitions)
    return subscription.pattern or ",".join(subscription.topics)


def without_range(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that set a range. Their names may have any case."""
    return {k: v for k, v in options.items() if not _RANGE_OPTIONS.fullmatch(k.lower())}


class ReplayPlan:
    """The offsets that the replay with one sink id reads from each source."""

    def __init__(self, file: Path, start: str, end: str) -> None:
        self._file = file
        self._edges = {"from": start, "to": end}
        self._range: ReplayRange = parse_range(start, end)
        self._sources: dict[str, dict[str, Any]] = {}

    @classmethod
    def load(cls, folder: Path, sink_id: str, start: str, end: str) -> ReplayPlan:
        """Load the plan of a sink id from its file, or make an empty plan if there is no file.

        Raises ConfigError if the sink id or the range is invalid, or if the file has another
        range."""
        check_sink_id(sink_id)
        plan = cls(folder / f"{sink_id}.json", start, end)
        if plan._file.exists():
            saved = json.loads(plan._file.read_text())
            plan._sources = saved.pop("sources")
            if saved != plan._edges:
                raise ConfigError(
                    f"--sink-id {sink_id} is a replay --from {saved['from']} --to {saved['to']}: "
                    "another range needs another id"
                )
        return plan

    def options(self, stream_options: Mapping[str, str]) -> dict[str, str]:
        """Return the options of a batch reader for the source that a stream's options describe.

        Resolve the range for this source and save the offsets, unless the plan has them already.
        Raises ConfigError if the range has no offsets for the source, or if the plan has offsets of
        a topic that was created again since; ValueError (or OptionError) if an option is invalid;
        KafkaError if the brokers cannot be reached; OSError if the plan cannot be saved."""
        kept = without_range(stream_options)
        probe = batch_options(kept)
        options = batch_options(kept | self._range.options(probe.subscription))
        key = f"{source_text(probe.subscription)} at {_servers(probe)}"
        if key not in self._sources:
            self._sources[key] = _resolved_offsets(options)
            self._save()
        elif recreated := _recreated(options, self._sources[key].get("topic_ids", {})):
            raise ConfigError(
                f"{recreated[0]}. The replay --sink-id {self._file.stem} has offsets of the "
                "deleted topic: replay the new one with another id"
            )
        found = self._sources[key]
        return kept | {
            "startingoffsets": json.dumps(found["start"]),
            "endingoffsets": json.dumps(found["end"]),
        }

    def records(self) -> int:
        """Return the number of offsets in the ranges of all sources."""
        return sum(
            end - found["start"][topic][number]
            for found in self._sources.values()
            for topic, ends in found["end"].items()
            for number, end in ends.items()
        )

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps({**self._edges, "sources": self._sources}, indent=2))
        draft.replace(self._file)


def check_sink_id(sink_id: str) -> None:
    """Raise ConfigError if a sink id is invalid."""
    if not _SINK_ID.fullmatch(sink_id):
        raise ConfigError(
            f"--sink-id {sink_id}: must be 1 to 100 letters, digits, dots, dashes or underscores"
        )


def _servers(options: ReadOptions) -> str:
    return ",".join(f"{host}:{port}" for host, port in options.client.bootstrap_servers)


def _resolved_offsets(options: ReadOptions) -> dict[str, Any]:
    """Return the start and end offsets of the range by partition, the end excluded, and the ids of
    the topics."""
    with Cluster(options.client) as cluster:
        partitions = cluster.partitions(options.subscription)
        topic_ids = cluster.topic_ids({each.topic for each in partitions})
        start = starting_offsets(cluster, options, partitions)
        end = ending_offsets(cluster, options, partitions)
    end = {each: max(offset, start[each]) for each, offset in end.items()}
    return {
        "start": offsets_json(start),
        "end": offsets_json(end),
        "topic_ids": {topic: topic_id_text(each) for topic, each in topic_ids.items()},
    }


def _recreated(options: ReadOptions, saved: Mapping[str, str]) -> list[str]:
    """Return a message for each topic that has another id than the saved one."""
    known = {topic: parse_topic_id(text) for topic, text in saved.items()}
    if not known:
        return []
    with Cluster(options.client) as cluster:
        cluster.partitions_there(options.subscription, known_ids=known)
        return without_recreated({}, known, cluster.topic_ids(known)).losses


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
