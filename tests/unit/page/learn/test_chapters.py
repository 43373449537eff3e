"""Every chapter of the table is played at its seed, and its texts are complete."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from minikafka.page.learn.chapters import chapter
from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import MAX_US
from minikafka.page.learn.story import Performance, play_through
from minikafka.page.learn.texts import LANGUAGES, SUMMARY, TITLE, Catalogue, CodeLink

ROOT = Path(__file__).resolve().parents[4]
NAMES = [
    pytest.param(name, marks=pytest.mark.mission(f"LEARN-{40 + number}"), id=name)
    for number, name in sorted(TABLE.items())
]
# Views of the page that a beat may point at, beside entities ("kind|broker|name") and hosts.
VIEWS = {
    "lanes", "purgatories", "controller", "groups", "transactions", "sessions", "wire", "stage",
    "requests", "throttles", "events",
}  # fmt: skip
ENTITY = re.compile(r"(host\|[a-z]+(-[0-9])?|[a-z_]+\|[0-9]*\|.*)").fullmatch


@cache
def performance(name: str) -> Performance:
    return play_through(chapter(name))


def random_slices(seed: int) -> Iterator[int]:
    dice = random.Random(seed)
    while True:
        yield int(10 ** (dice.random() * 6.5))


def names_in(path: Path) -> set[str]:
    """Return the classes, functions, methods and constants of a module, as ``Class.method``."""
    found: set[str] = set()

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                add(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.Assign):
                found.update(t.id for t in node.targets if isinstance(t, ast.Name))
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(prefix + node.target.id)

    add(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def is_there(link: CodeLink) -> bool:
    path = ROOT / link.path
    return path.is_file() and (not link.name or link.name in names_in(path))


def mission_rows() -> set[str]:
    document = (ROOT / "docs" / "mission.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| ([A-Z][A-Z0-9]*-[0-9]+) \|", document, re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_holds_in_any_slices(name: str) -> None:
    """All its checks hold. It says the same at the same times when it is played in other slices,
    and its recipe has the same digest without the story."""
    whole = performance(name)
    assert whole.end_us <= MAX_US
    assert [beat.number for beat in whole.beats] == [*range(1, len(whole.beats) + 1)]
    assert any(beat.kind == "check" for beat in whole.beats), "a chapter has checks"
    assert play_through(chapter(name), random_slices(whole.end_us)) == whole
    with Playback(whole.recipe) as playback:
        playback.advance_to(whole.end_us)
        assert playback.digest() == whole.digest


@pytest.mark.parametrize("seed", [1, 3, 4, 6, 8])
def test_a_records_way_holds_at_other_seeds(seed: int) -> None:
    """At these ones its producer closed a connection at once, and lost the record with acks=0."""
    play_through(replace(chapter("a-records-way"), seed=seed))


@pytest.mark.parametrize("name", NAMES)
def test_the_texts_of_a_chapter_are_those_that_it_says(name: str) -> None:
    beats, catalogue = performance(name).beats, Catalogue.of(name)
    assert {beat.key for beat in beats} | {TITLE, SUMMARY} == set(catalogue.entries)
    for beat in beats:
        for language in LANGUAGES:
            words = catalogue.words(beat.key, language, beat.values)
            assert words.text
            assert "{" not in words.text, "the text has a placeholder without a value"
            assert bool(words.options) == (beat.kind == "ask")
            assert beat.right is None or 0 <= beat.right < len(words.options)
        for focus in beat.focus:
            assert focus in VIEWS or ENTITY(focus), focus


@pytest.mark.parametrize("name", NAMES)
def test_the_links_of_a_chapter_lead_somewhere(name: str) -> None:
    catalogue, rows = Catalogue.of(name), mission_rows()
    for key, entry in catalogue.entries.items():
        for link in entry.code:
            assert is_there(link), f"{key}: there is no {link.name} in {link.path}"
    missing = {*catalogue.missions(), *chapter(name).missions} - rows
    assert not missing, "rows that docs/mission.md does not have"


def test_a_chapter_has_the_name_and_number_of_the_table() -> None:
    for number, name in TABLE.items():
        found = chapter(name)
        assert (found.number, found.name) == (number, name)
