"""The password of `users --create` where there is no terminal."""

from __future__ import annotations

import getpass
import warnings

import pytest

from minikafka.cli import main


def test_without_a_terminal_it_says_how_to_give_the_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fallback(prompt: str) -> str:
        """As ``getpass`` does without a terminal."""
        warnings.warn("Can not control echo", getpass.GetPassWarning, stacklevel=2)
        raise AssertionError("it would be echoed")

    monkeypatch.setattr("minikafka.cli.cluster.users.read_password.__defaults__", (fallback,))
    words = ["users", "--create", "--user", "u", "--bootstrap-server", "x:1"]
    assert main.main(words) == main.USAGE
    assert capsys.readouterr().err == (
        "minikafka: there is no terminal to ask for the password: give --password-env NAME, or "
        "--password-file FILE (- for standard input)\n"
    )
