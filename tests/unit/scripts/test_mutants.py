"""scripts/mutants on a package of a few lines, of which one is not tested well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.lib.mutants import forks, listed
from scripts.lib.mutants.__main__ import files_of
from scripts.lib.mutants.coverage import ROOT

RULES = '''"""Rules."""

from dataclasses import dataclass
from functools import cached_property

LIMIT = 5
NEXT = {"new": {"open"}, "open": {"closed"}}


def table() -> dict[str, int]:
    return {"small": 1, "large": 9}


SIZES = table()


def fits(size: int) -> bool:
    return size <= LIMIT


def smaller(first: int, second: int) -> int:
    return min(first, second)


def unused(flag: bool) -> int:
    if flag:
        return 8
    return 8


def size_of(name: str) -> int:
    return SIZES[name]


def spin(turns: int) -> int:
    while turns > 0:
        turns -= 1
    return turns


@dataclass
class Key:
    teeth: int = 3


@dataclass
class Door:
    state: str = "new"

    @cached_property
    def ways(self) -> list[str]:
        return sorted(way for way in NEXT.get(self.state, ()))
'''
TESTS = '''"""Tests of rules."""

import pytest

from tiny.core.rules import Door, Key, fits, size_of, smaller, spin


def test_fits():
    assert fits(5)
    assert not fits(6)


def test_smaller():
    assert smaller(1, 2) == 1


@pytest.mark.mission("T-1")
def test_doors():
    assert Door().ways == ["open"]
    assert Door("open").ways == ["closed"]


def test_key():
    assert Key().teeth == 3


def test_size_of():
    assert (size_of("small"), size_of("large")) == (1, 9)


def test_spin():
    assert spin(3) == 0
'''
SURVIVORS = {"core/rules.py unused": {"8 -> 9 (2)": "nobody calls it"}}
# As pytest does with every package that brings a plugin: it then loads the modules itself.
REWRITTEN = '"""Set up."""\n\nimport pytest\n\npytest.register_assert_rewrite("tiny")\n'
PROJECT = '[tool.pytest.ini_options]\nmarkers = ["mission(id): a row"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "tiny/__init__.py": "",
        "tiny/core/__init__.py": "",
        "tiny/core/rules.py": RULES,
        "tests/unit/conftest.py": REWRITTEN,
        "tests/unit/test_rules.py": TESTS,
        "tests/survivors.json": json.dumps(SURVIVORS),
        "pyproject.toml": PROJECT,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def mutants(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.lib.mutants", "--root", str(project), *words]
    environment = os.environ | {"PYTHONPATH": f"{project}:{ROOT}"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )


def test_the_survivors_are_named_and_nothing_else(project: Path) -> None:
    ended = mutants(project, "tiny/core", "-j", "1")
    assert ended.returncode == 1, ended.stderr
    named = [line for line in ended.stdout.splitlines() if "tiny/core/rules.py:" in line]
    assert sorted(named) == [
        "not covered: tiny/core/rules.py:26 unused: flag -> False",
        "not covered: tiny/core/rules.py:26 unused: flag -> True",
        "not covered: tiny/core/rules.py:27 unused: 8 -> 9",
        "not covered: tiny/core/rules.py:27 unused: return 8 -> return None",
        "not covered: tiny/core/rules.py:28 unused: return 8 -> return None (2)",
        "survived: tiny/core/rules.py:22 smaller: min(first, second) -> first",
    ]
    total = ended.stdout.split("total")[1].split()
    mutants_, killed, timed_out, survived, not_covered, skipped, accepted = map(int, total[:7])
    assert (timed_out, survived, not_covered, skipped, accepted) == (2, 1, 5, 0, 1)
    assert killed == mutants_ - 9


def test_a_place_that_no_test_calls_well_is_all_killed_once_one_does(project: Path) -> None:
    assert mutants(project, "tiny/core/rules.py:21-22").returncode == 1
    tests = project / "tests/unit/test_rules.py"
    tests.write_text(TESTS.replace("smaller(1, 2) == 1", "smaller(1, 2) == smaller(2, 1) == 1"))
    again = mutants(project, "--again", "tiny/core")
    assert again.stdout.startswith("1 mutants in 1 file\n")
    assert again.returncode == 0, again.stdout


def test_a_row_selects_the_code_and_the_tests_to_run(project: Path) -> None:
    ended = mutants(project, "tiny/core", "--row", "T-1")
    assert ended.returncode == 0, ended.stdout
    assert "killed" in ended.stdout
    unknown = mutants(project, "tiny/core", "--row", "T-2")
    assert unknown.returncode != 0
    assert "T-2" in unknown.stderr


def test_only_lines_changed_since_a_revision_are_mutated(project: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=project, check=True)
    rules = project / "tiny/core/rules.py"
    rules.write_text(RULES.replace("    return 8\n\n", "    return 9\n\n"))
    listed_ones = mutants(project, "tiny/core", "--since", "HEAD", "--list").stdout.splitlines()
    assert listed_ones == [
        "tiny/core/rules.py:28 unused: return 9 -> return None",
        "tiny/core/rules.py:28 unused: 9 -> 10",
    ]


def test_tests_are_measured_again_only_when_their_code_changed(project: Path) -> None:
    assert "measuring 6 of 6 tests" in mutants(project, "tiny/core/rules.py:22").stderr
    assert "measuring" not in mutants(project, "tiny/core/rules.py:22").stderr
    reach = next((project / ".data/mutants").glob("reach-*.json"))
    assert len(json.loads(reach.read_text())) == 6
    rules = project / "tiny/core/rules.py"
    rules.write_text(RULES + "\n")
    assert "measuring 5 of 6 tests" in mutants(project, "tiny/core/rules.py:22").stderr


def test_measuring_many_tests_shows_progress(project: Path) -> None:
    many = "import pytest\n\n@pytest.mark.parametrize('n', range(200))\ndef test(n):\n    pass\n"
    (project / "tests/unit/test_many.py").write_text(many)
    said = mutants(project, "tiny/core/rules.py:22", "-j", "1").stderr
    assert "measuring 206 of 206 tests\nmeasured 200 of 206 tests\n" in said


def test_a_test_that_fails_without_a_mutant_kills_none(project: Path) -> None:
    tests = project / "tests/unit/test_rules.py"
    tests.write_text(TESTS + "\n\ndef test_wrong():\n    assert smaller(2, 1) == 2\n")
    ended = mutants(project, "tiny/core/rules.py:22")
    assert "fails without a mutant, not used: tests/unit/test_rules.py::test_wrong" in ended.stderr
    assert "survived: tiny/core/rules.py:22" in ended.stdout


def test_tests_that_cannot_be_collected_are_an_error(project: Path) -> None:
    (project / "tests/unit/test_rules.py").write_text("import nothing_of_that_name\n")
    ended = mutants(project, "tiny/core")
    assert ended.returncode != 0
    assert "nothing_of_that_name" in ended.stderr


def test_open_mutants_are_accepted_with_a_reason(project: Path) -> None:
    place = "tiny/core/rules.py:26-28"
    assert mutants(project, place).returncode == 1
    assert mutants(project, place, "--accept", "a | reason").returncode == 0
    listed_now = listed.accepted(project / listed.SURVIVORS)
    assert listed_now["core/rules.py unused", "8 -> 9 (2)"] == "nobody calls it"
    assert listed_now["core/rules.py unused", "flag -> True"] == "a | reason"
    assert mutants(project, place).returncode == 0


def test_a_child_that_never_ends_is_ended_and_said_to_have_timed_out() -> None:
    def child(job: str, note: object) -> int:
        if job == "spins":
            forks.allow(0.05, 60)
            while True:
                pass
        return forks.SURVIVED

    ended = {one.job: one for one in forks.each(["spins", "ends"], child, 2)}
    assert ended["spins"].timed_out
    assert ended["ends"].status == forks.SURVIVED


def test_a_file_may_be_named_with_several_ranges(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    assert files_of(tmp_path, ["a.py:1-2", "a.py:9"]) == {"a.py": (range(1, 3), range(9, 10))}
    assert files_of(tmp_path, ["a.py", "a.py:9"]) == {"a.py": None}
    assert files_of(tmp_path, ["a.py:9", "a.py"]) == {"a.py": None}
