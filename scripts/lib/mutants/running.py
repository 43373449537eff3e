"""Tries mutants in forked children: by swapping the code of living functions, or by a fresh import.

A function's mutant needs no import: the module is compiled with the change, and every function
object whose code differs gets the new code, so whoever imported the function by name has it, too.
What is evaluated when a module is imported (tables, constants, defaults, class bodies, functions
that they call) needs a child of a process that has not imported the package yet.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from scripts.lib.mutants import forks
from scripts.lib.mutants.mutations import mutations_of
from scripts.lib.mutants.plan import Chooser, Mutant, Tried, numbered, parsed
from scripts.lib.mutants.session import OPTIONS, Session, codes_of, settle_hypothesis

IMPORT_SECONDS = 30.0  # what a fresh child may take to import and collect


def run_swapped(
    session: Session, root: Path, mutants: Sequence[Mutant], chooser: Chooser, workers: int
) -> Iterator[Tried]:
    """Mutants of functions, within the pytest session that has collected the tests."""
    functions = session.functions()
    trees: dict[str, tuple[ast.Module, list[Mutant]]] = {}
    for file in {mutant.file for mutant in mutants}:
        tree = parsed(root, file)
        trees[file] = (tree, numbered(file, mutations_of(tree)))

    def child(job: tuple[Mutant, list[str]], note: Callable[[str], None]) -> int:
        mutant, tests = job
        tree, same = trees[mutant.file]
        same[mutant.index].mutation.apply()
        path = str(root / mutant.file)
        if not swap(compile(tree, path, "exec"), functions.get(path, [])):
            note("no living function has this code")
            return forks.SKIPPED
        for index, test in enumerate(tests):
            forks.allow(*chooser.limits(test))
            following = tests[index + 1] if index + 1 < len(tests) else None
            if not session.passes(test, following):
                note(test)
                return forks.KILLED
        return forks.SURVIVED

    yield from tried(mutants, chooser, child, workers, at_import=False)


def swap(mutated: CodeType, functions: Sequence[FunctionType]) -> bool:
    """Give the mutated code to every living function; False if none could take it."""
    codes = codes_of(mutated)
    swapped = False
    for function in functions:
        code = function.__code__
        same = codes.get((code.co_qualname, code.co_firstlineno), [])
        if len(same) == 1 and same[0] != code and same[0].co_freevars == code.co_freevars:
            function.__code__ = same[0]
            swapped = True
    return swapped


def run_imported(
    root: Path, mutants: Sequence[Mutant], chooser: Chooser, workers: int
) -> Iterator[Tried]:
    """Mutants of what is evaluated at import. This process must not have imported the package."""

    def child(job: tuple[Mutant, list[str]], note: Callable[[str], None]) -> int:
        mutant, tests = job
        os.chdir(root)
        tree = parsed(root, mutant.file)
        numbered(mutant.file, mutations_of(tree))[mutant.index].mutation.apply()
        path = str(root / mutant.file)
        sys.meta_path.insert(0, MutatedModule(path, mutant.file, compile(tree, path, "exec")))
        settle_hypothesis()
        limits = [chooser.limits(test) for test in tests]
        cpu, wall = (sum(limit[i] for limit in limits) + IMPORT_SECONDS for i in (0, 1))
        forks.allow(cpu, wall)
        watch = FirstFailure()
        status = pytest.main([*OPTIONS, "-x", *tests], plugins=[watch])
        note(watch.failed or f"pytest ended with {status}")
        return forks.SURVIVED if status == pytest.ExitCode.OK else forks.KILLED

    yield from tried(mutants, chooser, child, workers, at_import=True)


class FirstFailure:
    """A pytest plugin that keeps the name of the first failed test or file."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


class MutatedModule(MetaPathFinder):
    """Finds one module, with other code than its file has."""

    def __init__(self, path: str, file: str, code: CodeType) -> None:
        self._path = path
        self._name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self._code = code

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        code = self._code

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return code

        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=Loader(fullname, self._path)
        )


def tried(
    mutants: Sequence[Mutant],
    chooser: Chooser,
    child: Callable[[tuple[Mutant, list[str]], Callable[[str], None]], int],
    workers: int,
    at_import: bool,
) -> Iterator[Tried]:
    uncovered: list[Tried] = []
    left_out: dict[tuple[str, int], int] = {}

    def jobs() -> Iterator[tuple[Mutant, list[str]]]:
        for mutant in mutants:
            tests, more = chooser.choose(mutant, at_import)
            if tests:
                left_out[mutant.file, mutant.index] = more
                yield mutant, tests
            else:
                uncovered.append(Tried(mutant, "not covered"))

    for ended in forks.each(jobs(), child, workers):
        mutant, _ = ended.job
        if ended.timed_out:
            outcome = "timed out"
        elif ended.status == forks.SURVIVED:
            outcome = "survived"
        elif ended.status == forks.SKIPPED:
            outcome = "skipped"
        else:
            outcome = "killed"
            if ended.status == forks.KILLED:
                chooser.killed_by(mutant.file, ended.note)
        more = left_out[mutant.file, mutant.index] if outcome == "survived" else 0
        yield Tried(mutant, outcome, ended.note, ended.seconds, more)
        yield from uncovered
        uncovered.clear()
    yield from uncovered
