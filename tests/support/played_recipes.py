"""Plays recipes and returns what they come to. It runs in CPython and in Pyodide."""

from __future__ import annotations

import json

from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import Recipe


def outcomes(recipes: str, until_us: int) -> str:
    """Play each recipe of a JSON list of recipes; return the digests and numbers of events as
    JSON."""
    found = []
    for text in json.loads(recipes):
        with Playback(Recipe.from_json(text)) as playback:
            playback.advance_to(until_us)
            found.append([playback.digest(), len(playback.events)])
    return json.dumps(found)
