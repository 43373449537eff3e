"""Modules that are imported when something of them is needed: ``LazyModule`` for a package of
others, ``lazy_names`` for the names that a package of ours offers, ``import_without``, ``stand_in``
and ``import_without_metadata`` for what a package of others would import besides.

    if TYPE_CHECKING:
        import h11
    else:
        h11 = LazyModule("h11")

Only functions may use the name, not the body of the module that has it. Packages are imported this
way if their import takes milliseconds and many processes never use them.

A cluster inside a test and a verb of the command line live for less time than the import of a whole
broker would take. So nothing is imported before it is needed: packages of others with the first
attribute that is read, TLS, SASL and an authorizer where a configuration has them, an API and its
messages at the first request. ``tests/unit/test_imports.py`` says what each part may import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import Any, cast


class LazyModule:
    """Has the attributes of a module. The first use of each finds it, and imports the module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:  # called only for what is not in __dict__
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


def import_without(name: str, *others: str) -> None:
    """Import a module as if the packages ``others``, which it uses if they are there, were not
    installed. Nothing else may import these meanwhile."""
    hidden = [other for other in others if other not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden, cast(ModuleType, None)))
    try:
        import_module(name)
    finally:
        for other in hidden:
            del sys.modules[other]


@contextmanager
def stand_in(name: str, **attributes: Any) -> Iterator[None]:
    """Within the block, let a module with these attributes alone stand in for the module ``name``,
    unless that is imported already. Nothing else may import it meanwhile."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = module = ModuleType(name)
    vars(module).update(attributes)
    try:
        yield
    finally:
        del sys.modules[name]


def import_without_metadata(name: str) -> None:
    """Import a module of a package that looks up its own version, as if the version were empty.

    ``importlib.metadata`` imports fifty modules for it, which take 2 MB. The module is imported as
    usual if that is there already, or if it needs more than a version of it."""
    with (
        suppress(ImportError, AttributeError),
        stand_in("importlib.metadata", version=lambda _: ""),
    ):
        import_module(name)
    import_module(name)


def lazy_names(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return ``__getattr__`` of ``package``: ``homes`` has the names of each module below it."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
