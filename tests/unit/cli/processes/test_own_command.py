"""New processes of minikafka import nothing from the directory they are started in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from minikafka.kernel.own_command import own_command


def test_a_module_of_the_working_directory_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argparse.py").write_text("raise SystemExit('not that of the library')")
    monkeypatch.chdir(tmp_path)
    ran = subprocess.run(own_command("--version"), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("minikafka ")


def test_the_package_is_imported_from_the_working_directory_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parents[4])
    assert "-P" not in own_command()
