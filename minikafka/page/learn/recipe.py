"""Recipes: everything that decides a playback, as JSON, as the fragment of a link and as a test.

A file has a recipe on its own, or with the time at which a reader should look.
"""

from __future__ import annotations

import base64
import binascii
import json
import keyword
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass

Value: TypeAlias = int | str

MAX_US = 3_600_000_000  # of simulated time, as SimCluster's limit
MAX_BROKERS = 9
MAX_ACTIONS = 500
MAX_ARGUMENTS = 10
MAX_SETTINGS = 50
MAX_TEXT = 1_000  # characters of a string
MAX_JSON_BYTES = 256 * 1024
MAX_FRAGMENT = 32 * 1024  # characters; browsers take at least twice as many

_CHAPTER = re.compile(r"[a-z0-9-]{1,40}").fullmatch
_NAME = re.compile(r"[a-z][a-z_]{0,39}").fullmatch
_SETTING = re.compile(r"[a-z][a-z0-9._-]{0,99}").fullmatch
_FIELDS = ("version", "chapter", "seed", "brokers", "settings", "actions")


class RecipeError(ValueError):
    """A recipe is malformed or too large. The message is one sentence for a reader of a page."""


class TimedAction(NamedTuple):
    """An action, ``t_us`` microseconds after the start. It takes effect when everything that was
    due until then, and all earlier actions, have run."""

    t_us: int
    name: str
    arguments: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides a playback. ``version`` is that of the minikafka that made it: another one may
    play it differently; empty if unknown. ``settings`` are those of all brokers; ``actions`` are in
    order of time.

    Raises RecipeError. Whether an action exists is the table's matter (``actions.py``).
    """

    chapter: str = "playground"
    seed: int = 0
    brokers: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)
    actions: Sequence[TimedAction] = ()
    version: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.chapter, str) or not _CHAPTER(self.chapter):
            raise RecipeError("the chapter of a recipe has lower-case letters, digits and dashes")
        _check_number("the seed", self.seed, 0, 2**53 - 1)  # JavaScript's whole numbers
        _check_number("the number of brokers", self.brokers, 1, MAX_BROKERS)
        _check_text("the version", self.version)
        _check_settings(self.settings)
        _check_actions(self.actions)
        object.__setattr__(self, "actions", tuple(self.actions))

    # --------------------------------------------------------------------------------- branching

    def until(self, t_us: int) -> Recipe:
        """Return the recipe without the actions after ``t_us``."""
        return replace(self, actions=[action for action in self.actions if action.t_us <= t_us])

    def then(self, t_us: int, name: str, arguments: Mapping[str, Value]) -> Recipe:
        """Return a recipe with one more action at its end. To act before another action, fork it:
        ``recipe.until(t_us).then(t_us, ...)``. Raises RecipeError."""
        return replace(self, actions=[*self.actions, TimedAction(t_us, name, dict(arguments))])

    # -------------------------------------------------------------------------------------- forms

    def to_json(self) -> str:
        """Return the recipe as one line of JSON, equal for equal recipes. Raises RecipeError if it
        is too large to be read again."""
        found = {name: getattr(self, name) for name in _FIELDS}
        text = json.dumps(found, sort_keys=True, separators=(",", ":"))
        if len(text) > MAX_JSON_BYTES:
            raise RecipeError(f"the recipe has more than {MAX_JSON_BYTES} characters")
        return text

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Raises RecipeError."""
        if len(text) > MAX_JSON_BYTES:
            raise RecipeError(f"a recipe has at most {MAX_JSON_BYTES} characters")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecipeError("the recipe is not JSON") from error
        if not isinstance(found, dict):
            raise RecipeError("a recipe is a JSON object")
        for name in found:
            if name not in _FIELDS:
                raise RecipeError(f"a recipe has no field {_shown(name)}")
        if "seed" not in found:
            raise RecipeError("the recipe has no seed")
        return cls(**{**found, "actions": _parsed_actions(found.get("actions", []))})

    def to_fragment(self) -> str:
        """Return the recipe as the fragment of a URL: compressed JSON in base64url. Raises
        RecipeError if it is too long for a link."""
        packed = zlib.compress(self.to_json().encode(), 9)
        fragment = base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
        if len(fragment) > MAX_FRAGMENT:
            raise RecipeError("the recipe is too long for a link; save it as a file")
        return fragment

    @classmethod
    def from_fragment(cls, fragment: str) -> Recipe:
        """Raises RecipeError."""
        if len(fragment) > MAX_FRAGMENT:
            raise RecipeError(f"the recipe of a link has at most {MAX_FRAGMENT} characters")
        try:
            padded = fragment.encode("ascii") + b"=" * (-len(fragment) % 4)
            packed = base64.b64decode(padded, altchars=b"-_", validate=True)
            inflater = zlib.decompressobj()
            text = inflater.decompress(packed, MAX_JSON_BYTES)
            if not inflater.eof or inflater.unused_data:
                raise RecipeError("the recipe of the link is cut off or too large")
            return cls.from_json(text.decode())
        except (UnicodeError, binascii.Error, zlib.error) as error:
            raise RecipeError("the link holds no recipe, or only a part of one") from error

    def as_pytest(self, end_us: int | None = None, digest: str | None = None) -> str:
        """Return the source of a test that plays the recipe until ``end_us`` (None: until its last
        action), and compares the digest of the trace if one is given."""
        if end_us is None:
            end_us = max((action.t_us for action in self.actions), default=0)
        settings = "".join(f"    {k!r}: {v!r},\n" for k, v in sorted(self.settings.items()))
        lines = [
            f'"""Chapter {self.chapter}, seed {self.seed}, as a test."""',
            "",
            "from minikafka.page.learn.playback import Playback",
            "from minikafka.page.learn.recipe import Recipe",
            "",
            f"# made by minikafka {re.sub('[^ -~]', '?', self.version) or 'of an unknown version'}",
            f"SETTINGS = {{\n{settings.replace('        ', '    ')}}}"
            if settings
            else "SETTINGS = {}",
            "",
            "",
            f"def test_{self.chapter.replace('-', '_')}() -> None:",
            f"    recipe = Recipe({self.chapter!r}, {self.seed}, {self.brokers}, SETTINGS)",
            "    with Playback(recipe) as playback:",
        ]
        for t_us, name, arguments in self.actions:
            listed = "".join(f", {key}={value!r}" for key, value in sorted(arguments.items()))
            lines.append(f"        playback.advance_to({t_us:_})")
            lines.append(f"        playback.act({name!r}{listed})")
        lines.append(f"        playback.advance_to({end_us:_})")
        if digest is not None:
            lines.append(f"        assert playback.digest() == {digest!r}")
        return "\n".join(lines) + "\n"


def _parsed_actions(rows: object) -> list[TimedAction]:
    if not isinstance(rows, list):
        raise RecipeError("the actions of a recipe are a list")
    for row in rows:
        if not isinstance(row, list) or len(row) != 3:
            raise RecipeError("an action of a recipe is a list of a time, a name and arguments")
    return [TimedAction(*row) for row in rows]


def _check_settings(settings: Any) -> None:
    if not isinstance(settings, dict) or len(settings) > MAX_SETTINGS:
        raise RecipeError(f"the settings of a recipe are an object of at most {MAX_SETTINGS} keys")
    for name, value in settings.items():
        if not isinstance(name, str) or not _SETTING(name):
            raise RecipeError(f"{_shown(name)} is no name of a setting")
        _check_text(f"the setting {name}", value)


def _check_actions(actions: Sequence[TimedAction]) -> None:
    if len(actions) > MAX_ACTIONS:
        raise RecipeError(f"a recipe has at most {MAX_ACTIONS} actions")
    before_us = 0
    for t_us, name, arguments in actions:
        _check_number("the time of an action", t_us, 0, MAX_US)
        if t_us < before_us:
            raise RecipeError("the actions of a recipe are in order of time")
        before_us = t_us
        _check_name("an action", name)
        if not isinstance(arguments, dict) or len(arguments) > MAX_ARGUMENTS:
            raise RecipeError(f"the action {name} has an object of at most {MAX_ARGUMENTS} keys")
        for key, value in arguments.items():
            _check_name("an argument", key)
            if isinstance(value, str):
                _check_text(f"the argument {key} of {name}", value)
            else:
                _check_number(f"the argument {key} of {name}", value, -(2**53) + 1, 2**53 - 1)


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME(name) or keyword.iskeyword(name):
        raise RecipeError(f"{_shown(name)} is no name of {what}")


def _check_number(what: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise RecipeError(f"{what} is a whole number from {least} to {most}, not {_shown(value)}")


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > MAX_TEXT or not _is_unicode(value):
        raise RecipeError(f"{what} is a text of at most {MAX_TEXT} characters")


def _is_unicode(text: str) -> bool:
    """Return False for a text with half a surrogate pair, which JSON can hold."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


TIME = "t_us"


class RecipeReport(NamedTuple):
    """A recipe, and the time at which what it reports happens; None: no time in particular."""

    recipe: Recipe
    t_us: int | None = None

    def to_json(self) -> str:
        """Return one line of JSON. Raises RecipeError if the recipe is too large."""
        found = json.loads(self.recipe.to_json())
        if self.t_us is not None:
            found[TIME] = self.t_us
        return json.dumps(found, sort_keys=True, separators=(",", ":"))

    def link(self) -> str:
        """Return the end of an address: any page of learn mode opens the recipe there. Raises
        RecipeError if it is too long for a link."""
        moment = "" if self.t_us is None else f"&t={self.t_us}"
        return f"#/stage?recipe={self.recipe.to_fragment()}{moment}"

    def note(self, file: str = "FILE") -> str:
        """Return in words for a log how to look at it. ``file`` has what ``to_json`` returns."""
        try:
            text = self.to_json()
        except RecipeError as error:
            return f"It cannot be played as a recipe: {error}."
        where = f", where {file} has this line:\n{text}" if file == "FILE" else f"\n{text}"
        try:
            link = f"\nor at the address of a page of learn mode, followed by\n{self.link()}"
        except RecipeError:
            link = ""
        return f"Play it with `minikafka learn --recipe {file}`{where}{link}"


def read_report(text: str) -> RecipeReport:
    """Parse what ``RecipeReport.to_json`` or ``Recipe.to_json`` has written. Raises RecipeError."""
    if len(text) > MAX_JSON_BYTES:
        raise RecipeError(f"a recipe has at most {MAX_JSON_BYTES} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecipeError("the recipe is not JSON") from error
    t_us = None
    if isinstance(found, dict) and TIME in found:
        t_us = found.pop(TIME)
        if type(t_us) is not int or not 0 <= t_us <= MAX_US:
            raise RecipeError(f"{TIME} is a whole number from 0 to {MAX_US}")
        text = json.dumps(found)
    return RecipeReport(Recipe.from_json(text), t_us)
