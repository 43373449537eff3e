"""Continuous runs and replays of pipelines, in the Spark session that the tests share."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minikafka.spark.pipeline.engine import parse_engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.signals import StopRequest
from minikafka.spark.pipeline.spec import Spec, load_spec
from minikafka.spark.query_metrics import QueryMetrics
from tests.spark.kafka_side import consume, groups_of, offsets_of_group, produce
from tests.support.clients.places import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.mission("SPK-5")]

OF_EVEN = '{query="even"}'
SPEC = """\
name: numbers
storage: file://{folder}/state
database: {database}
libraries:
  - glob:
      include: transformations/**
"""
NUMBERS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
TOPIC = {{"kafka.bootstrap.servers": "{bootstrap}", "topic": "{target}"}}

@dp.append_flow(target="evens")
def even():
    numbers = spark.readStream.table("read").where("n % 2 = 0")
    return numbers.selectExpr("cast(n AS string) AS value")

dp.create_sink("evens", "minikafka", TOPIC)

@dp.temporary_view
def read():
    return (
        spark.readStream.format("minikafka")
        .options(**TOPIC, subscribe="{source}", startingOffsets="earliest", maxOffsetsPerTrigger=50)
        .load()
        .selectExpr("cast(cast(value AS string) AS bigint) AS n")
    )
"""
# Each definition stands before those that it reads.
TABLES = """\
SET spark.sql.shuffle.partitions = 1;
CREATE VIEW tops COMMENT 'it''s read' AS SELECT twice AS top FROM twice WHERE twice > 0;
CREATE MATERIALIZED VIEW twice AS SELECT 2 * total AS twice FROM total;
CREATE MATERIALIZED VIEW total COMMENT 'of all' AS SELECT sum(n) AS total FROM tens;
CREATE STREAMING TABLE tens PARTITIONED BY (digit)
AS SELECT n, cast(n % 10 AS int) AS digit FROM STREAM(read);
CREATE STREAMING TABLE named (name string, n bigint);
CREATE FLOW name_it AS INSERT INTO named BY NAME
SELECT name, n FROM STREAM(read) JOIN names ON n % 10 = digit;
CREATE MATERIALIZED VIEW names AS SELECT 0 AS digit, 'zero' AS name UNION ALL SELECT 1, 'one';
"""


@pytest.fixture
def topics(make_topic: Callable[..., str]) -> tuple[str, str]:
    return make_topic(1), make_topic(1)


@pytest.fixture
def project(
    streams: Any, tmp_path: Path, cluster: Cluster, topics: tuple[str, str]
) -> Iterator[Spec]:
    """A pipeline that copies the even numbers of one topic to another topic."""
    source, target = topics
    database = f"db_{source.replace('-', '_')}"
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path, database=database))
    (tmp_path / "transformations" / "numbers.py").write_text(
        NUMBERS.format(bootstrap=cluster.bootstrap, source=source, target=target)
    )
    yield load_spec(tmp_path)
    streams.catalog.setCurrentDatabase("default")
    streams.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
    for view in streams.catalog.listTables():
        if view.isTemporary:
            streams.catalog.dropTempView(view.name)


@contextmanager
def running(
    session: Any, spec: Spec, metrics: QueryMetrics | None = None, **settings: str
) -> Iterator[list[str]]:
    """Run a pipeline continuously until the end of the block. Yields the lines that it shows."""
    from minikafka.spark.pipeline.continuous import ContinuousRun

    lines: list[str] = []
    failures: list[BaseException] = []
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    engine = parse_engine(spec.folder, {"trigger.interval.ms": "200", **keys})
    run = ContinuousRun.load(session, spec, engine, lines.append, metrics or QueryMetrics())
    stop = StopRequest()
    try:
        run.start(stop)
    except PipelineError:
        run.stop()
        raise

    def watch() -> None:
        try:
            run.watch(stop)
        except BaseException as error:  # raised again in the thread of the test
            failures.append(error)
            lines.append(f"failed {error}")
        finally:
            run.stop()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lines
    finally:
        stop.signal_received()
        thread.join(120)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def numbers(cluster: Cluster, topic: str) -> list[int]:
    return sorted(int(row[4]) for row in consume(cluster.bootstrap, topic, 1, "read_committed"))


def until(condition: Callable[[], bool], lines: list[str]) -> None:
    """Wait until the condition holds. Fail if ``lines``, those of the run, report a failure."""
    for _ in range(1200):
        if condition():
            return
        threading.Event().wait(0.1)
        assert not any(line.startswith("failed") for line in lines), "\n".join(lines)
    raise AssertionError("\n".join(["the condition did not hold within two minutes", *lines]))


def test_sql_and_python_run_continuously(
    streams: Any, project: Spec, cluster: Cluster, topics: tuple[str, str]
) -> None:
    (project.folder / "transformations" / "tables.sql").write_text(TABLES)
    source, target = topics
    produce(cluster.bootstrap, source, [str(n).encode() for n in range(120)])

    def totals() -> tuple[int, int]:
        for view in ("total", "twice"):
            streams.catalog.refreshTable(view)
        return tuple(streams.sql("SELECT total, twice FROM total JOIN twice").head())

    def is_read(flow: str, count: int, lines: list[str]) -> bool:
        mine = [line for line in lines if line.startswith(f"query={flow} batch=")]
        return sum(int(line.split("rows=")[1].split()[0]) for line in mine) == count

    with running(streams, project) as lines:
        for flow in ("even", "tens", "name_it"):
            until(partial(is_read, flow, 120, lines), lines)
    with running(streams, project, refresh_interval_ms="500") as second_lines:
        assert totals() == (7140, 14280)
        produce(cluster.bootstrap, source, [str(n).encode() for n in range(120, 130)])
        for flow in ("even", "tens", "name_it"):
            until(partial(is_read, flow, 10, second_lines), second_lines)
        count = len(second_lines)
        refreshed = "views=total,twice refreshed"
        until(
            lambda: sum(refreshed in line for line in second_lines[count:]) > 1,
            second_lines,
        )
    assert totals() == (8385, 16770)
    assert streams.table("tops").head() == (16770,)
    assert numbers(cluster, target) == list(range(0, 130, 2))
    streams.catalog.refreshTable("named")
    named = streams.sql("SELECT name, count(*), sum(n) FROM named GROUP BY name ORDER BY name")
    assert [tuple(row) for row in named.collect()] == [("one", 13, 793), ("zero", 13, 780)]
    folders = {Path(file).parent.name for file in streams.table("tens").inputFiles()}
    assert folders == {f"digit={digit}" for digit in range(10)}
    about = {row[0]: row[1] for row in streams.sql("DESCRIBE EXTENDED total").collect()}
    assert about["Comment"] == "of all"
    # maxOffsetsPerTrigger is 50: no batch has more rows.
    mine = [line for line in lines if line.startswith("query=even batch=")]
    rows = [int(line.split("rows=")[1].split()[0]) for line in mine]
    assert (rows[0], sum(rows), max(rows)) == (50, 120, 50)


@pytest.mark.mission("SPO-1", "SPO-3")
def test_a_flow_with_a_group_commits_to_it_alone_and_has_metrics(
    streams: Any, project: Spec, cluster: Cluster, topics: tuple[str, str]
) -> None:
    source, _ = topics
    group = f"lag-of-{source}"
    project = replace(project, name=f"pipeline-of-{source}")  # another test runs it without a group
    file = project.folder / "transformations" / "numbers.py"
    option = '**{"kafka.group.id": "' + group + '"}, '
    file.write_text(file.read_text().replace("startingOffsets=", f"{option}startingOffsets="))
    produce(cluster.bootstrap, source, [str(n).encode() for n in range(120)])
    metrics = QueryMetrics()
    with running(streams, project, metrics) as lines:
        until(lambda: f"rows_total{OF_EVEN} 120" in metrics.text(), lines)
        until(lambda: offsets_of_group(cluster.bootstrap, group) == {0: 120}, lines)
        assert f"running{OF_EVEN} 1" in metrics.text()
    text = metrics.text()
    assert f"running{OF_EVEN} 0" in text
    assert f"failed{OF_EVEN} 0" in text
    assert f'lag{{query="even",topic="{source}",partition="0"}} 0' in text
    assert f"spark-{project.name}-even" not in groups_of(cluster.bootstrap)


def test_a_flow_that_fails_ends_the_run_with_one_line(
    streams: Any, project: Spec, cluster: Cluster, topics: tuple[str, str]
) -> None:
    source, target = topics
    file = project.folder / "transformations" / "numbers.py"
    file.write_text(file.read_text().replace(f'"{target}"', f'"{target}-not-there"'))
    produce(cluster.bootstrap, source, [b"0", b"1"])

    def run() -> None:
        with running(streams, project) as lines:
            until(lambda: not streams.streams.active, lines)

    with pytest.raises(PipelineError) as failure:
        run()
    assert str(failure.value) == (
        "flow even failed: KafkaError: UNKNOWN_TOPIC_OR_PARTITION: "
        f"topic {target}-not-there: does not exist"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 / 0", "bad.py line 1: ZeroDivisionError: division by zero"),
        ("def f(:", "bad.py line 1: SyntaxError: "),
        (
            "from pyspark import pipelines as dp\n@dp.table\ndef t(): return spark.range(3)",
            "flow t: t is filled by streams, and this is a batch query",
        ),
        (
            "from pyspark import pipelines as dp\n@dp.table\ndef t(): return 5",
            "flow t: its function returned no DataFrame",
        ),
        (
            "from pyspark import pipelines as dp\n@dp.table\ndef t(): return dict()['x']",
            "flow t: KeyError: 'x'",
        ),
        (
            "from pyspark.pipelines import *\n@table\ndef t(): spark.readStream.table('nothing')",
            r"flow t: \[TABLE_OR_VIEW_NOT_FOUND\] The table or view `nothing` cannot be found",
        ),
    ],
)
def test_an_invalid_definition_is_refused_with_its_place(
    streams: Any, project: Spec, text: str, complaint: str
) -> None:
    (project.folder / "transformations" / "bad.py").write_text(text)
    with pytest.raises(PipelineError, match=complaint), running(streams, project):
        pass


@pytest.mark.mission("SPK-4")
def test_a_range_is_replayed_exactly_once(
    streams: Any, project: Spec, cluster: Cluster, topics: tuple[str, str]
) -> None:
    from minikafka.spark.pipeline.replay import ReplayOrder, ReplayPlan, replay

    source, target = topics
    produce(cluster.bootstrap, source, [str(n).encode() for n in range(100)])
    lines: list[str] = []

    def order(sink_id: str, start: str, end: str, **more: Any) -> ReplayOrder:
        plan = ReplayPlan.load(project.folder / "replays", sink_id, start, end)
        return ReplayOrder(sink_id, plan, **more)

    offsets = [json.dumps({source: {"0": n}, "other": {"0": 7}}) for n in (10, 20)]
    replay(streams, project, order("first", *offsets), lines.append)
    assert numbers(cluster, target) == list(range(10, 20, 2))
    replay(streams, project, order("first", *offsets, flows=("even",)), lines.append)
    assert numbers(cluster, target) == list(range(10, 20, 2))
    replay(streams, project, order("all", "2001-01-01", "latest"), lines.append)
    assert numbers(cluster, target) == sorted([*range(0, 100, 2), *range(10, 20, 2)])
    assert lines[-2:] == [
        f"flow=even {step} sink.id=all-even of_offsets=100" for step in ("started", "replayed")
    ]
    with pytest.raises(PipelineError, match="--flow odd: flows to topics are even"):
        replay(streams, project, order("none", "0", "latest", flows=("odd",)), lines.append)


@pytest.mark.mission("SPK-4")
def test_the_tasks_of_a_long_job_are_shown_while_it_runs(streams: Any, tmp_path: Path) -> None:
    from minikafka.spark.pipeline.progress import tasks_shown

    shown = tmp_path / "shown"
    file = str(shown)

    def wait_for_a_line(numbers: Iterator[int]) -> Iterator[int]:
        until = time.monotonic() + 60
        while 1 in numbers and not os.path.exists(file):
            assert time.monotonic() < until, "no line was shown"
            time.sleep(0.05)
        return iter(())

    def show(line: str) -> None:
        if line.startswith("flow=long s=") and line.endswith(" tasks=1/2"):
            shown.touch()

    context = streams.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id")
    for _ in range(2):
        shown.unlink(missing_ok=True)
        with tasks_shown(streams, "flow=long", show, pause_s=0.1):
            context.parallelize(range(2), 2).mapPartitions(wait_for_a_line).collect()
        assert shown.exists()
    assert context.getLocalProperty("spark.jobGroup.id") == group
