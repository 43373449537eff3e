"""An interpreter that sees only the packages which some extras of pyproject.toml would install.

The packages of all extras are installed where the tests run. A subprocess that calls ``hide`` first
cannot import the others, as if its environment had only some of the extras.
"""

from __future__ import annotations

import site
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from types import ModuleType
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SITE_PACKAGES = frozenset(map(Path, site.getsitepackages()))
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


class _HidingFinder(MetaPathFinder):
    """Searches the path as Python does, and site-packages only for modules that are not hidden."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self._hidden:
            # Packages bring others as copies in folders of their own, which they add to the path.
            path = [folder for folder in path or sys.path if Path(folder) not in SITE_PACKAGES]
        return PathFinder.find_spec(fullname, path, target)

    find_distributions = staticmethod(PathFinder.find_distributions)


def hide(modules: Iterable[str]) -> None:
    """Make modules impossible to find in this interpreter, which has imported none of them."""
    finder = _HidingFinder(frozenset(modules))
    sys.meta_path[:] = [finder if each is PathFinder else each for each in sys.meta_path]


def hiding(modules: Iterable[str]) -> str:
    """Return a program that hides modules from what follows it."""
    return f"from tests.support import hidden_packages\nhidden_packages.hide({sorted(modules)!r})\n"


def project() -> Mapping[str, Any]:
    """Return the table ``project`` of pyproject.toml."""
    table: Mapping[str, Any] = tomllib.loads(PYPROJECT.read_text())["project"]
    return table


def modules_outside(extras: Iterable[str]) -> set[str]:
    """Return the installed top-level modules which the package with ``extras`` does not bring."""
    table = project()
    wanted = [*table["dependencies"]]
    for extra in extras:
        wanted += table["optional-dependencies"][extra]
    installed = set(_closure(wanted)) | {"minikafka", "pip", "setuptools"}
    return {
        module
        for module, owners in packages_distributions().items()
        if not installed.intersection(map(canonicalize_name, owners))
    }


def _closure(wanted: Iterable[str]) -> Iterator[str]:
    """Yield the names of all distributions that come with ``wanted``."""
    left = [(Requirement(text), "") for text in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        requirement, extra = left.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        yield key[0]
        try:
            needed = requires(requirement.name) or []
        except PackageNotFoundError:
            continue
        left += [(Requirement(text), each) for text in needed for each in ("", *requirement.extras)]
