"""The order in which flows are resolved, and the error if a flow reads what does not exist."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark.pipelines")

from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import Graph
from minikafka.spark.pipeline.resolving import Missing, raise_if_missing, resolve_in_rounds


def test_items_are_tried_again_until_a_round_makes_no_progress() -> None:
    needs = {"c": "b", "b": "a", "a": "", "d": "c", "x": "y", "y": "x"}
    existing = {""}

    def attempt(name: str) -> str | None:
        if needs[name] in existing:
            existing.add(name)
            return None
        return f"{name} needs {needs[name]}"

    assert resolve_in_rounds(needs, attempt) == (["a", "b", "c", "d"], ["x needs y", "y needs x"])
    assert resolve_in_rounds(["d", "a"], attempt) == (["d", "a"], [])


def test_the_error_names_missing_and_circular_inputs() -> None:
    graph = Graph({"b": SimpleNamespace()}, ())  # type: ignore[dict-item]
    raise_if_missing([], graph)
    with pytest.raises(PipelineError, match="flow b: z is missing"):
        raise_if_missing(
            [Missing("a", "b", "unused"), Missing("b", "z", "flow b: z is missing")], graph
        )
    with pytest.raises(PipelineError, match="wait for each other: a reads b, c reads b"):
        raise_if_missing([Missing("a", "b", ""), Missing("c", "b", "")], graph)
