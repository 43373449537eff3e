"""Random use of files: the simulated disk answers as the real one does, errors included."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.kernel.ports import Files
from minikafka.world.real.files import RealFiles
from minikafka.world.sim.world import SimWorld

PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z", "/c")
path = st.sampled_from(PATHS)
small = st.integers(min_value=0, max_value=12)
data = st.binary(max_size=8)

# One step: the name of what is done, and with what.
step = st.one_of(
    st.tuples(st.just("make"), path),
    st.tuples(st.just("write"), path, small, data),
    st.tuples(st.just("truncate"), path, small),
    st.tuples(st.just("read"), path, small, small),
    st.tuples(st.just("make_directories"), path),
    st.tuples(st.just("rename"), path, path),
    st.tuples(st.just("remove"), path),
    st.tuples(st.just("remove_tree"), path),
    st.tuples(st.just("replace_unsynced"), path, data),
    st.tuples(st.just("read_all"), path),
    st.tuples(st.just("list"), path),
    st.tuples(st.just("exists"), path),
    st.tuples(st.just("is_directory"), path),
)


class Subject:
    """A file system below ``root``, driven step by step."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root

    def take(self, name: str, *args: Any) -> object:
        """What came of the step: its value, or the error number."""
        placed = [f"{self._root}{arg}" if isinstance(arg, str) else arg for arg in args]
        own: Callable[..., object] | None = getattr(self, f"_{name}", None)
        try:
            return (own or getattr(self._files, name))(*placed)
        except OSError as error:
            return type(error).__name__, error.errno

    def _make(self, path: str) -> int:
        file = self._files.open(path, create=True)
        size = file.size()
        file.close()
        return size

    def _write(self, path: str, offset: int, data: bytes) -> int:
        file = self._files.open(path)
        file.write(data, offset)
        size = file.size()
        file.close()
        return size

    def _truncate(self, path: str, length: int) -> int:
        file = self._files.open(path)
        file.truncate(length)
        size = file.size()
        file.close()
        return size

    def _read(self, path: str, length: int, offset: int) -> bytes:
        file = self._files.open(path)
        found = file.read(length, offset)
        file.close()
        return found


@pytest.fixture
def roots(tmp_path: Path) -> Callable[[], str]:
    numbers = itertools.count()

    def root() -> str:
        made = tmp_path / str(next(numbers))
        made.mkdir()
        return str(made)

    return root


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(step, max_size=25))
def test_simulated_files_behave_like_real_files(
    roots: Callable[[], str], steps: list[tuple[Any, ...]]
) -> None:
    real = Subject(RealFiles(), roots())
    simulation = SimWorld(seed=1)
    host = simulation.host("here")

    async def main() -> None:
        host.world.files.make_directories("/data")
        simulated = Subject(host.world.files, "/data")
        for taken in steps:
            assert simulated.take(*taken) == real.take(*taken), taken

    simulation.run(main())
