"""A pytest session that collects once and then runs what it is asked to, in forked children."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from scripts.lib.mutants import forks
from scripts.lib.mutants.coverage import Map, Reach, Tracer

PROGRESS_TESTS = 200
OPTIONS = [
    "-o",
    "addopts=--import-mode=importlib --strict-markers",
    "-o",
    "tmp_path_retention_policy=none",
    "--capture=sys",
    "--assert=plain",  # pytest would load the modules of a package with a plugin itself
    *(f"-pno:{name}" for name in ("terminal", "cacheprovider", "xdist", "faulthandler")),
]
MEASURED_CPU, MEASURED_WALL = 120.0, 300.0


def settle_hypothesis() -> None:
    """The same examples in every run, no shrinking, and no deadline: this machine may be busy."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")


class Session:
    """Give to pytest as a plugin. ``work`` is called once with the collected session."""

    def __init__(self, target: Path, work: Callable[[Session], None]) -> None:
        self.target = target
        self.items: dict[str, pytest.Item] = {}
        self.rows: dict[str, set[str]] = {}
        self.run_at_import: set[tuple[str, int]] = set()
        self.errors: list[str] = []
        self._work = work
        self._failed = False

    # Called by pytest

    def pytest_collection(self) -> None:
        prefix = str(self.target)

        def called(frame: FrameType, _event: str, _arg: Any) -> None:
            code = frame.f_code
            if code.co_filename.startswith(prefix):
                self.run_at_import.add((code.co_filename, code.co_firstlineno))

        sys.settrace(called)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        sys.settrace(None)
        self.items = {item.nodeid: item for item in session.items}
        for item in session.items:
            marks = item.iter_markers("mission")
            self.rows[item.nodeid] = {str(row) for mark in marks for row in mark.args}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(f"{report.nodeid}: {report.longreprtext}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.errors:
            return True
        gc.collect()
        gc.freeze()
        self._work(self)
        return True

    # Used by the work

    def passes(self, test: str, following: str | None = None) -> bool:
        """Run one test here. A failed one leaves fixtures as they are: end the process then."""
        item = self.items[test]
        self._failed = False
        nextitem = self.items[following] if following else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return not self._failed

    def functions(self) -> dict[str, list[FunctionType]]:
        """All functions of the target that live now, by file, decorated and nested ones too."""
        found: dict[str, list[FunctionType]] = {}
        prefix = str(self.target)
        gc.unfreeze()
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(prefix):
                found.setdefault(thing.__code__.co_filename, []).append(thing)
        gc.freeze()
        return found

    def measure(self, known: Map, root: Path, workers: int, tell: Callable[[str], None]) -> None:
        """Bring the map up to date: trace every test that it does not know as it is now."""
        missing = [test for test in self.items if not known.is_current(test)]
        by_file: dict[str, list[str]] = {}
        for test in missing:
            by_file.setdefault(test.partition("::")[0], []).append(test)
        if missing:
            tell(f"measuring {len(missing)} of {len(self.items)} tests")
        with tempfile.TemporaryDirectory() as directory:

            def child(file: str, note: Callable[[str], None]) -> int:
                part = Map(Path(directory) / f"{os.getpid()}.json", root)
                note(str(os.getpid()))
                saved = time.monotonic()
                for test in by_file[file]:
                    forks.allow(MEASURED_CPU, MEASURED_WALL)
                    part.add(test, self._traced(test, root))
                    if time.monotonic() - saved > 1:
                        part.save()
                        saved = time.monotonic()
                part.save()
                return forks.SURVIVED

            done = 0
            for ended in forks.each(by_file, child, workers):
                measured = Map(Path(directory) / f"{ended.note}.json", root).tests
                known.tests.update(measured)
                for test in set(by_file[ended.job]) - set(measured):
                    tell(f"not measured, status {ended.status}: {test}")
                before, done = done, done + len(by_file[ended.job])
                if done // PROGRESS_TESTS > before // PROGRESS_TESTS:
                    tell(f"measured {done} of {len(missing)} tests")
        known.forget_others(set(self.items))
        known.save()

    def _traced(self, test: str, root: Path) -> Reach:
        tracer = Tracer(root, self.target)
        started = time.process_time()
        tracer.start()
        try:
            passed = self.passes(test)
        finally:
            tracer.stop()
        reach = tracer.reach()
        reach.passed = passed
        reach.seconds = round(time.process_time() - started, 4)
        return reach


def codes_of(code: CodeType) -> dict[tuple[str, int], list[CodeType]]:
    """All code objects within one, by qualified name and first line."""
    found: dict[tuple[str, int], list[CodeType]] = {}
    waiting = [code]
    while waiting:
        one = waiting.pop()
        found.setdefault((one.co_qualname, one.co_firstlineno), []).append(one)
        waiting.extend(c for c in one.co_consts if isinstance(c, CodeType))
    return found
