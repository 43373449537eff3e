"""Wrong command lines: exit status 2, the misspelled option and its nearest; defaults in --help."""

from __future__ import annotations

import importlib
import re
from argparse import SUPPRESS
from pathlib import Path
from typing import cast

import pytest

from minikafka.cli.main import USAGE, VERBS, main
from minikafka.cli.verb_parser import VerbParser, zookeeper_servers

SERVER = ("--bootstrap-server", "localhost:9092")


def status(*words: str) -> int:
    try:
        return main(words)
    except SystemExit as end:
        return cast(int, end.code)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "topics list --bootstrap-sever x:1",
            "--bootstrap-sever; did you mean --bootstrap-server?",
        ),
        ("topics --list --bootstrap-sever=x:1", "--bootstrap-sever; did you mean"),
        ("produce --topik t --bootstrap-server x:1", "--topik; did you mean --topic?"),
        ("up --data-dirr x", "--data-dirr; did you mean --data-dir?"),
        ("quotas set --bootstrap-server x:1 --produce-rate 1", "unknown option --produce-rate"),
        ("zookeeper --xyzzy", "unknown option --xyzzy\n"),
    ],
)
def test_a_misspelled_option(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*words.split()) == USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("topics lst --bootstrap-server x:1", "invalid choice: 'lst'"),
        ("produce --bootstrap-server x:1", "required: --topic"),
        ("produce --topic t --acks --bootstrap-server x:1", "--acks: expected one argument"),
    ],
)
def test_other_mistakes_keep_their_message(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(*words.split()) == USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("address", [":9092", "h:", "h:0", "h:99999", "h:x", "", "a:1,:2"])
@pytest.mark.parametrize(
    "verb",
    ["topics list", "consume --topic t", "perf consume --topic t --messages 1", "groups list"],
)
def test_a_malformed_address(verb: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*verb.split(), "--bootstrap-server", address) == USAGE
    assert "bootstrap.servers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "client.properties: No such file or directory"),
        ("security.protcol=SSL\n", "security.protcol; did you mean security.protocol?"),
        ("request.timeout.ms=soon\n", "request.timeout.ms=soon: no such value"),
        ("\xff", "client.properties: "),
    ],
)
@pytest.mark.parametrize("verb", ["topics list", "produce --topic t", "configs --describe"])
def test_a_wrong_command_config(
    verb: str, text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    words = [*verb.split(), *SERVER, "--command-config", str(file)]
    if verb.startswith("configs"):
        words += ["--topic", "t"]
    assert status(*words) == USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "acls --add --topic t",
        "configs --alter --topic t",
        "consume --topic t --offset 5",
        "groups list --state nonsense",
        "quotas set",
        "reassign --execute",
        "reassign --generate --topics-to-move-json-file f --broker-list 1,1",
        "tokens --renew",
        "topics create --topic t --replica-assignment 1:1",
        "transactions find-hanging",
        "users --create",
        "produce --topic t --property parse.key",
    ],
)
def test_options_that_do_not_go_together(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text('{"topics": [{"topic": "t"}], "version": 1}')
    assert status(*words.split(), *SERVER) == USAGE
    assert "minikafka: " in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_help_explains_every_option_and_has_its_default(verb: str) -> None:
    parsers = [VerbParser(prog=verb)]
    importlib.import_module(VERBS[verb][0]).add_arguments(parsers[0])
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action.choices, dict):
                parsers += list(action.choices.values())
                continue
            assert action.help, (parser.prog, action.option_strings)
            if action.option_strings and shown(action.default):
                text = parser._get_formatter()._expand_help(action).replace(",", "")
                assert re.search(rf"(?<!\w){re.escape(str(action.default))}(?!\w)", text)


def shown(default: object) -> bool:
    return isinstance(default, int | float | str) and default not in (False, "", -1, SUPPRESS)


@pytest.mark.parametrize(
    "words",
    [
        "up --zookeeper :9092",
        "secure --folder f --broker 1=h --bootstrap-server a:1 --zookeeper h:x",
        "migrate move-controller --broker 1 --zookeeper a:1,,b:2/k",
        "zookeeper-security --zookeeper.acl secure --zookeeper.connect h:99999",
    ],
)
def test_malformed_addresses_of_zookeeper(
    words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status(*words.split()) == USAGE
    assert "is not HOST:PORT" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_addresses_of_zookeeper() -> None:
    for text in ("h", "h:2181", "a:1,b:2/chroot", "[::1]:2181", "a:1, b:2"):
        assert zookeeper_servers(text) == text


def test_an_option_before_the_action_is_placed(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("quotas", "--bootstrap-server", "h:1", "describe") == USAGE
    assert "--bootstrap-server goes after the action: describe|set" in capsys.readouterr().err
