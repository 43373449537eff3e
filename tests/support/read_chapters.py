"""Reads chapters of learn mode by the requests of a page. It runs in CPython and in Pyodide."""

from __future__ import annotations

import json
from contextlib import closing

from minikafka.page.learn.session import Session

SLICE_US = 1_000_000


def sentences(chapters: str) -> str:
    """Read each chapter of a JSON list of names to its end; return the keys of what each says, in
    order, as JSON."""
    with closing(Session(lambda: 0.0)) as session:  # by its clock no request takes too long
        return json.dumps([_read(session, name) for name in json.loads(chapters)])


def _read(session: Session, chapter: str) -> list[str]:
    """Go on, and answer with the first option, until the chapter is done."""
    keys = {}
    messages = session.request({"do": "open", "chapter": chapter, "language": "en"})
    while True:
        *told, playback = json.loads(json.dumps(messages))
        assert playback["failed"] is None, playback
        for each in told:
            if each["type"] in ("say", "ask", "check"):
                keys[each["number"]] = each["key"]
        match playback["story"]:
            case "done":
                return list(keys.values())
            case "waiting":
                messages = session.request({"do": "continue"})
            case "asking":
                messages = session.request({"do": "answer", "choice": 0})
            case _:
                to_us = playback["now_us"] + SLICE_US
                messages = session.request({"do": "advance", "to_us": to_us})
