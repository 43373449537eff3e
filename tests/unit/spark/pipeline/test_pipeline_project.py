"""The project that `pipeline init` creates."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("yaml")

from minikafka.kernel.config import ConfigError
from minikafka.spark.pipeline.engine import load_default_engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.project import FILES, make_project
from minikafka.spark.pipeline.spec import load_spec, parse_spec


def test_a_new_project_can_be_loaded(tmp_path: Path) -> None:
    written = make_project(tmp_path / "shop")
    assert [str(file.relative_to(tmp_path / "shop")) for file in written] == list(FILES)
    spec = load_spec(tmp_path / "shop")
    assert (spec.name, spec.local_storage()) == ("shop", tmp_path / "shop" / "state")
    assert [file.name for file in spec.definition_files()] == ["orders.py", "totals.sql"]
    engine = load_default_engine(spec.folder)
    assert (engine.master, engine.trigger_interval_ms) == ("local[*]", 1000)
    assert engine.metastore_dir == tmp_path / "shop" / "state" / "metastore"
    for file in spec.definition_files():
        if file.suffix == ".py":
            compile(file.read_text(), str(file), "exec")
    with pytest.raises(PipelineError, match="exists already"):
        make_project(tmp_path / "shop")


@pytest.mark.parametrize("name", ["2024", "yes", "tea&cake:new", "läden"])
def test_a_project_name_is_quoted_for_yaml(tmp_path: Path, name: str) -> None:
    make_project(tmp_path / name)
    spec = load_spec(tmp_path / name)
    assert (spec.name, spec.local_storage()) == (name, tmp_path / name / "state")


@pytest.mark.parametrize("name", ["my shop", "a%20b", "shop#1", "new?"])
def test_a_path_that_uris_escape_is_refused(tmp_path: Path, name: str) -> None:
    """Spark would keep checkpoints of tables in my%20shop in a triggered run, in my shop in a
    continuous run."""
    with pytest.raises(PipelineError, match="Spark takes no spaces"):
        make_project(tmp_path / name)
    data = {"name": "p", "storage": f"file:///{name}/state"}
    with pytest.raises(ConfigError, match="Spark takes no spaces"):
        parse_spec(Path("/p/spark-pipeline.yml"), data)
