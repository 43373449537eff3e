"""The script that starts Spark's Python workers, and what such a worker imports of this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.protocol.messages.registry import REQUESTS, response_class
from minikafka.spark import connection
from minikafka.spark.java import prepare_environment
from minikafka.spark.worker_python import worker_python

pyspark = pytest.importorskip("pyspark")

HOME = Path(pyspark.__file__).parent
ZIPS = sorted((HOME / "python" / "lib").glob("*.zip"))


def test_workers_import_the_installed_package_and_not_the_zip(tmp_path: Path) -> None:
    """Of a zip no bytecode is kept: each worker would compile PySpark."""
    script = worker_python({}, tmp_path)
    assert ZIPS, "PySpark has its sources in a zip no more: the script is not needed"
    (tmp_path / "mine").mkdir()
    # As the JVM makes it: the zips, the jar of Spark's core, and then what the driver has.
    jar = next((HOME / "jars").glob("spark-core_*.jar"))
    before = [*map(str, ZIPS), str(jar), str(tmp_path / "mine"), str(tmp_path / "a b*")]
    code = "import pyspark, sys; print(pyspark.__file__); print(sys.executable); print(sys.path)"
    done = subprocess.run(
        [script, "-c", code, "an argument"],
        env={**os.environ, "PYTHONPATH": ":".join(before)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, executable, path = done.stdout.splitlines()
    assert file == pyspark.__file__
    assert executable == sys.executable
    assert not any(name in path for name in (".jar", "py4j"))
    assert str(tmp_path / "mine") in path
    assert str(tmp_path / "a b*") in path


def test_the_script_is_written_once_and_not_for_another_spark(tmp_path: Path) -> None:
    script = Path(worker_python({"SPARK_HOME": str(HOME)}, tmp_path))
    made = script.stat().st_ino
    assert Path(worker_python({}, tmp_path)) == script
    assert script.stat().st_ino == made
    assert worker_python({"SPARK_HOME": str(tmp_path)}, tmp_path) == sys.executable


def test_it_is_the_python_of_workers_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.spark.java.find_java_home", lambda *_: tmp_path)
    started: list[object] = []
    monkeypatch.setattr("minikafka.spark.java.start_fork_server", started.append)
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    prepare_environment(environ)
    assert started == [environ]
    assert Path(environ["PYSPARK_PYTHON"]).is_relative_to(tmp_path / "minikafka" / "python")
    on_a_cluster: dict[str, str] = {}
    prepare_environment(on_a_cluster, "spark://head:7077")
    assert on_a_cluster["PYSPARK_PYTHON"] == sys.executable
    environ["PYSPARK_PYTHON"] = "mine"
    prepare_environment(environ)
    assert environ["PYSPARK_PYTHON"] == "mine"
    assert started == [environ]


@pytest.mark.parametrize(
    "modules",
    [
        "pyspark_minikafka",
        "minikafka.spark.read.stream_reader, minikafka.spark.options",
        "minikafka.spark.write.writers, minikafka.spark.write.write_options",
    ],
)
def test_a_worker_imports_no_more_than_it_needs(modules: str) -> None:
    """Spark imports PySpark's modules in each worker anyhow. Of the heavy ones none is added."""
    code = (
        "import sys, pyspark.sql.streaming.python_streaming_source_runner\n"
        f"before = set(sys.modules)\nimport {modules}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    loaded = set(done.stdout.split())
    heavy = {"asyncio", "ssl", "pandas", "minikafka.protocol.messages.registry",
             "minikafka.spark.read.offline"}  # fmt: skip
    assert heavy & loaded == set()
    if modules == "pyspark_minikafka":  # every session looks for data sources with it
        assert loaded <= {
            "pyspark_minikafka", "minikafka", "minikafka.spark", "minikafka.spark.source",
            "minikafka.spark.option_parsing",
        }  # fmt: skip


def test_each_response_is_found_beside_its_request() -> None:
    for request in REQUESTS.values():
        assert connection._response_class(request()) is response_class(request())
