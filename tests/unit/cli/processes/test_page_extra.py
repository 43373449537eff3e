"""Whether `up` starts the page: only where the extra `ui` is installed, and unless refused."""

from __future__ import annotations

import argparse

import pytest

from minikafka.cli.processes import up

pytestmark = pytest.mark.mission("GLASS-25")


@pytest.mark.parametrize(
    ("installed", "options", "starts", "said"),
    [
        (True, [], True, ""),
        (True, ["--no-page"], False, ""),
        (False, [], False, ""),
        (False, ["--page-port", "8080"], False, "the page needs the extra ui"),
        (False, ["--no-page", "--page-port", "8080"], False, ""),
    ],
)
def test_the_page_is_an_extra(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    installed: bool,
    options: list[str],
    starts: bool,
    said: str,
) -> None:
    monkeypatch.setattr(up, "missing_modules", lambda _: [] if installed else ["uvicorn"])
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    assert up.has_page(parser.parse_args(options)) is starts
    err = capsys.readouterr().err
    assert (said in err) if said else (err == "")
