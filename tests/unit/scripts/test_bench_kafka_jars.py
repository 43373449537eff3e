"""The benches find the jars of official Kafka, or say where they looked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.lib import apache_kafka
from scripts.lib.apache_kafka import NoApacheKafka
from scripts.lib.bench.apache_kafka import JARS, jars, jars_in, jars_to_compare, version_in
from scripts.lib.bench.brokers import Brokers

ROOT = Path(__file__).resolve().parents[3]


def put_jar(folder: Path, name: str = "kafka_2.13-3.9.1.jar") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()
    return folder


def test_no_directory_is_named() -> None:
    assert jars({}) is None
    assert jars({JARS: ""}) is None


def test_the_named_directory_holds_the_jars(tmp_path: Path) -> None:
    put_jar(tmp_path)

    assert jars({JARS: str(tmp_path)}) == tmp_path


def test_the_jars_are_below_the_named_directory(tmp_path: Path) -> None:
    put_jar(tmp_path / "libs")

    assert jars_in(tmp_path) == tmp_path / "libs"


def test_the_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_jar(tmp_path / "libs")
    monkeypatch.chdir(tmp_path)

    assert jars_in(Path("libs")) == tmp_path / "libs"


@pytest.mark.parametrize("name", ["", "kafka-clients-3.9.1.jar", "kafka_2.13-3.9.1-sources.jar"])
def test_a_directory_without_a_broker_is_refused(tmp_path: Path, name: str) -> None:
    if name:
        put_jar(tmp_path, name)

    with pytest.raises(NoApacheKafka, match=str(tmp_path)):
        jars_in(tmp_path)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoApacheKafka, match="elsewhere"):
        jars({JARS: str(tmp_path / "elsewhere")})


def test_the_downloaded_jars_are_compared_if_no_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(apache_kafka.JARS, str(tmp_path / "downloaded"))
    named = put_jar(tmp_path / "named")
    with pytest.raises(NoApacheKafka, match="scripts/kafka-jars downloads"):
        jars_to_compare({})
    downloaded = put_jar(tmp_path / "downloaded" / apache_kafka.NEWEST)

    assert jars_to_compare({}) == downloaded
    assert jars_to_compare({JARS: str(named)}) == named


def test_the_version_is_in_the_name_of_the_jar(tmp_path: Path) -> None:
    assert version_in(tmp_path) == ""
    assert version_in(put_jar(tmp_path / "new")) == "3.9.1"
    assert version_in(put_jar(tmp_path / "old", "kafka_2.12-2.0.1.jar")) == "2.0.1"


def test_the_bench_says_so_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.lib.bench", "stalls"]
    done = subprocess.run(
        command, cwd=ROOT, env={JARS: str(tmp_path)}, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(
        f"bench: no jar of a Kafka broker (kafka_2.13-VERSION.jar) in {tmp_path}"
    )
    assert "Traceback" not in done.stderr


def test_a_broker_that_ends_at_its_start_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Brokers, "_start_zookeeper", lambda self: None)
    script = "import sys; sys.exit('no class kafka.Kafka')"
    brokers = Brokers(command=lambda _: [sys.executable, "-c", script])

    with pytest.raises(
        RuntimeError, match=r"broker 1 ended at its start.*\n.*no class kafka\.Kafka"
    ):
        brokers.__enter__()
