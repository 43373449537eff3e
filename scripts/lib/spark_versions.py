"""The table of what the data source can do in each version of PySpark, made by running its tests.

Each version has a virtual environment with PySpark and what it requires; the rest of the packages
are those of this Python, the same for all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VERSIONS: Final = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
FOLDER: Final = Path(".spark")
_DELTA: Final = "io.delta:delta-spark_{minor}_2.13:{version}"
_ICEBERG: Final = "org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:{version}"
# The newest versions that Maven Central has for each minor version of Spark.
LAKES: Final = {
    "4.0": ((_DELTA, "4.4.0"), (_ICEBERG, "1.11.0")),
    "4.1": ((_DELTA, "4.4.0"), (_ICEBERG, "1.12.0")),
    "4.2": ((_DELTA, "4.4.0"),),
}
# What these jars need and Spark ships.
IN_SPARK: Final = (
    "org.apache.spark", "org.apache.hadoop", "org.apache.parquet", "org.apache.logging.log4j",
    "org.antlr", "org.scala-lang", "org.slf4j", "org.xerial.snappy", "com.github.luben",
    "com.fasterxml.jackson.core", "com.fasterxml.jackson.datatype",
)  # fmt: skip
TESTS: Final = {
    "": "tests/spark/test_spark_versions.py",
    "Spark Connect": "tests/spark/test_spark_connect.py",
    "table": "tests/spark/test_spark_lakes.py::test_a_repeated_batch_is_in_a_table_once",
    "`minikafka pipeline`": (
        "tests/spark/test_pipeline_session.py::test_sql_and_python_run_continuously"
    ),
}
_REASON: Final = re.compile(r"(?:Error|Exception)\w*: (.+)")


def main() -> int:
    versions = sys.argv[1:] or VERSIONS
    columns = {version: dict(results(version)) for version in versions}
    rows = list(dict.fromkeys(name for found in columns.values() for name in found))
    print("| | " + " | ".join(versions) + " |")
    print("|---|" + "---|" * len(versions))
    for name in rows:
        print(f"| {name} | " + " | ".join(columns[each].get(name, "") for each in versions) + " |")
    return 0


def results(version: str) -> Iterator[tuple[str, str]]:
    """Yield each row's name, and ``yes`` or the reason why not."""
    home, jars = environment(version), lake_jars(version)
    report = home / "report.xml"
    environ = {
        **os.environ,
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path.cwd()),
        "MINIKAFKA_SPARK_LAKE_JARS": str(jars),
    }
    command = [str(python_of(home)), "-m", "pytest", *TESTS.values(), f"--junitxml={report}"]
    with (home / "pytest.log").open("wb") as log:
        print(f"minikafka: testing PySpark {version}, log in {log.name}", file=sys.stderr)
        subprocess.run(command, env=environ, stdout=log, stderr=log, check=False)
    for case in ET.parse(report).iter("testcase"):
        yield name_of(case), outcome(case)


def name_of(case: ET.Element) -> str:
    """Return the row of a test: its parameter, after the name of its file in ``TESTS``."""
    file = case.attrib["classname"].replace(".", "/")
    (prefix,) = (name for name, test in TESTS.items() if test.startswith(f"{file}.py"))
    parameter = re.search(r"\[(.*)\]$", case.attrib["name"])
    return f"{prefix} {parameter[1]}".strip() if parameter else prefix


def outcome(case: ET.Element) -> str:
    for tag in ("failure", "error", "skipped"):
        found = case.find(tag)
        if found is not None:
            text = found.text or ""
            reasons: list[str] = [*_REASON.findall(text)] or [found.attrib.get("message", tag)]
            ours = [each for each in reasons if "needs PySpark" in each or "need PySpark" in each]
            return "no: " + (ours or reasons)[-1].strip()[:200].replace("|", "/")
    return "yes"


def environment(version: str) -> Path:
    """Return the virtual environment with this version of PySpark. Raises CalledProcessError."""
    home = (FOLDER / f"venv-{version}").absolute()
    if not (home / ".complete").exists():
        print(f"minikafka: installing PySpark {version}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(python_of(home)), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"pyspark=={version}"], check=True)
        (packages,) = home.glob("lib/python*/site-packages")
        others = sysconfig.get_path("purelib")
        (packages / "others.pth").write_text(f"import site; site.addsitedir({others!r})\n")
        (home / ".complete").touch()
    return home


def python_of(home: Path) -> Path:
    return home / "bin" / "python"


def lake_jars(version: str) -> Path:
    """Return the folder with the jars of Delta and Iceberg. Raises CalledProcessError."""
    minor = ".".join(version.split(".")[:2])
    folder = (FOLDER / f"lakes-{minor}").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for coordinates, lake_version in LAKES.get(minor, ()):
        found = coordinates.format(minor=minor, version=lake_version)
        group, artifact, number = found.split(":")
        if (folder / f"{artifact}-{number}.jar").exists():
            continue
        pom = ["mvn", "--quiet", "--batch-mode", "--file", "scripts/lib/spark-lake-jars.xml"]
        names = [f"-Dlake.group={group}", f"-Dlake.artifact={artifact}", f"-Dlake.version={number}"]
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        excluded = f"-DexcludeGroupIds={','.join(IN_SPARK)}"
        target = f"-DoutputDirectory={folder}"
        command = [*pom, *names, *goal, excluded, target]
        subprocess.run(command, check=True, stdout=sys.stderr)  # only the table is on stdout
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
