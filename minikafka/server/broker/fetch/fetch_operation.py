"""One Fetch of a consumer or a follower, from its first read to its response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from minikafka.server.broker.fetch.follower_sessions import FollowerFetch
from minikafka.server.broker.fetch.reader import FetchEntry, FetchParams, ReadResult

FetchReply: TypeAlias = Callable[[Sequence[ReadResult]], None]
# Called with the unexpected exception of a parked fetch: closes the connection of that fetch.
Contain: TypeAlias = Callable[[Exception], None]


class FetchOperation:
    """A Fetch is in one of these states. ``RecordFetches`` performs the steps between them.

    ========  ===================================================================  ==============
    reading   its partitions are read: at once, in slices (of thousands), or by a  parked or
              thread before (where records are not in the page cache)              responded
    parked    a ``DelayedFetch`` watches its partitions; then they are read again  responded
    responded ``respond`` was called, exactly once
    ========  ===================================================================  ==============

    ``entries`` are the partitions to read. Those that were ``set_aside`` get an error without a
    read. A follower's session may add entries to ``follower`` while the fetch is parked: its list
    is the same as ``entries``. ``contain`` is called with an unexpected exception after the fetch
    was parked; None if such an exception ends the node."""

    __slots__ = ("_errors", "_reply", "contain", "entries", "follower", "params")

    def __init__(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        contain: Contain | None = None,
        follower: FollowerFetch | None = None,
    ) -> None:
        self.params = params
        self.entries = entries
        self.contain = contain
        self.follower = follower
        self._reply = reply
        self._errors: list[ReadResult | None] = []  # of all entries, once some were set aside

    @property
    def cannot_grow(self) -> bool:
        """Whether no partition can join ``entries`` while the fetch is parked."""
        return self.follower is None or self.follower.is_empty

    def set_aside(self, errors: Sequence[ReadResult | None]) -> None:
        """Respond with ``errors``, one for each entry. Only entries whose error is None are read
        from now on."""
        if not any(errors):
            return
        pairs = zip(self.entries, errors, strict=True)
        self.entries = [entry for entry, error in pairs if error is None]
        rest = iter(errors)
        before = self._errors or [None] * len(errors)
        self._errors = [next(rest) if error is None else error for error in before]

    def respond(self, results: Sequence[ReadResult]) -> None:
        """Respond with the results of ``entries``, and with the errors of the others."""
        if self._errors:
            rest = iter(results)
            results = [next(rest) if error is None else error for error in self._errors]
        self._reply(results)
