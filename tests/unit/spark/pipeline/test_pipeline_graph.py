"""What the files of a pipeline define, how it is resolved, what is said when it fails."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark.pipelines")

from pyspark import pipelines as dp
from pyspark.pipelines.graph_element_registry import (
    graph_element_registration_context,
)

from minikafka.spark.pipeline.failures import PipelineError, spark_told_in_a_line
from minikafka.spark.pipeline.graph import (
    Graph,
    GraphElements,
    MaterializedView,
    Sink,
    StreamingTable,
    TemporaryView,
)
from minikafka.spark.pipeline.noise import fresh_log, stderr_in
from minikafka.spark.pipeline.ordering import resolve_all
from minikafka.spark.pipeline.resolving import Missing, refuse
from minikafka.spark.pipeline.signals import asked_to_stop
from minikafka.spark.pipeline.tables import create_statement, quoted
from minikafka.spark.pipeline.triggered import failure_in, sift


def no_sql(*_: Any) -> None:
    raise AssertionError("no SQL here")


def frame() -> Any:
    raise AssertionError("only named, never called")


def test_the_internal_interface_of_pyspark_is_the_one_we_know() -> None:
    """Fails with a PySpark in which it has changed: then graph.py has to follow."""
    elements = GraphElements(no_sql)
    with graph_element_registration_context(elements):
        dp.temporary_view(name="view")(frame)
        dp.table(name="table", partition_cols=["day"], format="orc")(frame)
        dp.materialized_view(name="totals", comment="it's all")(frame)
        dp.create_sink("sink", "minikafka", {"topic": "t"})
        dp.append_flow(target="sink", name="flow", spark_conf={"a": "b"})(frame)
        with pytest.raises(PipelineError, match="Auto CDC flow to table needs a triggered run"):
            dp.create_auto_cdc_flow("table", "view", ["key"], "at")
    graph = elements.graph()
    kinds = {name: type(output) for name, output in graph.outputs.items()}
    assert kinds == {
        "view": TemporaryView,
        "table": StreamingTable,
        "totals": MaterializedView,
        "sink": Sink,
    }
    assert [flow.name for flow in graph.flows] == ["view", "table", "totals", "flow"]
    assert [flow.name for flow in graph.flows_to(Sink)] == ["flow"]
    assert graph.flows[3].spark_conf == {"a": "b"}
    table, totals = graph.outputs["table"], graph.outputs["totals"]
    assert isinstance(table, StreamingTable)
    assert isinstance(totals, MaterializedView)
    assert create_statement(table, "orc", "day date") == (
        "CREATE TABLE IF NOT EXISTS `table` (day date) USING orc PARTITIONED BY (`day`)"
    )
    assert create_statement(totals, "parquet", "n int").endswith("COMMENT 'it\\'s all'")
    assert quoted("a.`b`.c") == "`a`.`b`.`c`"


def test_what_does_not_fit_together() -> None:
    elements = GraphElements(no_sql)
    with pytest.raises(PipelineError, match="no flows"):
        elements.graph()
    with graph_element_registration_context(elements):
        dp.append_flow(target="nowhere", name="lost")(frame)
        with pytest.raises(PipelineError, match="its target nowhere is not defined"):
            elements.graph()
        with pytest.raises(PipelineError, match="flow lost is defined twice"):
            dp.append_flow(target="nowhere", name="lost")(frame)
        dp.create_streaming_table("nowhere")
        elements.graph()
        with pytest.raises(PipelineError, match="nowhere is defined twice"):
            dp.create_streaming_table("nowhere")
        dp.append_flow(target="nowhere", name="second")(frame)
        with pytest.raises(PipelineError, match="nowhere is written by lost and second: files"):
            elements.graph()


def test_flows_are_tried_until_what_they_read_is_there() -> None:
    needs = {"c": "b", "b": "a", "a": "", "d": "c", "x": "y", "y": "x"}
    there = {""}

    def attempt(name: str) -> str | None:
        if needs[name] in there:
            there.add(name)
            return None
        return f"{name} lacks {needs[name]}"

    assert resolve_all(needs, attempt) == (["a", "b", "c", "d"], ["x lacks y", "y lacks x"])
    assert resolve_all(["d", "a"], attempt) == (["d", "a"], [])


def test_what_is_missing_is_told_by_its_cause() -> None:
    graph = Graph({"b": SimpleNamespace()}, ())  # type: ignore[dict-item]
    refuse([], graph)
    with pytest.raises(PipelineError, match="flow b: z is missing"):
        refuse([Missing("a", "b", "unused"), Missing("b", "z", "flow b: z is missing")], graph)
    with pytest.raises(PipelineError, match="wait for each other: a reads b, c reads b"):
        refuse([Missing("a", "b", ""), Missing("c", "b", "")], graph)


FAILED = """\
[STREAM_FAILED] Query [id = 2] terminated with exception: Traceback (most recent call last):
  File "/x/cluster.py", line 189, in partitions
    raise KafkaError(code, f"topic {name}: {_reason(code)}")
minikafka.kernel.errors.KafkaError: UNKNOWN_TOPIC_OR_PARTITION: topic t: does not exist
"""


def test_what_spark_raises_is_told_in_a_line(tmp_path: Path) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException

    log = tmp_path / "run.log"
    for raised in (Py4JError("gone\n\tat x"), AnalysisException("gone\n\tat x")):
        with pytest.raises(PipelineError) as told, spark_told_in_a_line(log):
            raise raised
        assert str(told.value) == f"gone (log: {log})"


def test_noise_goes_to_the_log_and_events_to_the_user() -> None:
    out = io.BytesIO()
    shown: list[str] = []
    lines = [
        b"26/11/21 20:12:10 WARN HiveConf: noise\n",
        b"2026-11-21 20:12:10: Loading definitions.\n",
        b"2026-11-21 20:12:16: Flow to_out is RUNNING.\n",
        b"2026-11-21 20:12:16: Flow 'to_out' has FAILED.\n",
        *(line.encode() + b"\n" for line in FAILED.splitlines()),
    ]
    last = sift(lines, out, shown.append)
    assert out.getvalue() == b"".join(lines)
    assert shown == ["Flow to_out is RUNNING.", "Flow 'to_out' has FAILED."]
    assert failure_in(last).startswith("flow to_out failed: KafkaError: UNKNOWN_TOPIC")
    assert failure_in(["no Java"]) == "no Java"
    lines = [
        "12: Failed to resolve flow: 'a.b.totals'.",
        "Error: [NO_COLUMN] x SQLSTATE: 42703",
        *last,
    ]
    assert failure_in(lines) == "flow a.b.totals: [NO_COLUMN] x"


def test_a_flow_that_failed_is_not_called_completed() -> None:
    """Spark says both of one flow when its query ends by an exception."""
    texts = [
        "Flow spark_catalog.shop.a is RUNNING.",
        "Flow spark_catalog.shop.b is RUNNING.",
        "Flow spark_catalog.shop.a has COMPLETED.",
        "Flow spark_catalog.shop.b has COMPLETED.",
        "Flow 'spark_catalog.shop.a' has FAILED.",
        "Flow spark_catalog.shop.a is RUNNING.",
        "Flow spark_catalog.shop.a has COMPLETED.",
        "Flow 'spark_catalog.shop.a' has FAILED more than 2 times and will not be restarted.",
        "Run is FAILED.",
    ]
    shown: list[str] = []
    sift([f"2026-11-21 20:12:16: {text}\n".encode() for text in texts], io.BytesIO(), shown.append)
    assert [text for text in shown if ".a" in text] == [
        text for text in texts if ".a" in text and "COMPLETED" not in text
    ]
    assert shown[-2:] == ["Flow spark_catalog.shop.b has COMPLETED.", "Run is FAILED."]


def test_standard_error_of_all_is_in_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = fresh_log(tmp_path / "logs" / "run.log")
    with stderr_in(log):
        os.write(2, b"noise\n")
    os.write(2, b"seen\n")
    assert capfd.readouterr().err == "seen\n"
    assert log.read_text() == "noise\n"
    assert fresh_log(log).read_text() == ""
    assert (tmp_path / "logs" / "run.log.1").read_text() == "noise\n"


def test_signals_ask_and_do_nothing_else() -> None:
    before = signal.getsignal(signal.SIGTERM)
    called: list[int] = []
    with asked_to_stop(lambda: called.append(1)) as asked:
        assert not asked.wait(0)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert asked.wait(0)
        assert (asked.count, called) == (2, [1, 1])
    assert signal.getsignal(signal.SIGTERM) is before
