"""The examples of docs/how-to/testing.md, in a project of a user's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs/how-to/testing.md").read_text()
BLOCKS = re.findall(r"```python(?: name=(\S+))?\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.mission("IN-87")
def test_the_examples_pass(tmp_path: Path) -> None:
    for number, (name, block) in enumerate(BLOCKS):
        (tmp_path / (name or f"test_{number}.py")).write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    installed = subprocess.run([*command, "--markers"], capture_output=True, text=True)
    if "minikafka" not in installed.stdout:
        command += ["-p", "minikafka.testing.plugin"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.returncode == 0, done.stdout[-5000:]
    assert f"{len(BLOCKS) - 1} passed" in done.stdout


@pytest.mark.mission("IN-87")
def test_an_unused_fault_fails_an_example(tmp_path: Path) -> None:
    """As the page says: without its fault the first recipe shows nothing."""
    application = next(block for name, block in BLOCKS if name)
    recipe = next(block for _, block in BLOCKS if "disconnect" in block)
    (tmp_path / "billing.py").write_text(application)
    (tmp_path / "test_it.py").write_text(recipe.replace('group="billing"', 'group="other"'))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.returncode == 1, done.stdout[-5000:]
    assert "never struck: " in done.stdout
