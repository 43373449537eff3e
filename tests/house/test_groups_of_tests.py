"""Tests of one file, or of one xdist_group, run on one worker, which sends their names around."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.distribution import FileScheduling


@pytest.mark.xdist_group("house")
def test_a_worker_knows_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    """pytest-xdist distributes by the end of the node id. Without it, tests that share a cluster
    would run on several workers, and those that read what others wrote would fail or hang."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@house")


class Worker:
    """Takes the tests that it gets."""

    gateway = SimpleNamespace(id="")
    shutting_down = False

    def __init__(self) -> None:
        self.units: list[list[int]] = []

    def send_runtest_some(self, tests: list[int]) -> None:
        self.units.append(tests)

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_worker_gets_whole_files_and_whole_groups_in_order() -> None:
    """A small file is followed by another one, as a worker has to know its next test."""
    tests = ["a.py::x", "a.py::y[b@c]", "b.py::x@g", "b.py::y", "c.py::x@g", "c.py::y@g", "d.py::x"]
    config: Any = SimpleNamespace(option=SimpleNamespace(), getvalue=lambda name: ["2*popen"])
    scheduling = FileScheduling(config)
    workers: list[Any] = [Worker(), Worker()]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    assert [worker.units for worker in workers] == [[[0, 1], [3]], [[2, 4, 5]]]
    for test in (2, 4):
        scheduling.mark_test_complete(workers[1], test)
    assert [worker.units for worker in workers] == [[[0, 1], [3]], [[2, 4, 5], [6]]]


@pytest.mark.parametrize("text", ["x" * 201, b"\xff" * (1 << 20)])
def test_a_long_argument_is_not_in_the_name_of_its_test(
    request: pytest.FixtureRequest, text: str | bytes
) -> None:
    assert f"[text_of_{len(text)}]" in request.node.name
