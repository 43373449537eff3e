"""What a test says about its cluster: the mark ``minikafka``, and the ini options below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minikafka.testing.cluster import Where, place

KEYWORDS = ("brokers", "where", "settings", "needs", "seed", "reset")


class MarkError(ValueError):
    """A mark, or an ini option, that says something impossible."""


@dataclass(frozen=True)
class ClusterChoice:
    """The cluster of a test. Tests with equal choices share one, except in simulated time, where
    ``seed`` decides what happens. With ``reset`` a test finds its cluster as good as new, and
    leaves it so."""

    where: Where
    brokers: int
    settings: tuple[tuple[str, str], ...] = ()  # sorted
    seed: int = 0
    reset: bool = field(default=False, compare=False)


def cluster_choice(
    marks: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]], defaults: Mapping[str, Any]
) -> ClusterChoice:
    """Return what marks choose. Each is a pair of arguments and keywords, the closest to the test
    first: it wins, and settings add up. ``defaults`` are keywords, too. Raises MarkError."""
    found: dict[str, Any] = {}
    settings: dict[str, str] = {}
    for arguments, keywords in (*marks, ((), defaults)):
        _check_form(arguments, keywords)
        settings = {**_checked_settings(keywords.get("settings") or {}), **settings}
        found = {**keywords, **found}
    reset = bool(found.get("reset"))
    needs = [*(found.get("needs") or ()), *(["reset"] if reset else [])]
    try:
        where = place(found.get("where"), needs)
    except (ValueError, RuntimeError) as error:
        raise MarkError(str(error)) from None
    return ClusterChoice(
        where,
        found.get("brokers", 1),
        tuple(sorted(settings.items())),
        found.get("seed", 0),
        reset,
    )


def _check_form(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    named = ", ".join(KEYWORDS)
    if arguments:
        raise MarkError(f"the mark minikafka takes keywords only: {named}")
    unknown = [key for key in keywords if key not in KEYWORDS]
    if unknown:
        raise MarkError(f"the mark minikafka has no keyword {unknown[0]!r}; there are {named}")
    for key in ("brokers", "seed"):
        number = keywords.get(key, 1)
        if not isinstance(number, int) or isinstance(number, bool):
            raise MarkError(f"{key} of the mark minikafka is a number, not {number!r}")
    if not isinstance(keywords.get("reset", False), bool):
        raise MarkError(f"reset of the mark minikafka is True or False, not {keywords['reset']!r}")
    if keywords.get("brokers", 1) < 1:
        raise MarkError("brokers of the mark minikafka is at least 1")
    if isinstance(keywords.get("needs"), str):
        raise MarkError(f'needs of the mark minikafka is a list: ["{keywords["needs"]}"]')


def _checked_settings(settings: Any) -> dict[str, str]:
    if not isinstance(settings, Mapping):
        raise MarkError(f"settings of the mark minikafka is a dict, not {settings!r}")
    return {str(key): str(value) for key, value in settings.items()}


def settings_of_lines(lines: Iterable[str]) -> dict[str, str]:
    """Return settings of lines ``key=value``. Raises MarkError."""
    found = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals:
            raise MarkError(f"minikafka_settings has lines key=value, not {line!r}")
        found[key.strip()] = value.strip()
    return found
