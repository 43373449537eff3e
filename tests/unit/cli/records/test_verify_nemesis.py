"""The options of `verify` about its nemesis: what they mean, and which are refused."""

from __future__ import annotations

import argparse

import pytest

from minikafka.cli.records.verify_nemesis import add_nemesis_arguments, nemesis_of
from minikafka.cli.usage import WrongUsage
from minikafka.client import ClientConfig
from minikafka.testing.verify.nemesis.commands import CommandPlace
from minikafka.testing.verify.nemesis.compose import ComposePlace
from minikafka.testing.verify.nemesis.nemesis import ClusterNemesis, NemesisConfig
from minikafka.testing.verify.nemesis.places import NemesisPlace
from minikafka.testing.verify.nemesis.plan import FaultKind
from minikafka.testing.verify.nemesis.up import UpPlace
from minikafka.world.real.world import real_world


def made(*words: str) -> ClusterNemesis | None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--topic", default="")
    parser.add_argument("--topic-config", action="append", default=[])
    add_nemesis_arguments(parser)
    return nemesis_of(parser.parse_args(words), real_world(), ClientConfig())


def config_of(*words: str) -> NemesisConfig:
    nemesis = made(*words)
    assert nemesis is not None
    return nemesis._config


def places_of(*words: str) -> list[type[NemesisPlace]]:
    nemesis = made("--nemesis", "all", *words)
    assert nemesis is not None
    return [type(place) for place in nemesis._places[:-1]]


def test_settings() -> None:
    assert made() is None
    config = config_of(
        *("--nemesis", "elect,kill9", "--nemesis-seed", "7", "--nemesis-longest-s", "2.5"),
        *("--nemesis-calm-s", "1", "--nemesis-limit-s", "60", "--replication-factor", "5"),
        *("--topic-config", "min.insync.replicas=3"),
    )
    assert config == NemesisConfig(
        (FaultKind.KILL9, FaultKind.ELECT), 7, 5, 3, 2_500, 1_000, 60_000, False
    )
    choosy = config_of("--nemesis", "all")
    assert choosy.kinds == tuple(FaultKind)
    assert choosy.is_choosy
    assert choosy.seed != config_of("--nemesis", "all").seed
    assert (choosy.replication_factor, choosy.min_insync_replicas) == (-1, 0)


def test_places() -> None:
    command = ("--nemesis-command", "cut=ssh {host} cut")
    assert places_of() == []
    assert places_of("--nemesis-data-dir", "data") == [UpPlace]
    assert places_of("--nemesis-compose", "project") == [ComposePlace]
    assert places_of("--nemesis-data-dir", "data", *command) == [CommandPlace, UpPlace]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--nemesis-data-dir", "data"], "--nemesis says which"),
        (["--nemesis-command", "cut=x"], "--nemesis says which"),
        (
            ["--nemesis", "cut", "--nemesis-data-dir", "a", "--nemesis-compose", "b"],
            "two places of one cluster",
        ),
        (["--nemesis", "cut", "--nemesis-command", "hurt=x"], "no fault hurt; there are kill9"),
        (["--nemesis", "cut", "--nemesis-command", "cut"], "KEY=VALUE"),
        (["--nemesis", "cut", "--nemesis-end-command", "cut=x"], "must say how it begins"),
    ],
)
def test_refused(words: list[str], expected: str) -> None:
    with pytest.raises(WrongUsage, match=expected):
        made(*words)


def test_unknown_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("kill9,hurt", ","):
        with pytest.raises(SystemExit):
            made("--nemesis", text)
        assert "there are kill9, term, stop" in capsys.readouterr().err
