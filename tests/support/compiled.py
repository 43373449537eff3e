"""Tests on the compiled build: those that replace a part of a compiled module are skipped there.

Compiled code calls functions of compiled modules directly, and has their constants in it: what a
test puts in their place has no effect.
"""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Any

import pytest


def is_compiled(target: object) -> bool:
    """Return whether a module, or the one that defines a class or the class of an object, is a
    compiled one of ours. A text is the path of an attribute, as ``monkeypatch`` takes it."""
    if isinstance(target, str):
        name = target.rpartition(".")[0]
        while name not in sys.modules and "." in name:
            name = name.rpartition(".")[0]
    elif isinstance(target, ModuleType):
        name = target.__name__
    else:
        name = (target if isinstance(target, type) else type(target)).__module__
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return name.startswith("minikafka.") and file.endswith(tuple(EXTENSION_SUFFIXES))


def takes_stand_ins(*modules: ModuleType) -> pytest.MarkDecorator:
    """Skip tests that give compiled code something else than an object of one of its classes, which
    it refuses."""
    return pytest.mark.skipif(
        any(is_compiled(module) for module in modules), reason="compiled code takes no stand-in"
    )


def skip_replacements(monkeypatch: type[pytest.MonkeyPatch]) -> None:
    """Let ``setattr`` skip the test if it would have no effect."""
    replace: Any = monkeypatch.setattr

    def replace_or_skip(
        self: pytest.MonkeyPatch, target: Any, *values: Any, **options: Any
    ) -> None:
        if is_compiled(target):
            pytest.skip("the test replaces a part of a compiled module")
        replace(self, target, *values, **options)

    monkeypatch.setattr = replace_or_skip  # type: ignore[method-assign]
