"""The errors and the exit status of the verb `pipeline`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from minikafka.cli.main import main
from minikafka.spark.pipeline.engine import Engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.project import make_project
from minikafka.spark.pipeline.spec import Spec


def test_a_failed_flow_sets_the_exit_status_and_prints_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark.pipelines")

    def fail(*_: object) -> None:
        os.write(2, b"26/11/21 20:00:00 WARN noise")
        raise PipelineError("flow even failed: KafkaError: no leader")

    monkeypatch.setattr("minikafka.spark.pipeline.continuous.run_continuously", fail)
    make_project(tmp_path / "shop")
    assert main(["pipeline", "run", str(tmp_path / "shop"), "--continuous"]) == 1
    out, err = capfd.readouterr()
    log = tmp_path / "shop" / "state" / "logs" / "continuous.log"
    assert out == f"pipeline=shop log={log}\n"
    assert err == "minikafka: flow even failed: KafkaError: no leader\n"
    assert log.read_text().endswith("WARN noise")


@pytest.mark.parametrize("mode", ["continuous.run_continuously", "triggered.run_once"])
def test_a_run_removes_the_offsets_that_a_killed_run_has_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Of first batches alone. Everything else stays, for Spark to judge."""
    pytest.importorskip("pyspark.pipelines")
    folder = tmp_path / "shop"
    make_project(folder)
    root = folder / "state" / "_checkpoints"
    unfinished = {
        f"{checkpoint}/offsets/{name}"
        for checkpoint in ("sink/flow/0", "spark_catalog/default/table/flow/1")
        for name in (".0.5d1c.tmp", "..0.5d1c.tmp.crc")
    }
    kept = {
        "sink/flow/0/metadata",
        "spark_catalog/default/table/flow/1/commits/0",
        "spark_catalog/default/table/flow/1/state/0/0/1.delta",
        "sink/planned/0/offsets/0",
        "sink/planned/0/offsets/.0.5d1c.tmp",
        "sink/later/0/offsets/7",
        "sink/later/0/offsets/.8.5d1c.tmp",
        "sink/later/0/commits/.7.5d1c.tmp",
    }
    for file in unfinished | kept:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    found: list[set[str]] = []

    def run(*_: object) -> None:
        found.append({str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()})

    monkeypatch.setattr(f"minikafka.spark.pipeline.{mode}", run)
    words = ["--continuous"] if mode.startswith("continuous") else []
    assert main(["pipeline", "run", str(folder), *words]) == 0
    assert found == [kept]


@pytest.mark.mission("SPF-2")
def test_a_check_writes_no_storage_and_needs_no_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its log is elsewhere then, and stays after a failure."""
    pytest.importorskip("pyspark.pipelines")
    calls: list[tuple[Engine, str, Path]] = []
    failures: list[Exception] = []

    def check(spec: Spec, engine: Engine, catalog: str, log: Path, show: object) -> None:
        assert log.is_file()
        calls.append((engine, catalog, log))
        if failures:
            raise failures[0]

    monkeypatch.setattr("minikafka.spark.pipeline.triggered.check", check)
    shop = make_project(tmp_path / "shop")[0].parent
    (tmp_path / "file").touch()  # no folder can be made in it, even by root
    spec = shop / "spark-pipeline.yml"
    lines = spec.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("storage:"))
    lines[at] = f'storage: "file://{tmp_path}/file/storage"'
    spec.write_text("\n".join(lines))
    assert main(["pipeline", "check", str(shop)]) == 0
    assert calls.pop()[1:] == ("hive", shop / "state" / "logs" / "check.log")

    settings = tmp_path / "spark.properties"
    settings.write_text(f"state.dir={tmp_path}/file/state\n")
    command = ["pipeline", "check", str(shop), "--config", str(settings)]
    assert main(command) == 0
    engine, catalog, log = calls.pop()
    assert catalog == "in-memory"
    assert str(tmp_path / "file") not in engine.warehouse_dir
    assert not engine.state_dir.exists()
    failures.append(PipelineError("flow even: no such table"))
    assert main(command) == 1
    assert capfd.readouterr().err == "minikafka: flow even: no such table\n"
    engine, _, log = calls.pop()
    assert log.is_file()
    shutil.rmtree(engine.state_dir)


def test_each_user_error_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "init", "shop"]) == 0
    assert main(["pipeline", "init", "shop"]) == 1
    assert main(["pipeline", "run", "shop", "--continuous", "--trigger", "often"]) == 2
    assert main(["pipeline", "run", "shop", "--metrics", "9095"]) == 2
    assert main(["pipeline", "run", "shop", "--continuous", "--metrics", "here"]) == 1
    assert main(["pipeline", "run", "nowhere"]) == 1
    with monkeypatch.context() as older:
        older.setattr("minikafka.cli.pipeline.PIPELINES", "no-such-folder")
        assert main(["pipeline", "run", "shop", "--continuous"]) == 1
    assert capfd.readouterr().err.splitlines() == [
        "minikafka: shop exists already: choose another name",
        "minikafka: --trigger often: not a duration, write 1s or 500ms",
        "minikafka: --metrics needs --continuous (triggered runs: pipeline status --prometheus)",
        "minikafka: metrics.listener here: expected [HOST:]PORT",
        "minikafka: No such file or directory: nowhere",
        "minikafka: pipelines need PySpark 4.1 or newer: this one has no spark-pipelines",
    ]
    assert os.listdir(tmp_path) == ["shop"]


def test_the_verb_is_imported_without_pyspark() -> None:
    """Otherwise it could not report that PySpark is not installed."""
    program = "import sys; sys.modules['pyspark'] = None; import minikafka.cli.pipeline"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_full_refresh_of_all_is_never_an_abbreviation(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """spark-pipelines has a --full-refresh TABLE, which clears this table only."""
    make_project(tmp_path / "shop")
    with pytest.raises(SystemExit) as end:
        main(["pipeline", "run", "--full-refresh", str(tmp_path / "shop")])
    assert end.value.code == 2
    assert "unrecognized arguments: --full-refresh" in capfd.readouterr().err
