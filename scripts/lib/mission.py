"""Lists the rows of docs/mission.md with the tests that show them, and their results with --run."""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([A-Z][A-Z0-9]*-\d+) \| (.+?) \|")
CONTEXT = "Context only"  # how a row begins that no test can show


class Collector:
    """A pytest plugin that notes which tests carry which rows, and how they ended."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = defaultdict(list)
        self.rows_of: dict[str, list[str]] = {}
        self.failed: set[str] = set()
        self.skipped: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = []
        for item in items:
            rows = [str(row) for mark in item.iter_markers("mission") for row in mark.args]
            if rows:
                kept.append(item)
                for row in rows:
                    self.tests[row].append(item.nodeid)
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.skipped:
            self.skipped.add(report.nodeid)

    def result(self, row: str, run: bool) -> str:
        tests = self.tests.get(row, [])
        if not tests:
            return "no test"
        if any(t in self.failed for t in tests):
            return "FAILED"
        if all(t in self.skipped for t in tests):
            return "skipped"
        return "passed" if run else f"{len(tests)} tests"


def rows() -> dict[str, str]:
    lines = (ROOT / "docs" / "mission.md").read_text().splitlines()
    return {m[1]: m[2] for line in lines if (m := ROW.match(line))}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mission", description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the tests and show results")
    parser.add_argument("--tests", action="store_true", help="name the tests of each row")
    args = parser.parse_args()
    collector = Collector()
    options = ["-o", "addopts=--import-mode=importlib", "-p", "no:terminal"]
    if not args.run:
        options.append("--collect-only")
    pytest.main([*options, str(ROOT / "tests")], plugins=[collector])
    known = rows()
    context = {row for row, text in known.items() if text.startswith(CONTEXT)}
    for row, text in known.items():
        result = "context" if row in context else collector.result(row, args.run)
        print(f"{row:<8}{result:<10}{text}")
        if args.tests:
            for test in sorted(set(collector.tests.get(row, []))):
                print(f"{'':<18}{test}")
    wanted = known.keys() - context
    shown = [row for row in wanted if collector.tests.get(row)]
    print(f"\n{len(shown)} of {len(wanted)} rows have tests, {len(context)} are context only")
    for stray in sorted(set(collector.tests) - set(known)):
        print(f"a test names a row that docs/mission.md lacks: {stray}")
    return 1 if collector.failed or set(collector.tests) - set(known) else 0


if __name__ == "__main__":
    sys.exit(main())
