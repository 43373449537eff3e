"""Loads the definition files of a pipeline, unmodified, for a classic session."""

from __future__ import annotations

import importlib.util
import traceback
from contextlib import chdir
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import graph_element_registration_context

from minikafka.spark.failure_text import cause_of
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.graph import Graph, GraphElements
from minikafka.spark.pipeline.spec import Spec
from minikafka.spark.pipeline.sql_files import sql_reader


def load_graph(spec: Spec, session: Any) -> Graph:
    """Import the Python files, parse the SQL files. Raises PipelineError, ConfigError."""
    elements = GraphElements(sql_reader(session))
    with chdir(spec.folder), graph_element_registration_context(elements):
        for file in spec.definition_files():
            try:
                if file.suffix == ".py":
                    _import(file, session)
                else:
                    elements.register_sql(file.read_text(encoding="utf-8"), file)
            except PipelineError as error:
                raise PipelineError(f"{file.name}: {error}") from error
            except Exception as error:  # whatever the user's file raises is the user's to see
                raise PipelineError(f"{file.name}{_line(error, file)}: {_said(error)}") from error
    return elements.graph()


def _import(file: Path, session: Any) -> None:
    module_spec = importlib.util.spec_from_file_location(file.stem, file)
    assert module_spec is not None, file
    assert module_spec.loader is not None, file
    module = importlib.util.module_from_spec(module_spec)
    module.__dict__["spark"] = session  # as spark-pipelines does
    module_spec.loader.exec_module(module)


def _line(error: BaseException, file: Path) -> str:
    """`` line 12``, if it is known where in the file the error was raised."""
    if isinstance(error, SyntaxError):
        return f" line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f" line {lines[-1]}" if lines else ""


def _said(error: BaseException) -> str:
    if isinstance(error, PySparkException):
        return cause_of(error)
    return f"{type(error).__name__}: {cause_of(error)}"
