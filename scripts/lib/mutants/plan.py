"""What is to be tried, on which tests, and what came of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.lib.mutants.coverage import Map, mask
from scripts.lib.mutants.mutations import Mutation, mutations_of

CPU_BASE, CPU_FACTOR = 1.0, 4.0  # of a test's measured time (traced, so a generous measure)
WALL_BASE, WALL_FACTOR = 60.0, 60.0  # for tests that wait for ever; a busy machine is slow


@dataclass(frozen=True)
class Mutant:
    """The ``index``-th mutation of a file, and how often its text occurs before in its function."""

    file: str
    index: int
    mutation: Mutation
    nth: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.file, self.mutation.function, self.mutation.text, self.nth)

    @property
    def change(self) -> str:
        """What it does, told apart from others of its function that read alike."""
        return f"{self.mutation.text} ({self.nth + 1})" if self.nth else self.mutation.text

    def __str__(self) -> str:
        line = self.mutation.lines.start
        return f"{self.file}:{line} {self.mutation.function}: {self.change}"


@dataclass(frozen=True)
class Tried:
    """``outcome``: killed, timed out, survived, not covered or skipped. ``left_out``: tests that
    reach the place but were beyond the budget."""

    mutant: Mutant
    outcome: str
    note: str = ""
    seconds: float = 0.0
    left_out: int = 0


@dataclass(frozen=True)
class Part:
    """Which mutants are asked for; ``lines`` per file, None for all of it."""

    files: dict[str, tuple[range, ...] | None]
    only: frozenset[tuple[str, str, str, int]] | None = None
    functions: frozenset[str] | None = None  # as in ``Reach.direct``

    def has(self, mutant: Mutant) -> bool:
        lines = self.files[mutant.file]
        at = mutant.mutation.lines
        if lines is not None and not any(mask(at) & mask(part) for part in lines):
            return False
        if self.only is not None and mutant.key not in self.only:
            return False
        name = f"{mutant.file}:{mutant.mutation.function}"
        return self.functions is None or name in self.functions


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """All mutants of a file. Each call parses anew: to apply one changes the tree of its list."""
    tree = parsed(root, file)
    return numbered(file, mutations_of(tree))


def parsed(root: Path, file: str) -> ast.Module:
    return ast.parse((root / file).read_text(), str(root / file))


def numbered(file: str, mutations: Iterable[Mutation]) -> list[Mutant]:
    seen: dict[tuple[str, str], int] = {}
    found = []
    for index, mutation in enumerate(mutations):
        same = (mutation.function, mutation.text)
        nth = seen.get(same, 0)
        seen[same] = nth + 1
        found.append(Mutant(file, index, mutation, nth))
    return found


@dataclass
class Chooser:
    """Which tests to run for a place: those that killed its neighbours, those of the same room of
    ``tests/unit``, others; each group quickest first, up to ``budget`` seconds in all."""

    known: Map
    budget: float
    allowed: frozenset[str]
    importers: dict[str, set[str]] = field(default_factory=dict)
    _killers: dict[str, list[str]] = field(default_factory=dict)

    def killed_by(self, file: str, test: str) -> None:
        killers = self._killers.setdefault(file, [])
        if test in killers:
            killers.remove(test)
        killers.append(test)

    def choose(self, mutant: Mutant, at_import: bool) -> tuple[list[str], int]:
        """The tests, and how many more reach the place. What is evaluated ``at_import`` is reached
        by every test that runs anything of the module or of one that imports it, or imports it."""
        file, lines = mutant.file, mutant.mutation.lines
        if at_import:
            around = {file, *self.importers.get(file, ())}
            reaching = [
                test
                for test in self._usable()
                if around & self.known.tests[test].lines.keys() or test.split("::")[0] in around
            ]
        else:
            reaching = [t for t in self._usable() if self.known.tests[t].reaches(file, lines)]
        killers = self._killers.get(file, [])[-20:]
        room = "/".join(file.split("/")[1:3])

        def rank(test: str) -> tuple[bool, bool, float]:
            return (test not in killers, room not in test, self.known.tests[test].seconds)

        chosen: list[str] = []
        spent = 0.0
        for test in sorted(reaching, key=rank):
            spent += self.known.tests[test].seconds
            if chosen and spent > self.budget:
                break
            chosen.append(test)
        return chosen, len(reaching) - len(chosen)

    def limits(self, test: str) -> tuple[float, float]:
        seconds = self.known.tests[test].seconds
        return CPU_BASE + CPU_FACTOR * seconds, WALL_BASE + WALL_FACTOR * seconds

    def _usable(self) -> list[str]:
        return [t for t, reach in self.known.tests.items() if reach.passed and t in self.allowed]


def importers(root: Path, places: Iterable[str]) -> dict[str, set[str]]:
    """For each module, the files below ``places`` that import it."""
    found: dict[str, set[str]] = {}
    folders = [root / place.split("::")[0] for place in places]
    for path in [p for f in folders for p in (f.rglob("*.py") if f.is_dir() else [f])]:
        importer = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                file = f"{name.replace('.', '/')}.py"
                if (root / file).is_file():
                    found.setdefault(file, set()).add(importer)
    return found
