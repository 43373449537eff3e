"""The options of the JVM of a triggered run, and the user's."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from minikafka.spark.class_archive import ClassArchive
from minikafka.spark.pipeline.engine import parse_engine
from minikafka.spark.pipeline.triggered import (
    COLLECTOR,
    COMPILER,
    DEFAULT_OPTIONS,
    EXTRA_OPTIONS,
    archive_of,
    java_settings,
)

pytestmark = pytest.mark.mission("SPS-7")


def options(settings: dict[str, str], environ: dict[str, str]) -> list[str]:
    engine = parse_engine(Path("/shop"), settings)
    return shlex.split(java_settings(engine, environ, None)[DEFAULT_OPTIONS])


def test_a_jvm_starts_with_less_work() -> None:
    assert options({}, {}) == [COLLECTOR, *COMPILER]


def test_the_options_of_the_user_come_after_ours() -> None:
    users = "-Da='b c' -XX:-TieredCompilation"
    assert options({DEFAULT_OPTIONS: users}, {})[-2:] == ["-Da=b c", "-XX:-TieredCompilation"]


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        ({EXTRA_OPTIONS: "-Xss2m -XX:+UseG1GC"}, {}),
        ({DEFAULT_OPTIONS: "-XX:+UseG1GC"}, {}),
        ({}, {"JDK_JAVA_OPTIONS": "-XX:+UseG1GC"}),
        ({}, {"JAVA_TOOL_OPTIONS": "-XX:+UseParallelGC -Xss2m"}),
    ],
)
def test_the_garbage_collector_of_the_user_is_the_only_one(
    settings: dict[str, str], environ: dict[str, str]
) -> None:
    assert COLLECTOR not in options(settings, environ)


def test_the_path_of_the_archive_may_have_spaces() -> None:
    archive = ClassArchive(Path("/my cache/a.jsa"), Path("/my cache/a.jsa.1"))
    text = java_settings(parse_engine(Path("/shop"), {}), {}, archive)[DEFAULT_OPTIONS]
    assert "-XX:ArchiveClassesAtExit=/my cache/a.jsa.1" in shlex.split(text)


@pytest.mark.parametrize(
    "settings", [{"remote": "sc://host:15002"}, {"spark.driver.extraClassPath": "/more.jar"}]
)
def test_a_server_or_a_class_path_of_the_user_has_no_archive(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    own_classes = tmp_path / "lib" / "server" / "classes.jsa"
    own_classes.parent.mkdir(parents=True)
    own_classes.touch()
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    plain = archive_of(parse_engine(tmp_path, {}), tmp_path, tmp_path, environ)
    assert plain is not None
    assert plain.path.parent == tmp_path / "cache" / "minikafka" / "classes"
    assert archive_of(parse_engine(tmp_path, settings), tmp_path, tmp_path, environ) is None
