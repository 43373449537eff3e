"""The graph that the definitions of a pipeline make, and the statements that create its tables."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.pipelines")

from pyspark import pipelines as dp
from pyspark.pipelines.graph_element_registry import (
    graph_element_registration_context,
)

from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import (
    GraphElements,
    MaterializedView,
    Sink,
    StreamingTable,
    TemporaryView,
)
from minikafka.spark.pipeline.tables import create_statement, quoted


def no_sql(*_: Any) -> Any:
    raise AssertionError("no file is SQL")


def frame() -> Any:
    raise AssertionError("defining a flow does not call its function")


def test_pyspark_registers_definitions_by_the_known_internal_interface() -> None:
    """This fails if a new PySpark changes the interface: then graph.py must follow."""
    elements = GraphElements(no_sql)
    with graph_element_registration_context(elements):
        dp.temporary_view(name="view")(frame)
        dp.table(  # type: ignore[call-overload]  # PySpark's overloads lack ``format``
            name="table", partition_cols=["day"], format="orc"
        )(frame)
        dp.materialized_view(name="totals", comment="it's all")(frame)
        dp.create_sink("sink", "minikafka", {"topic": "t"})
        dp.append_flow(target="sink", name="flow", spark_conf={"a": "b"})(frame)
        with pytest.raises(PipelineError, match=r"flow to table .* triggered run .* row-level"):
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


def test_inconsistent_definitions_are_refused() -> None:
    elements = GraphElements(no_sql)
    with pytest.raises(PipelineError, match="define no flows"):
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
