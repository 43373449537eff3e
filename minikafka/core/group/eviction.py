"""The most recent removal of a member by the coordinator, shown to operators."""

from __future__ import annotations

from typing import NamedTuple


class Eviction(NamedTuple):
    """Who was removed, why, and when, in milliseconds since 1970. It is not in the log: the next
    coordinator does not know it."""

    member_id: str
    reason: str
    at_ms: int
