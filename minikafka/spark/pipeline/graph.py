"""What the files of a pipeline define: outputs, and the flows that fill them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView

from minikafka.spark.pipeline.failures import PipelineError

# Formats whose tables are files with one log of their writer's batches beside them: a second
# writer's batches would be taken for repeated ones, and left out.
FILE_FORMATS = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})

__all__ = [
    "Flow",
    "Graph",
    "GraphElements",
    "MaterializedView",
    "Output",
    "Sink",
    "StreamingTable",
    "TemporaryView",
]


@dataclass(frozen=True)
class Graph:
    """``outputs`` by name, in the order in which they were defined."""

    outputs: Mapping[str, Output]
    flows: tuple[Flow, ...]

    def output_of(self, flow: Flow) -> Output:
        return self.outputs[flow.target]

    def flows_to(self, kind: type[Output]) -> list[Flow]:
        return [flow for flow in self.flows if isinstance(self.outputs[flow.target], kind)]


class SqlReader(Protocol):
    """Brings the definitions in a text of SQL into the elements."""

    def __call__(self, text: str, file: Path, elements: GraphElements) -> None: ...


@dataclass
class GraphElements(GraphElementRegistry):
    """Collects what ``pyspark.pipelines`` registers while the files are imported. An internal
    interface of PySpark 4.3, which spark-pipelines implements over Spark Connect."""

    read_sql: SqlReader
    outputs: dict[str, Output] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)

    def register_output(self, output: Output) -> None:
        if output.name in self.outputs:
            raise PipelineError(f"{output.name} is defined twice")
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        if flow.name in self.flows:
            raise PipelineError(f"flow {flow.name} is defined twice")
        self.flows[flow.name] = flow

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise PipelineError(
            f"the Auto CDC flow to {flow.target} needs a triggered run: leave out --continuous"
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        self.read_sql(sql_text, file_path, self)

    def graph(self) -> Graph:
        """All that is defined. Raises PipelineError for what does not fit together."""
        writers: dict[str, list[str]] = {}
        for flow in self.flows.values():
            if flow.target not in self.outputs:
                raise PipelineError(f"flow {flow.name}: its target {flow.target} is not defined")
            writers.setdefault(flow.target, []).append(flow.name)
        for name, flows in writers.items():
            output = self.outputs[name]
            if len(flows) > 1 and _is_of_files(output):
                raise PipelineError(
                    f"{name} is written by {' and '.join(flows)}: files can have one flow only, "
                    "make it one with union"
                )
        if not self.flows:
            raise PipelineError("no flows are defined")
        return Graph(dict(self.outputs), tuple(self.flows.values()))


def _is_of_files(output: Output) -> bool:
    if isinstance(output, Sink | StreamingTable):
        return (output.format or "parquet").lower() in FILE_FORMATS
    return False
