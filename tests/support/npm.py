"""Packages that npm brings, for tests; they are skipped where it is missing or brings nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LIMIT_S = 180


def node_modules(home: Path, package: str) -> Path:
    """Install a package, such as ``kafkajs@2.2.4``, and return the directory that has it."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node or npm is not installed")
    command = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund"]
    command += ["--fetch-retries=1", package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not bring {package} within {LIMIT_S} s")
    if done.returncode != 0:
        pytest.skip(f"npm does not bring {package}: {done.stderr.strip()[-300:]}")
    return home / "node_modules"
