"""The most recent removal of a member by the coordinator, shown to operators."""

from __future__ import annotations

from typing import NamedTuple


class Eviction(NamedTuple):
    """The member, the reason, and the wall time in ms. The log does not contain it, so that the
    next coordinator does not know it."""

    member_id: str
    reason: str
    at_ms: int
