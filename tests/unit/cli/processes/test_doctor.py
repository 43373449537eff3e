"""The verb doctor says what is there and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minikafka.cli.main import main
from minikafka.cli.processes import doctor


def test_it_looks_at_all_that_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "--json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows)[:4] == ["python", "java of zookeeper", "jars of zookeeper", "java of spark"]
    assert {"pyspark", "pyarrow", "pandas", "data source"} <= rows.keys()
    assert status == (1 if any(row["problem"] for row in rows.values()) else 0)
    assert rows["data source"]["found"].endswith("pyspark_minikafka")


def test_missing_parts_are_listed_with_install_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.setattr("minikafka.cli.processes.embedded_zookeeper.DEBIAN_JARS", tmp_path)
    rows = {row.what: row for row in doctor.examine({"PATH": str(tmp_path)})}
    for what in ("java of zookeeper", "jars of zookeeper", "java of spark", "data source"):
        assert "in a checkout: pip install '.[" in rows[what].problem


@pytest.mark.parametrize(
    ("there", "is_well"), [("2.1.9", False), ("2.2.0", True), ("2.10.1", True), ("3.0.1", False)]
)
def test_versions_are_compared_as_numbers(
    there: str, is_well: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "version", lambda _: there)
    finding = doctor._package("pandas", (2, 2), (3,))
    assert finding.found == there
    assert (finding.problem == "") is is_well
