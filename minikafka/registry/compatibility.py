"""The compatibility levels: which versions a new schema is compared with, in which direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

# A level: whether the new schema must read what earlier ones wrote, whether earlier ones must read
# what the new one writes, and whether all earlier versions count or the last one alone.
LEVELS: Final = {
    "NONE": (False, False, False),
    "BACKWARD": (True, False, False),
    "BACKWARD_TRANSITIVE": (True, False, True),
    "FORWARD": (False, True, False),
    "FORWARD_TRANSITIVE": (False, True, True),
    "FULL": (True, True, False),
    "FULL_TRANSITIVE": (True, True, True),
}


class ParsedSchema(Protocol):
    """A schema with its references resolved."""

    @property
    def kind(self) -> str: ...

    @property
    def canonical(self) -> str:
        """The text that is stored; equal for schemas that differ in white space alone."""
        ...

    @property
    def violations(self) -> Sequence[str]:
        """The rules of its specification that the schema breaks. If there are any, it cannot be
        registered; a schema that is stored already stays usable."""
        ...

    def unreadable(self, writer: ParsedSchema) -> list[str]:
        """Return the reasons why this schema cannot read what ``writer``, a schema of the same
        kind, has written; none if it can."""
        ...


def incompatibilities(level: str, new: ParsedSchema, earlier: Sequence[ParsedSchema]) -> list[str]:
    """Return why ``new`` may not follow ``earlier``, the versions of its subject with the oldest
    first; nothing if it may."""
    new_reads, old_reads, transitive = LEVELS[level]
    for old in reversed(earlier if transitive else earlier[-1:]):
        reasons: list[str] = []
        if new.kind != old.kind and (new_reads or old_reads):
            reasons.append(f"the type of the schema changed from {old.kind} to {new.kind}")
        else:
            if new_reads:
                reasons += new.unreadable(old)
            if old_reads:
                reasons += old.unreadable(new)
        if reasons:
            return reasons
    return []
