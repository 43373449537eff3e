"""The graph of a pipeline: its outputs and the flows that fill them, as its files define them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView

from minikafka.spark.pipeline.failures import PipelineError

if TYPE_CHECKING:
    from pyspark.pipelines.flow import AutoCdcFlow  # not in PySpark 4.1

# In these formats a table is a folder of files with one log of batches, by batch number. The
# batches of a second writer have the same numbers, so Spark would skip them as repeated.
FILE_FORMATS: Final = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})

__all__ = [
    "Flow",
    "Graph",
    "GraphElements",
    "MaterializedView",
    "Output",
    "PersistedView",
    "RegisterSql",
    "Sink",
    "StreamingTable",
    "TemporaryView",
]


@dataclass(frozen=True)
class PersistedView(Output):
    """A view in the catalog. Its query, ``text``, is SQL; PySpark has no class for it."""

    text: str


@dataclass(frozen=True)
class Graph:
    """The outputs of a pipeline by name, and its flows, both in the order of their definition."""

    outputs: Mapping[str, Output]
    flows: tuple[Flow, ...]

    def output_of(self, flow: Flow) -> Output:
        return self.outputs[flow.target]

    def flows_to(self, kind: type[Output]) -> list[Flow]:
        return [flow for flow in self.flows if isinstance(self.outputs[flow.target], kind)]


@dataclass
class GraphElements(GraphElementRegistry):
    """The registry that collects the definitions while the files of a pipeline are loaded.

    The decorators of ``pyspark.pipelines`` call it. Its base class is an internal interface of
    PySpark 4.3, which ``spark-pipelines`` implements for Spark Connect."""

    add_sql_definitions: RegisterSql
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
            f"the Auto CDC flow to {flow.target} needs a triggered run (leave out --continuous) "
            "and a table with row-level operations, such as Iceberg's"
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        self.add_sql_definitions(sql_text, file_path, self)

    def graph(self) -> Graph:
        """Return the graph of all definitions.

        Raises PipelineError if there is no flow, if the target of a flow is not defined, or if a
        table of files has two flows."""
        writers: dict[str, list[str]] = {}
        for flow in self.flows.values():
            if flow.target not in self.outputs:
                raise PipelineError(f"flow {flow.name}: its target {flow.target} is not defined")
            writers.setdefault(flow.target, []).append(flow.name)
        for name, flows in writers.items():
            if len(flows) > 1 and _is_written_as_files(self.outputs[name]):
                raise PipelineError(
                    f"{name} is written by {' and '.join(flows)}: files can have one flow only, "
                    "make it one with union"
                )
        if not self.flows:
            raise PipelineError("the definition files define no flows")
        return Graph(dict(self.outputs), tuple(self.flows.values()))


# Registers the definitions of a SQL file, given by its text and its path.
RegisterSql: TypeAlias = Callable[[str, Path, GraphElements], None]


def _is_written_as_files(output: Output) -> bool:
    if isinstance(output, Sink | StreamingTable):
        return (output.format or "parquet").lower() in FILE_FORMATS
    return False
