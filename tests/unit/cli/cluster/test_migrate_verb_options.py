"""The verb migrate: options that do not go together, kinds, directories of a stopped broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.cli.cluster.migration_facts import in_file, kind_of, read_directory, usable_bytes
from minikafka.cli.main import main
from minikafka.core.client.admin.configs import ConfigValue
from minikafka.core.client.admin.replicas import LogDirDescription
from minikafka.core.config_resources import SOFTWARE_VERSION, ConfigSource
from minikafka.core.migration.facts import DirectoryFacts, Kind
from minikafka.kernel.errors import ErrorCode

SERVER = ("--bootstrap-server", "h:1")


@pytest.mark.mission("MIX-35")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("check --to minikafka --kafka-version 2.8", "--kafka-version goes with --to kafka"),
        ("check --to kafka --kafka-version 4.0", "--kafka-version is one of 2.0 to 3.9, not 4.0"),
        ("check --to kafka --kafka-version x", "--kafka-version is one of"),
        ("plan --to kafka --throttle 5", "--throttle goes with --way add"),
        ("plan --to kafka --reassignment-json-file f", "--reassignment-json-file goes with"),
    ],
)
def test_bad_use_has_exit_status_2(
    words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", *words.split(), *SERVER]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.mission("MIX-35")
@pytest.mark.parametrize("words", ["check", "check --to both", "check --to kafka --accept all"])
def test_unknown_words_have_exit_status_2(words: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["migrate", *words.split(), *SERVER])
    assert end.value.code == 2


def test_an_invalid_address_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "check", "--to", "kafka", "--bootstrap-server", "h:x"]) == 2
    assert "h:x" in capsys.readouterr().err


def row(name: str, value: str | None, source: ConfigSource) -> ConfigValue:
    synonyms = () if source is ConfigSource.DEFAULT_CONFIG else ((name, value, source),)
    return ConfigValue(name, value, source, True, value is None, synonyms)


@pytest.mark.mission("MIX-30")
def test_a_file_cannot_change_the_kind() -> None:
    """Kafka lists an unknown key of its file without the value."""
    ours = row(SOFTWARE_VERSION, "1.0", ConfigSource.DEFAULT_CONFIG)
    feigned = row(SOFTWARE_VERSION, None, ConfigSource.STATIC_BROKER_CONFIG)
    assert kind_of({ours.name: ours}) is Kind.MINIKAFKA
    assert kind_of({feigned.name: feigned}) is kind_of({}) is Kind.KAFKA


def test_settings_of_the_file_are_recognised_by_their_source() -> None:
    key, static = "log.retention.ms", ConfigSource.STATIC_BROKER_CONFIG
    dynamic = ConfigSource.DYNAMIC_BROKER_CONFIG
    synonyms = ((key, "1", dynamic), ("log.retention.hours", "2", static))
    rows = {
        key: ConfigValue(key, "1", dynamic, False, False, synonyms),
        "a": row("a", None, static),
        "b": row("b", "4", ConfigSource.DEFAULT_CONFIG),
    }
    assert in_file(rows) == {"log.retention.hours": "2", "a": None}


@pytest.mark.mission("MIX-34")
def test_a_stopped_brokers_directory(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert read_directory(gone) == DirectoryFacts(str(gone), exists=False)
    assert read_directory(tmp_path) == DirectoryFacts(str(tmp_path), exists=True)
    (tmp_path / ".kafka_cleanshutdown").touch()
    for topic, magic in (("a-0", 2), ("b-0", 1), ("c-0", 0)):
        (tmp_path / topic).mkdir()
        (tmp_path / topic / "00000000000000000000.log").write_bytes(bytes(16) + bytes([magic, 0]))
        (tmp_path / topic / "00000000000000000007.log").touch()  # empty
    old = ("b-0/00000000000000000000.log", "c-0/00000000000000000000.log")
    assert read_directory(tmp_path) == DirectoryFacts(str(tmp_path), True, True, old)


@pytest.mark.mission("MIX-38")
def test_the_space_of_a_broker_is_that_of_its_volumes() -> None:
    def directory(total: int, usable: int, error: ErrorCode = ErrorCode.NONE) -> LogDirDescription:
        return LogDirDescription(error, total_bytes=total, usable_bytes=usable)

    offline = directory(-1, -1, ErrorCode.KAFKA_STORAGE_ERROR)
    assert usable_bytes([directory(9, 5), directory(9, 5), directory(8, 5), offline]) == 10
    assert usable_bytes([directory(9, 5), directory(-1, -1)]) is None
