"""What a check expects, and the errors that end it.

A check returns if its rule holds. It raises ``Broken`` if not, and ``NotOffered`` if the cluster
has no API, version or feature to try it with.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import error_codes


class Broken(Exception):
    """The rule does not hold; the text says what was found."""


class NotOffered(Exception):
    """The cluster has nothing to try the rule with. ``key`` and ``versions`` name the API and its
    lowest and highest useful version; without ``key`` a feature is switched off."""

    def __init__(
        self, text: str, key: ApiKey | None = None, versions: tuple[int, int] = (0, 0)
    ) -> None:
        super().__init__(text)
        self.key = key
        self.versions = versions


def named(code: int) -> str:
    """Return the name of an error code, or its number if Kafka has no such error."""
    known = {each.value: each.name for each in ErrorCode}
    return known.get(code, f"error {code}")


def expect(what: str, found: Any, expected: Any) -> None:
    """Raise Broken unless both are equal."""
    if found != expected:
        raise Broken(f"{what} is {found!r}, not {expected!r}")


def expect_error(found: int, *expected: ErrorCode, of: str = "the error") -> None:
    """Raise Broken unless the error code is one of ``expected``."""
    if found not in expected:
        raise Broken(f"{of} is {named(found)}, not {' or '.join(each.name for each in expected)}")


def expect_true(fact: bool, otherwise: str) -> None:
    """Raise Broken with the text ``otherwise`` unless the fact holds."""
    if not fact:
        raise Broken(otherwise)


def expect_in(what: str, found: Any, expected: Collection[Any]) -> None:
    """Raise Broken unless ``expected`` has what was found."""
    if found not in expected:
        raise Broken(f"{what} is {found!r}, not one of {sorted(expected)!r}")


def accepted(response: Any) -> Any:
    """Return a response that has no error anywhere. Raises Broken for one that has."""
    for code in error_codes(response):
        raise Broken(f"{type(response).__name__} has the error {named(code)}")
    return response
