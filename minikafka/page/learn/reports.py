"""Recipes in files: one on its own, or with the time at which a reader should look."""

from __future__ import annotations

import json
from typing import NamedTuple

from minikafka.page.learn.recipe import MAX_JSON_BYTES, MAX_US, Recipe, RecipeError

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
