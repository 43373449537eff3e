"""Every script installs the extras that its modules under scripts/lib import."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hidden_packages import hiding, modules_outside

ROOT = Path(__file__).parents[2]
SETUP = re.compile(r"^ *scripts/setup (?P<extras>[\w ]+?) *(?:#.*)?$", re.M)
MODULE = re.compile(r"-m (scripts\.lib\.\w+)")
# Run with other Pythons than that of .venv.
ELSEWHERE = {"scripts.lib.smoke", "scripts.lib.extras_check"}
IMPORT_ALL = """
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
print(*sorted(name for name in sys.modules if name.startswith("scripts.lib.")))
"""


def modules_below(name: str) -> Iterator[str]:
    """Yield the module ``name``, or the modules of the package but for its ``__main__``."""
    path = ROOT / name.replace(".", "/")
    if not path.is_dir():
        yield name
        return
    for file in sorted(path.rglob("*.py")):
        if file.name not in ("__main__.py", "__init__.py"):
            yield ".".join(file.relative_to(ROOT).with_suffix("").parts)


def modules_by_extras() -> dict[frozenset[str], list[str]]:
    """Return the modules that scripts run, by the extras that the script installs."""
    found: dict[frozenset[str], list[str]] = {}
    for script in sorted((ROOT / "scripts").iterdir()):
        text = script.read_text() if script.is_file() else ""
        if modules := dict.fromkeys(MODULE.findall(text)):
            extras = (match["extras"].split() for match in SETUP.finditer(text))
            names = found.setdefault(frozenset(e for each in extras for e in each), [])
            names += (name for module in modules for name in modules_below(module))
    return found


@pytest.fixture(scope="module")
def imports() -> dict[str, subprocess.CompletedProcess[str]]:
    """Import the modules of scripts, by the extras that these install, without other packages. The
    output names the modules of scripts.lib that were imported."""
    running = {}
    for extras, names in modules_by_extras().items():
        program = hiding(modules_outside(extras)) + IMPORT_ALL.format(names=names)
        running[" ".join(sorted(extras))] = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
        )
    return running


def test_scripts_import_only_packages_that_they_install(
    imports: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    assert {extras: each.stderr[-800:] for extras, each in imports.items() if each.returncode} == {}


def test_every_module_belongs_to_a_script(
    imports: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    imported = {module for each in imports.values() for module in each.stdout.split()}
    assert set(modules_below("scripts.lib")) - imported == ELSEWHERE
