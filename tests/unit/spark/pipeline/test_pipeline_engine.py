"""The engine settings of a pipeline, and the static settings of Spark made from them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.spark.pipeline.engine import (
    ENGINE_SETTINGS,
    load_engine,
    parse_engine,
    static_settings,
)


def test_the_state_folder_may_have_spaces() -> None:
    engine = parse_engine(Path("/my shop"), {"spark.driver.extraJavaOptions": "-Da=b"})
    options = static_settings(engine, "hive")["spark.driver.extraJavaOptions"]
    assert shlex.split(options) == ["-Da=b", "-Dderby.system.home=/my shop/state/metastore"]


def test_settings_of_spark_are_kept_apart_from_those_of_the_engine(tmp_path: Path) -> None:
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
def test_an_invalid_setting_is_refused_with_its_file(
    tmp_path: Path, line: str, complaint: str
) -> None:
    file = tmp_path / "spark.properties"
    file.write_text(line)
    with pytest.raises(ConfigError, match=f"{file}: .*{complaint}"):
        load_engine(tmp_path, file)


def test_the_documentation_lists_all_settings_and_defaults() -> None:
    text = Path("docs/how-to/spark.md").read_text()
    for name, setting in ENGINE_SETTINGS.settings.items():
        default = setting.text(setting.default)
        assert f"| `{name}` |{f' {default}' if default else ''} | " in text, name
