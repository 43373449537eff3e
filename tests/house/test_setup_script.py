"""scripts/setup says why packages could not be installed, in the words of pip."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CERTIFICATE = (
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'SSLError(SSLCert"
    "VerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed'))': /simple/"
)
NO_VERSION = "ERROR: Could not find a version that satisfies the requirement setuptools>=77"
PIP = """#!/bin/sh
[ "$3" = install ] || exit 0
cat <<'END'
{log}
END
exit 1
"""


def stderr_of_setup(folder: Path, log: str) -> str:
    """Run a copy of scripts/setup whose pip fails and prints ``log``."""
    for name in ("pyproject.toml", "constraints.txt", "setup.py"):
        shutil.copy(ROOT / name, folder)
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", folder / "scripts")
    (folder / "minikafka/protocol/records").mkdir(parents=True)
    (folder / "minikafka/protocol/records/record_loop.py").touch()
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP.format(log=log))
    python.chmod(0o755)
    done = subprocess.run(
        [folder / "scripts" / "setup", "demo"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    return done.stderr


def test_a_certificate_error_is_not_blamed_on_the_network(tmp_path: Path) -> None:
    stderr = stderr_of_setup(tmp_path, "\n".join([CERTIFICATE, CERTIFICATE, NO_VERSION]))
    assert stderr.count("CERTIFICATE_VERIFY_FAILED") == 1
    assert "network" not in stderr


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("NewConnectionError('[Errno 111] Connection refused')", "Connection refused"),
        (NO_VERSION, "setuptools>=77"),
        ("fatal error: Python.h: No such file or directory", "apt-get install python3-dev gcc"),
    ],
)
def test_the_reason_of_pip_is_shown(tmp_path: Path, log: str, said: str) -> None:
    assert said in stderr_of_setup(tmp_path, log)
