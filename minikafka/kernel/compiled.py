"""The compiled build: whether this is one, and what classes say to mypyc.

What makes the way of a request fast is mypyc: ``[tool.minikafka] compiled`` in pyproject.toml lists
the modules that a request runs through. Wheels and ``pip install .`` have them compiled, a checkout
runs the source.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")
_COMPILED_MODULE = "minikafka.protocol.codec"

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_: bool) -> Callable[[T], T]:
        """Do nothing at run time: the package that defines this is for the compiler only.

        With ``allow_interpreted_subclasses=True`` interpreted classes may inherit from a compiled
        class. Otherwise compiled code calls the methods of the class directly."""
        return lambda decorated: decorated


def build_name() -> str:
    """Return "compiled" if Python imports compiled modules, else "pure Python"."""
    spec = find_spec(_COMPILED_MODULE)
    assert spec is not None, _COMPILED_MODULE
    assert spec.origin is not None, _COMPILED_MODULE
    return "compiled" if spec.origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure Python"
