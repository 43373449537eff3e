"""The client side of fetch sessions (KIP-227): what the next request to a leader has to name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, NamedTuple, TypeVar

from minikafka.core.replication.fetch_session import (
    INITIAL_EPOCH,
    NO_SESSION,
    PartitionKey,
    is_full,
    next_epoch,
)
from minikafka.kernel.errors import ErrorCode

R = TypeVar("R")

_GONE = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)


class NextFetch(NamedTuple, Generic[R]):
    """``named``: all partitions of a full request; in an incremental one those that are new or have
    changed. ``forgotten``: those that leave the session."""

    session_id: int
    session_epoch: int
    named: Mapping[PartitionKey, R]
    forgotten: Collection[PartitionKey] = ()


class FetchSessionHandler(Generic[R]):
    """The session with one leader (Kafka's FetchSessionHandler). One request at a time: ``build``
    it, then call ``answered`` or ``failed``.

    ``saved`` counts the partitions that incremental requests did not have to name."""

    def __init__(self) -> None:
        self.saved = 0
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._by_id = False
        self._held: dict[PartitionKey, R] = {}  # the partitions in the session, after the request

    @property
    def session_id(self) -> int:
        return self._id

    @property
    def names_all(self) -> bool:
        """Whether the next request is a full one, which begins a session."""
        return is_full(self._epoch)

    def build(self, wanted: Mapping[PartitionKey, R], by_id: bool) -> NextFetch[R]:
        """Build the request for ``wanted``. A session holds topic names or ids, never both: when
        that changes, the old session is closed."""
        if by_id != self._by_id:
            self._epoch = INITIAL_EPOCH
            self._by_id = by_id
        if self.names_all:
            self._held = dict(wanted)
            return NextFetch(self._id, self._epoch, self._held)
        new = sum(key not in self._held for key in wanted)
        forgotten: list[PartitionKey] = []
        if len(self._held) + new != len(wanted):
            forgotten = [key for key in self._held if key not in wanted]
        return self.build_on(wanted, forgotten)

    def build_on(
        self, changed: Mapping[PartitionKey, R], forgotten: Collection[PartitionKey]
    ) -> NextFetch[R]:
        """Build the next request of a session, for a caller that knows which partitions may have
        ``changed`` since the last request, and which are ``forgotten``."""
        assert not self.names_all
        held = self._held
        named = {key: want for key, want in changed.items() if held.get(key) != want}
        held.update(named)
        for key in forgotten:
            del held[key]
        self.saved += len(held) - len(named)
        return NextFetch(self._id, self._epoch, named, forgotten)

    def answered(
        self, error: ErrorCode, session_id: int, partitions: Collection[PartitionKey]
    ) -> bool:
        """Process a response, and return whether it can be used. After one that cannot, and after
        every error, the next request is a full one."""
        if error is not ErrorCode.NONE:
            if error in _GONE:
                self._id = NO_SESSION
            self._epoch = INITIAL_EPOCH
            return False
        full = is_full(self._epoch)
        held = self._held
        fits = all(key in held for key in partitions)
        if full:
            fits = fits and len(set(partitions)) == len(held)
        if not fits:
            self._epoch = INITIAL_EPOCH
            return False
        if session_id == NO_SESSION:  # the leader has no slot for the session, or has evicted it
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif full:
            self._id, self._epoch = session_id, next_epoch(INITIAL_EPOCH)
        else:
            self._epoch = next_epoch(self._epoch)
        return True

    def failed(self) -> None:
        """Note that no response came: the leader may or may not have processed the request."""
        self._epoch = INITIAL_EPOCH
