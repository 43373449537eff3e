"""Downloads Pyodide from npm and wheels from PyPI, in fixed versions whose hashes are checked."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from minikafka.page.learn.wasm import SiteError

VERSION: Final = "314.0.7"
INTEGRITY: Final = (  # npm's, of the package's archive
    "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pO"
    "ttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
)
RUNTIME: Final = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
STDLIB: Final = "python_stdlib.zip"
LOCK: Final = "pyodide-lock.json"
PYTHON: Final = "3.14"
ABI: Final = "cp314"
PLATFORM: Final = "pyemscripten_2026_0_wasm32"
REQUIREMENTS: Final = Path(__file__).parent / "requirements.txt"


def fetch_pyodide(folder: Path) -> Path:
    """Unpack Pyodide's npm package below ``folder``; return the directory with its files. Raises
    SiteError."""
    npm = shutil.which("npm")
    if npm is None:
        raise SiteError("npm, which gets Pyodide, is not installed")
    run([npm, "pack", "--silent", f"pyodide@{VERSION}"], folder, "npm does not bring Pyodide")
    archive = folder / f"pyodide-{VERSION}.tgz"
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != INTEGRITY:
        raise SiteError(f"npm's pyodide {VERSION} has the hash sha512-{digest}, not {INTEGRITY}")
    unpacked = folder / "pyodide"
    unpacked.mkdir()
    with tarfile.open(archive) as packed:
        for name in (*RUNTIME, STDLIB, LOCK):
            member = packed.extractfile(f"package/{name}")
            assert member is not None, f"{name} is a file: the hash is known"
            (unpacked / name).write_bytes(member.read())
    return unpacked


def fetch_wheels(folder: Path) -> list[Path]:
    """Download the wheels of ``requirements.txt`` that run in Pyodide. Raises SiteError."""
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(folder)),
        *("--implementation", "cp", "--python-version", PYTHON, "--abi", ABI, "--abi", "none"),
        *("--platform", PLATFORM, "--platform", "any", "--requirement", str(REQUIREMENTS)),
    ]
    run(command, folder, "pip does not bring the wheels")
    return sorted(folder.glob("*.whl"))


def run(command: Sequence[str], folder: Path, failure: str) -> None:
    """Run a command in ``folder``. Raises SiteError with the last line that it wrote."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "it wrote nothing").splitlines()
        raise SiteError(f"{failure}: {said[-1]}")
