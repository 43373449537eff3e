"""The chapters of learn mode: each is a module here, with its texts in ``texts``.

``table.py`` lists their names. ``chapter`` imports one of them, so that a reader who opens one does
not wait for the others. The tests play every chapter of the table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from minikafka.page.learn.chapters.table import TABLE

if TYPE_CHECKING:
    from minikafka.page.learn.story import Chapter


def chapter(name: str) -> Chapter:
    """Return a chapter of the table. Raises KeyError."""
    if name not in TABLE.values():
        raise KeyError(name)
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    found: Chapter = module.CHAPTER
    return found
