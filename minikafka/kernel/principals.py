"""Principals: who a connection is, as an authorizer and quotas know it."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass

USER: Final = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """Kafka's ``KafkaPrincipal``. Two are equal if type and name are.

    ``by_token`` is true if the connection logged in with a delegation token."""

    name: str
    type: str = USER
    by_token: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Parse ``Type:name``; the name may contain colons. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is not Type:name")
    return Principal(name, kind)
