"""What a pipeline is made of as files: spec, engine settings, a new project, one run at a time."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from minikafka.cli.main import main
from minikafka.kernel.config import ConfigError
from minikafka.spark.pipeline.engine import ENGINE_SETTINGS, load_engine, parse_engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.project import FILES, make_project
from minikafka.spark.pipeline.run_lock import is_running, only_run
from minikafka.spark.pipeline.settings import static_settings
from minikafka.spark.pipeline.spec import load_spec, parse_spec


def test_a_new_project_is_one_that_can_be_loaded(tmp_path: Path) -> None:
    made = make_project(tmp_path / "shop")
    assert [str(file.relative_to(tmp_path / "shop")) for file in made] == list(FILES)
    spec = load_spec(tmp_path / "shop")
    assert (spec.name, spec.local_storage()) == ("shop", tmp_path / "shop" / "state")
    assert [file.name for file in spec.definition_files()] == ["orders.py", "totals.sql"]
    engine = load_engine(spec.folder, None)
    assert (engine.master, engine.trigger_interval_ms) == ("local[*]", 1000)
    assert engine.metastore_dir == tmp_path / "shop" / "state" / "metastore"
    for file in spec.definition_files():
        if file.suffix == ".py":
            compile(file.read_text(), str(file), "exec")
    with pytest.raises(PipelineError, match="is there already"):
        make_project(tmp_path / "shop")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"name": "p"}, "field storage is missing"),
        ({"name": "p", "storage": "s", "steps": []}, "unknown field steps"),
        ({"name": "p", "storage": "s", "configuration": {"a": 2}}, "quote numbers"),
        ({"name": "p", "storage": "s", "libraries": ["x"]}, "glob: include"),
        ({"name": "p", "storage": "state"}, "such as file:///p/state"),
        ({"name": "p", "storage": "/p/state"}, "such as file:///p/state"),
    ],
)
def test_a_spec_that_is_wrong(data: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_spec(Path("/p/spark-pipeline.yml"), data)


def test_a_spec_reads_as_spark_pipelines_reads_it(tmp_path: Path) -> None:
    cli = pytest.importorskip("pyspark.pipelines.cli")
    make_project(tmp_path / "shop")
    ours = load_spec(tmp_path / "shop")
    theirs = cli.load_pipeline_spec(ours.path)
    assert ours.storage == theirs.storage
    assert (ours.name, ours.configuration) == (theirs.name, theirs.configuration)
    globs = [library.include for library in theirs.libraries]
    files = [file for glob in globs for file in sorted(ours.folder.glob(glob)) if file.is_file()]
    assert list(ours.definition_files()) == files


@pytest.mark.parametrize("name", ["2024", "yes", "tea&cake:new", "läden"])
def test_a_project_may_have_such_a_name(tmp_path: Path, name: str) -> None:
    make_project(tmp_path / name)
    spec = load_spec(tmp_path / name)
    assert (spec.name, spec.local_storage()) == (name, tmp_path / name / "state")


@pytest.mark.parametrize("name", ["my shop", "a%20b", "shop#1", "new?"])
def test_where_spark_would_keep_checkpoints_apart(tmp_path: Path, name: str) -> None:
    """Those of tables in my%20shop when it is run once, in my shop when it is run for ever."""
    with pytest.raises(PipelineError, match="Spark takes no spaces"):
        make_project(tmp_path / name)
    data = {"name": "p", "storage": f"file:///{name}/state"}
    with pytest.raises(ConfigError, match="Spark takes no spaces"):
        parse_spec(Path("/p/spark-pipeline.yml"), data)


def test_the_engines_state_may_be_in_a_folder_with_spaces() -> None:
    engine = parse_engine(Path("/my shop"), {"spark.driver.extraJavaOptions": "-Da=b"})
    options = static_settings(engine)["spark.driver.extraJavaOptions"]
    assert shlex.split(options) == ["-Da=b", "-Dderby.system.home=/my shop/state/metastore"]


def test_storage_elsewhere_and_files_of_other_kinds(tmp_path: Path) -> None:
    spec = parse_spec(
        tmp_path / "spark-pipeline.yml",
        {
            "name": "p",
            "storage": "hdfs://there/p/",
            "schema": "sales",
            "libraries": [{"glob": {"include": "*.txt"}}],
        },
    )
    assert (spec.storage, spec.local_storage(), spec.database) == ("hdfs://there/p", None, "sales")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"notes\.txt: definitions are"):
        list(spec.definition_files())
    with pytest.raises(ConfigError, match="none is there"):
        load_spec(tmp_path)


def test_engine_settings(tmp_path: Path) -> None:
    engine = parse_engine(
        tmp_path, {"master": "spark://h:7077", "spark.driver.memory": "2g", "state.dir": "/var/p"}
    )
    assert engine.master == "spark://h:7077"
    assert engine.spark == {"spark.driver.memory": "2g"}
    assert engine.log_file("run") == Path("/var/p/logs/run.log")
    assert engine.warehouse_dir == "/var/p/warehouse"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("trigger.interval=5", "did you mean trigger.interval.ms"),
        ("trigger.interval.ms=soon", "Not a number of type INT"),
        ("trigger.interval.ms=-1", "Value must be at least 0"),
        ("log.level=LOUD", "String must be one of: ALL, "),
    ],
)
def test_engine_settings_that_are_wrong(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "spark.properties"
    file.write_text(line)
    with pytest.raises(ConfigError, match=f"{file}: .*{complaint}"):
        load_engine(tmp_path, file)


def test_the_documents_tell_all_engine_settings() -> None:
    text = Path("docs/spark.md").read_text()
    for name, setting in ENGINE_SETTINGS.settings.items():
        default = setting.text(setting.default)
        assert f"| `{name}` |{f' {default}' if default else ''} | " in text, name


def test_a_flow_that_fails_is_an_exit_status(
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


def test_one_run_at_a_time(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert not is_running(state)
    with only_run(state):
        assert is_running(state)
        with only_run(state, "may.lock", "replay of may"):
            pass
        with pytest.raises(PipelineError, match="another run"), only_run(state):
            pass
    assert not is_running(state)


def test_the_verb_says_in_one_line_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "init", "shop"]) == 0
    assert main(["pipeline", "init", "shop"]) == 1
    assert main(["pipeline", "run", "shop", "--continuous", "--trigger", "often"]) == 1
    assert main(["pipeline", "run", "nowhere"]) == 1
    monkeypatch.setattr("minikafka.cli.pipeline.NEEDED", ("pyspark", "no_such_package"))
    assert main(["pipeline", "check", "shop"]) == 1
    assert capfd.readouterr().err.splitlines() == [
        "minikafka: shop is there already",
        "minikafka: --trigger often: no duration, e.g. 1s or 500ms",
        "minikafka: No such file or directory: nowhere",
        "minikafka: not installed: no_such_package (in a checkout: pip install '.[spark]')",
    ]
    assert os.listdir(tmp_path) == ["shop"]
