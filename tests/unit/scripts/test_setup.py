"""Scripts of a checkout without .venv: what they make, and what they say first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def run(checkout: Path, script: str, python: str) -> subprocess.CompletedProcess[str]:
    (checkout / "scripts").mkdir(exist_ok=True)
    shutil.copy(SCRIPTS / script, checkout / "scripts" / script)
    environment = {"PATH": os.environ["PATH"], "PYTHON": python}
    return subprocess.run(
        [checkout / "scripts" / script], env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(("needed", "output"), [("os", "drawn\n"), ("no_such_package", "set up\n")])
def test_docs_are_drawn_without_a_venv_if_the_packages_are_there(
    tmp_path: Path, needed: str, output: str
) -> None:
    (tmp_path / "scripts" / "lib").mkdir(parents=True)
    draw = f"import {needed}\nif __name__ == '__main__':\n    print('drawn')\n"
    (tmp_path / "scripts" / "lib" / "docs.py").write_text(draw)
    setup = tmp_path / "scripts" / "setup"
    setup.write_text("#!/bin/sh\necho set up\nexit 1\n")
    setup.chmod(0o755)
    assert run(tmp_path, "docs", sys.executable).stdout == output


def test_setup_says_first_that_it_makes_a_venv(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n[ $1 = -c ]\n")  # it has no module venv
    python.chmod(0o755)
    done = run(tmp_path, "setup", str(python))
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"minikafka: making .venv with {python}"
