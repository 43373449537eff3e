"""The client side of fetch sessions (KIP-227): which partitions the next Fetch request names."""

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
    """The session fields of the next Fetch request.

    A full request has all partitions in ``named``. An incremental request has only new and changed
    ones, and lists in ``forgotten`` those that leave the session.
    """

    session_id: int
    session_epoch: int
    named: Mapping[PartitionKey, R]
    forgotten: Collection[PartitionKey] = ()


class FetchSessionHandler(Generic[R]):
    """The fetch session with one broker (Kafka's ``FetchSessionHandler``).

    Only one request may be in flight: call ``build`` (or ``build_on``), then ``handle_response``
    with the response, or ``handle_error`` if there is none. ``saved`` counts the partitions that
    incremental requests left out.
    """

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
        """Whether the next request is a full one, which begins a new session."""
        return is_full(self._epoch)

    def build(self, wanted: Mapping[PartitionKey, R], by_id: bool) -> NextFetch[R]:
        """Build the next request for exactly the partitions in ``wanted``.

        ``by_id`` says whether their keys are topic ids. A session holds either topic names or ids:
        when that changes, a full request replaces the session.
        """
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
        """Build the next incremental request from the changes since the last one.

        The caller knows which partitions may have ``changed`` and which are ``forgotten``; all
        others stay in the session unexamined.
        """
        assert not self.names_all
        held = self._held
        named = {key: want for key, want in changed.items() if held.get(key) != want}
        held.update(named)
        for key in forgotten:
            del held[key]
        self.saved += len(held) - len(named)
        return NextFetch(self._id, self._epoch, named, forgotten)

    def handle_response(
        self, error: ErrorCode, session_id: int, partitions: Collection[PartitionKey]
    ) -> bool:
        """Process a response and return whether the caller may use its rows.

        ``partitions`` are those in the response: all of the session for a full request, any of them
        for an incremental one. After an error, or with other partitions, the result is False and
        the next request is a full one.
        """
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

    def handle_error(self) -> None:
        """Note that no response came. The broker may have processed the request, so the next is
        full."""
        self._epoch = INITIAL_EPOCH
