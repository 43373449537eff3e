"""Wrong command lines: their error, and the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.kernel.config import ConfigError


class WrongUsage(ConfigError):
    """A verb does not accept an option, or the value of one. The command ends with exit status 2;
    after any other error it ends with 1."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, or nothing."""
    from difflib import get_close_matches  # 10 ms, for a mistake alone

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
