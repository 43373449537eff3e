"""The spec of a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("yaml")

from minikafka.kernel.config import ConfigError
from minikafka.spark.pipeline.project import make_project
from minikafka.spark.pipeline.spec import load_spec, parse_spec


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
def test_an_invalid_spec_is_refused(data: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_spec(Path("/p/spark-pipeline.yml"), data)


def test_a_spec_is_read_as_spark_pipelines_reads_it(tmp_path: Path) -> None:
    cli = pytest.importorskip("pyspark.pipelines.cli")
    make_project(tmp_path / "shop")
    ours = load_spec(tmp_path / "shop")
    theirs = cli.load_pipeline_spec(ours.path)
    assert ours.storage == theirs.storage
    assert (ours.name, ours.configuration) == (theirs.name, theirs.configuration)
    globs = [library.include for library in theirs.libraries]
    files = [file for glob in globs for file in sorted(ours.folder.glob(glob)) if file.is_file()]
    assert list(ours.definition_files()) == files


def test_storage_may_be_remote_and_other_files_are_no_definitions(tmp_path: Path) -> None:
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
    with pytest.raises(ConfigError, match=r"notes\.txt: a definition file must end"):
        list(spec.definition_files())
    with pytest.raises(ConfigError, match="it has neither"):
        load_spec(tmp_path)
