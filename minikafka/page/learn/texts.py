"""The catalogue of a chapter: its texts in two languages, with links to code and mission rows.

A catalogue is a TOML file with one table for each key that the chapter says:

    [title]
    en = "A record's way"
    zh = "..."

    [who-answers]
    en = "Who sends the response?"
    zh = "..."
    options_en = ["broker 1", "broker 2"]
    options_zh = ["...", "..."]
    why_en = "..."
    why_zh = "..."
    code = ["minikafka/server/broker/fetch/record_fetches.py:DelayedFetch"]
    missions = ["PUR-1"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.page.learn.recipe import Value

LANGUAGES: Final = ("en", "zh")
TITLE, SUMMARY = "title", "summary"  # keys that every catalogue has

Values: TypeAlias = Mapping[str, Value]


class TextError(ValueError):
    """A catalogue, or its use by a chapter, is wrong. This is a bug in the chapter."""


class CodeLink(NamedTuple):
    """A file of the package, and a class or function in it (empty: the whole file)."""

    path: str
    name: str


class Words(NamedTuple):
    """A text in one language. ``options`` and ``why`` are those of a question."""

    text: str
    options: tuple[str, ...] = ()
    why: str = ""

    def filled_in(self, values: Values) -> Words:
        """Return the words with ``{name}`` replaced by values. Raises TextError."""
        if not values:
            return self
        try:
            options = tuple(option.format_map(values) for option in self.options)
            return Words(self.text.format_map(values), options, self.why.format_map(values))
        except (KeyError, IndexError, ValueError) as error:
            raise TextError(f"the text {self.text!r} has a placeholder without value") from error


class Entry(NamedTuple):
    """A key of a catalogue."""

    words: Mapping[str, Words]  # by language
    code: tuple[CodeLink, ...] = ()
    missions: tuple[str, ...] = ()


class Catalogue:
    """The entries of a chapter by key. Raises TextError for a malformed one."""

    def __init__(self, chapter: str, entries: Mapping[str, Entry]) -> None:
        self.chapter = chapter
        self.entries = entries
        for key in (TITLE, SUMMARY):
            self.entry(key)

    @classmethod
    def of(cls, chapter: str) -> Catalogue:
        """Read the catalogue of a chapter."""
        folder = resources.files("minikafka.page.learn.chapters") / "texts"
        file = folder / f"{chapter.replace('-', '_')}.toml"
        return cls.parsed(chapter, file.read_text(encoding="utf-8"))

    @classmethod
    def parsed(cls, chapter: str, toml: str) -> Catalogue:
        try:
            tables = tomllib.loads(toml)
        except tomllib.TOMLDecodeError as error:
            raise TextError(f"the catalogue of {chapter} is not TOML: {error}") from error
        return cls(chapter, {key: _entry(f"{chapter}/{key}", it) for key, it in tables.items()})

    def entry(self, key: str) -> Entry:
        """Raises TextError if there is no such key."""
        found = self.entries.get(key)
        if found is None:
            raise TextError(f"the catalogue of {self.chapter} has no key {key}")
        return found

    def words(self, key: str, language: str, values: Values | None = None) -> Words:
        return self.entry(key).words[language].filled_in(values or {})

    def missions(self) -> tuple[str, ...]:
        """Return the mission rows of all keys, each once."""
        rows = (row for entry in self.entries.values() for row in entry.missions)
        return tuple(dict.fromkeys(rows))


_FIELDS = (
    "code",
    "missions",
    *(f"{part}{lang}" for lang in LANGUAGES for part in ("", "options_", "why_")),
)


def _entry(where: str, table: Any) -> Entry:
    if not isinstance(table, dict):
        raise TextError(f"{where} is no table")
    for field in table:
        if field not in _FIELDS:
            raise TextError(f"{where} has the unknown field {field}")
    words = {language: _words(f"{where} in {language}", table, language) for language in LANGUAGES}
    if len({(len(each.options), bool(each.why)) for each in words.values()}) != 1:
        raise TextError(f"{where}: the languages differ in options or in why")
    code = [_link(where, link) for link in _texts(where, table.get("code", []))]
    return Entry(words, tuple(code), _texts(where, table.get("missions", [])))


def _words(where: str, table: Mapping[str, Any], language: str) -> Words:
    text, why = table.get(language, ""), table.get(f"why_{language}", "")
    options = _texts(where, table.get(f"options_{language}", []))
    if not isinstance(text, str) or not text.strip() or not isinstance(why, str):
        raise TextError(f"{where} has no text")
    if bool(options) != bool(why) or len(options) == 1:
        raise TextError(f"{where}: a question has at least two options, and a why")
    return Words(text.strip(), options, why.strip())


def _texts(where: str, found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(text, str) and text for text in found):
        raise TextError(f"{where}: {found!r} is no list of texts")
    return tuple(found)


def _link(where: str, link: str) -> CodeLink:
    path, _, name = link.partition(":")
    if not path.endswith(".py"):
        raise TextError(f"{where}: {link} names no file")
    return CodeLink(path, name)
