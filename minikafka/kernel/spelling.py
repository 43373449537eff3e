"""The name that was probably meant by a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, or nothing."""
    from difflib import get_close_matches  # 10 ms, for a mistake alone

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
