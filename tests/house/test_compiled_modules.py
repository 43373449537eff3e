"""What is compiled: the list, and what setup.py makes of it.

That mypyc accepts the modules is shown by CI, which compiles them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from scripts.lib.compiled_build import copy_files, fingerprint, listed_modules
from tests.support.compiled import is_compiled

ROOT = Path(__file__).parents[2]
# Stands for mypyc: two extensions, one of which no compiler accepts.
MYPYC = """
from pathlib import Path
from setuptools import Extension


def mypycify(options, **keywords):
    Path("called").write_text("\\n".join(options))
    Path("good.c").write_text("#include <Python.h>\\nPyObject *PyInit_good(void) { return 0; }")
    Path("bad.c").write_text("#error no")
    flags = ["-O2", "-Werror"]
    return [Extension(name, [name + ".c"], extra_compile_args=flags) for name in ("good", "bad")]
"""


def test_the_listed_modules_exist_once_and_in_order() -> None:
    listed = listed_modules(ROOT)
    assert listed == sorted(set(listed))
    assert [path for path in listed if not (ROOT / path).is_file()] == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our setup.py and nothing to compile but what a false mypyc makes."""
    shutil.copy(ROOT / "setup.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\n[tool.setuptools]\npackages = []\n'
        '[tool.minikafka]\ncompiled = ["x.py"]\n'
    )
    (tmp_path / "false/mypyc").mkdir(parents=True)
    (tmp_path / "false/mypyc/__init__.py").touch()
    (tmp_path / "false/mypyc/build.py").write_text(MYPYC)
    return tmp_path


def run_setup(project: Path, *command: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "false"), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("command", ["egg_info", "sdist"])
def test_these_commands_compile_nothing(project: Path, command: str) -> None:
    run_setup(project, command)
    assert not (project / "called").exists()


def test_an_editable_installation_compiles_the_loops_over_records_only(project: Path) -> None:
    run_setup(project, "editable_wheel")
    called = (project / "called").read_text().split("\n")
    paths = [option for option in called if option.endswith(".py")]
    assert [Path(path).name for path in paths] == ["record_loop.py"]
    assert set(paths) <= set(listed_modules(ROOT))


def test_a_pure_build_compiles_nothing(project: Path) -> None:
    run_setup(project, "build_ext", "--inplace", MINIKAFKA_PURE="1")
    assert not (project / "called").exists()


def test_without_a_compiler_the_build_goes_on(project: Path) -> None:
    stderr = run_setup(project, "build_ext", "--inplace", CC="no-such-compiler -x")
    assert "there is no no-such-compiler" in stderr
    assert not (project / "called").exists()


def test_without_one_extension_there_is_none(project: Path) -> None:
    stderr = run_setup(project, "build_ext", "--inplace")
    assert (project / "called").exists()
    assert "minikafka is not compiled" in stderr
    assert list(project.rglob("*.so")) == []


@pytest.mark.parametrize(
    ("file", "compiled"), [(f"x{EXTENSION_SUFFIXES[0]}", True), ("x.py", False)]
)
def test_targets_in_a_compiled_module(
    file: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("minikafka.x")
    module.__file__ = file
    monkeypatch.setitem(sys.modules, module.__name__, module)
    kind = type("Kind", (), {"__module__": module.__name__})
    for target in (module, kind, kind(), "minikafka.x.LIMIT", "minikafka.x.Kind.method"):
        assert is_compiled(target) == compiled


def test_a_copy_follows_the_checkout(tmp_path: Path) -> None:
    checkout, copy = tmp_path / "checkout", tmp_path / "copy"
    (checkout / "minikafka").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(checkout)], check=True)
    for name in (
        "setup.py",
        "pyproject.toml",
        "constraints.txt",
        "minikafka/a.py",
        "minikafka/b.py",
    ):
        (checkout / name).touch()
    (checkout / "pyproject.toml").write_text("[tool.minikafka]\ncompiled = []\n")
    (checkout / ".gitignore").write_text("*.so\n")
    (checkout / "minikafka/a.so").touch()
    copy_files(checkout, copy)
    before = fingerprint(copy)
    assert not (copy / "minikafka/a.so").exists()

    (copy / "minikafka/a.so").touch()  # compiled there
    (checkout / "minikafka/a.py").write_text("changed")
    (checkout / "minikafka/b.py").unlink()
    copy_files(checkout, copy)
    assert (copy / "minikafka/a.py").read_text() == "changed"
    assert not (copy / "minikafka/b.py").exists()
    assert (copy / "minikafka/a.so").exists()
    assert fingerprint(copy) != before
