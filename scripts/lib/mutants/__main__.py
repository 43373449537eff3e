"""The verb ``scripts/mutants``: what to mutate, which tests to run, and the report."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scripts.lib.mutants import listed
from scripts.lib.mutants.coverage import ROOT, Map
from scripts.lib.mutants.plan import Chooser, Mutant, Part, Tried, importers, mutants_of
from scripts.lib.mutants.running import run_imported, run_swapped
from scripts.lib.mutants.session import OPTIONS, Session, settle_hypothesis

OUTCOMES = ("killed", "timed out", "survived", "not covered", "skipped")
OPEN = ("survived", "not covered")
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/mutants",
        description="Change one thing at a time in the code, run the unit tests that reach it, and "
        "name the changes that no test notices. Exit status 1 if one of them is not listed in "
        "tests/survivors.json.",
    )
    parser.add_argument(
        "path", nargs="*", default=["minikafka/core"], help="files or folders, FILE:10-20 for lines"
    )
    parser.add_argument("--row", help="the code that this row's tests call, and only these tests")
    parser.add_argument("--since", metavar="REV", help="only lines changed since a revision")
    parser.add_argument("--tests", nargs="+", default=["tests/unit"], help="where the tests are")
    parser.add_argument("--again", action="store_true", help="only what runs before have left open")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument(
        "--accept", metavar="REASON", help="write what is left open into tests/survivors.json"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the project (this one)")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument(
        "--budget", type=float, default=10.0, metavar="S", help="seconds of tests a mutant (10)"
    )
    return parser.parse_args(words)


class Run:
    """One call of the verb below ``root``."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.root = root = args.root.resolve()
        self.data = root / ".data" / "mutants"
        self.last = self.data / "open.json"
        first = files_of(root, args.path)
        if args.since:
            changed = changed_lines(root, args.since)
            first = {file: changed[file] for file in first if file in changed}
        only = None
        if args.again:
            only = frozenset(self._left_open())
            left = {key[0] for key in only}
            first = {file: lines for file, lines in first.items() if file in left}
        self.part = Part(first, only)
        self.target = root / common_folder(self.part.files)

    def mutants(self) -> list[Mutant]:
        every = (m for file in self.part.files for m in mutants_of(self.root, file))
        return [mutant for mutant in every if self.part.has(mutant)]

    def tried(self) -> Iterator[Tried]:
        """First what a swap can try, in a child that imports the package; then the rest."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            status = 1
            try:
                status = self._session(os.fdopen(writing, "wb"))
            finally:
                os._exit(status)
        os.close(writing)
        rest: list[Mutant] = []
        allowed: frozenset[str] = frozenset()
        with os.fdopen(reading, "rb") as source:
            while True:
                try:
                    kind, *values = pickle.load(source)
                except EOFError:
                    break
                if kind == "rest":
                    keys, allowed, functions = values
                    self.part = Part(self.part.files, self.part.only, functions)
                    rest = [mutant for mutant in self.mutants() if mutant.key in keys]
                else:
                    key, *outcome = values
                    yield Tried(self._by_key[key], *outcome)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
            raise SystemExit("the tests could not be collected or measured")
        yield from run_imported(self.root, rest, self._chooser(self._map(), allowed), self.args.j)

    def report(self) -> int:
        mutants = self.mutants()
        self._by_key = {mutant.key: mutant for mutant in mutants}
        if self.args.list:
            for mutant in mutants:
                print(mutant)
            return 0
        size = len(self.part.files)
        print(f"{len(mutants)} mutants in {size} file{'s' * (size != 1)}", flush=True)
        document = self.root / listed.SURVIVORS
        accepted = listed.accepted(document)
        counts: dict[str, Counter[str]] = {}
        still_open: list[Mutant] = []
        again: set[tuple[str, str, str, int]] = set()
        started = time.monotonic()
        for one in self.tried():
            mutant = one.mutant
            outcome = one.outcome
            again.add(mutant.key)
            if outcome in OPEN and _row(mutant) in accepted:
                outcome = "accepted"
            elif outcome in OPEN:
                still_open.append(mutant)
                self._say(one)
            counts.setdefault(mutant.file, Counter())[outcome] += 1
        self._keep(again, still_open)
        print_table(counts)
        print(f"{time.monotonic() - started:.0f} s")
        if self.args.accept:
            listed.accept(document, map(_row, still_open), self.args.accept)
            return 0
        return 1 if still_open else 0

    def _say(self, one: Tried) -> None:
        mutant = one.mutant
        more = f"  [{one.left_out} more tests reach it]" if one.left_out else ""
        print(f"{one.outcome}: {mutant}{more}", flush=True)

    def _left_open(self) -> set[tuple[str, str, str, int]]:
        if not self.last.exists():
            return set()
        return {tuple(key) for key in json.loads(self.last.read_text())}

    def _keep(self, tried: set[tuple[str, str, str, int]], still_open: list[Mutant]) -> None:
        """What runs before this one left open stays so, unless it was tried again."""
        left = (self._left_open() - tried) | {mutant.key for mutant in still_open}
        self.data.mkdir(parents=True, exist_ok=True)
        self.last.write_text(json.dumps(sorted(left), indent=0))

    # In the child that imports the package

    def _session(self, sink: object) -> int:
        done = []

        def send(*values: object) -> None:
            pickle.dump(values, sink)  # type: ignore[arg-type]
            sink.flush()  # type: ignore[attr-defined]

        def work(session: Session) -> None:
            known = self._map()
            session.measure(known, self.root, self.args.j, tell)
            for test in session.items:
                if test in known.tests and not known.tests[test].passed:
                    tell(f"fails without a mutant, not used: {test}")
            allowed = frozenset(session.items)
            if self.args.row:
                allowed = frozenset(t for t, rows in session.rows.items() if self.args.row in rows)
                if not allowed:
                    raise SystemExit(f"no test in {self.args.tests} shows {self.args.row}")
                direct = {name for test in allowed for name in known.tests[test].direct}
                self.part = Part(self.part.files, self.part.only, frozenset(direct))
            mutants = self.mutants()
            fresh = self._at_import(session, mutants)
            send("rest", {m.key for m in fresh}, allowed, self.part.functions)
            keys = {mutant.key for mutant in fresh}
            swapped = [mutant for mutant in mutants if mutant.key not in keys]
            chooser = self._chooser(known, allowed)
            for one in run_swapped(session, self.root, swapped, chooser, self.args.j):
                send("tried", one.mutant.key, one.outcome, one.note, one.seconds, one.left_out)
            done.append(True)

        os.chdir(self.root)
        settle_hypothesis()
        session = Session(self.target, work)
        with tempfile.TemporaryDirectory() as basetemp:
            pytest.main([*OPTIONS, f"--basetemp={basetemp}/t", *self.args.tests], plugins=[session])
        for error in session.errors:
            tell(error)
        return 0 if done else 1

    def _at_import(self, session: Session, mutants: list[Mutant]) -> list[Mutant]:
        """Those outside functions, and those of functions that ran while modules were imported."""
        ran = {(file, line) for file, line in session.run_at_import}
        functions = session.functions()
        names = {
            (f"{Path(file).relative_to(self.root)}", function.__code__.co_qualname)
            for file, live in functions.items()
            for function in live
            if (file, function.__code__.co_firstlineno) in ran
        }
        return [
            m for m in mutants if m.mutation.at_import or (m.file, m.mutation.function) in names
        ]

    def _map(self) -> Map:
        name = "-".join(self.target.relative_to(self.root).with_suffix("").parts)
        return Map(self.data / f"reach-{name}.json", self.root)

    def _chooser(self, known: Map, allowed: frozenset[str]) -> Chooser:
        package = self.target.relative_to(self.root).parts[0]
        places = importers(self.root, [package, *self.args.tests])
        return Chooser(known, self.args.budget, allowed, places)


def _row(mutant: Mutant) -> tuple[str, str]:
    """Return the place and the change by which the accepted survivors are listed."""
    return listed.place_of(mutant.file, mutant.mutation.function), mutant.change


def tell(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)


def files_of(root: Path, paths: Sequence[str]) -> dict[str, tuple[range, ...] | None]:
    """The lines to change by file, None for all. A file may be named with several ranges."""
    found: dict[str, tuple[range, ...] | None] = {}
    for path in paths:
        name, _, lines = path.partition(":")
        place = (root / name).resolve()
        if not place.exists():
            raise SystemExit(f"no such file or folder: {name}")
        if lines:
            first, _, last = lines.partition("-")
            file = str(place.relative_to(root))
            others = found.get(file, ())
            if others is not None:  # else all lines are wanted anyway
                found[file] = (*others, range(int(first), int(last or first) + 1))
        elif place.is_dir():
            found.update({str(f.relative_to(root)): None for f in sorted(place.rglob("*.py"))})
        else:
            found[str(place.relative_to(root))] = None
    return found


def common_folder(files: dict[str, tuple[range, ...] | None]) -> str:
    """What is traced: the first two folders of the path, so that one map serves a whole floor."""
    floors = {"/".join(file.split("/")[:2]) for file in files}
    packages = {file.split("/")[0] for file in files}
    for common in (floors, packages):
        if len(common) == 1:
            return common.pop()
    raise SystemExit("nothing to mutate" if not files else "more than one package to mutate")


def changed_lines(root: Path, revision: str) -> dict[str, tuple[range, ...] | None]:
    command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", revision, "--", "*.py"]
    diff = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found: dict[str, tuple[range, ...]] = {}
    file = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif hunk := HUNK.match(line):
            first, size = int(hunk[1]), int(hunk[2] or 1)
            found[file] = (*found.get(file, ()), range(first, first + max(size, 1)))
    return dict(found)


def print_table(counts: dict[str, Counter[str]]) -> None:
    columns = [*OUTCOMES, "accepted"]
    width = max([len(file) for file in counts] + [5])
    print(f"\n{'':<{width}} {'mutants':>8}" + "".join(f"{name:>12}" for name in columns))
    total: Counter[str] = Counter()
    for file in [*sorted(counts), "total"]:
        row = counts.get(file, total)
        if file != "total":
            total.update(row)
        cells = "".join(f"{row[name]:>12}" for name in columns)
        print(f"{file:<{width}} {sum(row.values()):>8}{cells}")


def main(words: Sequence[str] | None = None) -> int:
    return Run(arguments(words)).report()


if __name__ == "__main__":
    sys.exit(main())
