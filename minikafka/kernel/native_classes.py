"""``mypyc_attr``, by which a class says what mypyc shall allow for it. It does nothing at run time.

The package that defines it is for the compiler only. A compiled class that interpreted classes
inherit from has ``@mypyc_attr(allow_interpreted_subclasses=True)``: without it mypyc calls the
methods of its own class directly, and no class may override them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_: bool) -> Callable[[T], T]:
        return lambda decorated: decorated
