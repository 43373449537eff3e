"""Frees what the tests of the house share: syntax trees, which are parsed once."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.support.sources import nodes_of


@pytest.fixture(scope="package", autouse=True)
def syntax_trees() -> Iterator[None]:
    """Without the garbage collector, which would look through all trees again and again."""
    gc.disable()
    yield
    nodes_of.cache_clear()
    gc.enable()
