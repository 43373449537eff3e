"""What a verb prints of an error that ends it, and of its help."""

from __future__ import annotations

import errno

import pytest

from minikafka.cli.main import FAILED, describe, main
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import ConnectionLost, SessionExpired


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SessionExpired("/brokers/ids/1"), "the ZooKeeper session expired"),
        (ConnectionLost("no ZooKeeper server at here:1 answered"), "no ZooKeeper server at here:1"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), "directory: /x"),
        (ConfigError("broker.id is missing"), "broker.id is missing"),
        (TimeoutError(), "TimeoutError"),
        (
            KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            "UNKNOWN_TOPIC_OR_PARTITION: there is no such topic",
        ),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), "NOT_LEADER_OR_FOLLOWER"),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t"), "UNKNOWN_TOPIC_OR_PARTITION: t"),
    ],
)
def test_an_error_is_one_line_with_its_cause(error: BaseException, said: str) -> None:
    assert said in describe(error)
    assert "\n" not in describe(error)


@pytest.mark.parametrize(("columns", "least", "most"), [("60", 40, 58), ("200", 80, 198)])
def test_help_is_as_wide_as_the_terminal(
    columns: str,
    least: int,
    most: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        main(["stop", "--help"])
    assert least < max(map(len, capsys.readouterr().out.splitlines())) <= most


def test_a_signal_while_modules_are_imported_ends_the_verb_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python may be in the middle of the modules that define the other errors."""
    monkeypatch.setattr("minikafka.cli.main.ports", object())
    monkeypatch.setattr("minikafka.cli.main.overview", interrupted)
    assert main(["--help"]) == FAILED


def interrupted() -> str:
    raise KeyboardInterrupt
