"""The verb doctor says what is there and what is wrong."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from minikafka.cli.main import main
from minikafka.cli.processes import doctor
from minikafka.kernel.compiled import build_name

NO_PACKAGES = {"PATH": "/nowhere"}


def test_it_looks_at_brokers_and_every_extra(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "--json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    first = ["python", "minikafka", "java of zookeeper", "jars of zookeeper", "java of spark"]
    assert list(rows)[:5] == first
    assert rows["minikafka"]["found"].startswith(f"{build_name()} ")
    extras = ("spark", "arrow", "ui", "registry", "mcp", "gssapi")
    assert {"data source", *(f"packages of {extra}" for extra in extras)} <= rows.keys()
    assert rows["packages of ui"]["problem"] == ""
    assert rows["data source"]["found"].endswith("pyspark_minikafka")
    assert status == 0


def test_missing_parts_are_listed_with_install_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(doctor, "version", missing)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.setattr("minikafka.cli.processes.embedded_zookeeper.DEBIAN_JARS", tmp_path)
    rows = [*doctor.examine_brokers(NO_PACKAGES), *doctor.examine_extras(NO_PACKAGES)]
    problems = {row.what: row.problem for row in rows if row.problem}
    without_command = [what for what, text in problems.items() if "pip install '" not in text]
    assert without_command == ["data source"]
    assert problems["packages of ui"] == "pip install 'starlette>=1.0' 'uvicorn>=0.40'"
    assert len(problems) == len(rows) - 2


def test_optional_parts_do_not_decide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = doctor.CheckResult("x", "extra x", "", "pip install x")
    well = doctor.CheckResult("python", "brokers", "3")
    monkeypatch.setattr(doctor, "examine_brokers", lambda _: [well])
    monkeypatch.setattr(doctor, "examine_extras", lambda _: [wrong])
    assert main(["doctor"]) == 0
    assert "pip install x" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "examine_brokers", lambda _: [wrong])
    assert main(["doctor"]) == 1


@pytest.mark.parametrize(
    ("pandas", "is_well"), [("2.1.9", False), ("2.2.0", True), ("2.10.1", True), ("3.0.1", False)]
)
def test_versions_are_compared_as_numbers(
    pandas: str, is_well: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"pyspark": "4.1.0", "pyarrow": "24.0.0", "pandas": pandas}
    monkeypatch.setattr(doctor, "version", versions.__getitem__)
    row = doctor._extra("spark")
    assert row.found == f"pyspark 4.1.0, pyarrow 24.0.0, pandas {pandas}"
    assert row.problem == ("" if is_well else "pip install 'pandas>=2.2,<3'")
