"""Both ends of a fetch session: lost requests, lost responses and evictions cost no update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.client.fetch_session import FetchSessionHandler, NextFetch
from minikafka.core.replication.fetch_session import (
    FINAL_EPOCH,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    is_full,
)
from minikafka.kernel.errors import ErrorCode, KafkaError


class PartitionResult(NamedTuple):
    size: int
    high_watermark: int
    log_start_offset: int = 0
    is_error: bool = False
    is_urgent: bool = False


A, B, C = ("t", 0), ("t", 1), ("u", 0)


def test_a_session_from_its_first_request_to_its_loss() -> None:
    handler: FetchSessionHandler[int] = FetchSessionHandler()
    assert handler.build({A: 1, B: 2}, False) == NextFetch(0, 0, {A: 1, B: 2})
    assert handler.handle_response(ErrorCode.NONE, 9, [A, B])
    assert handler.build({A: 1, B: 2}, False) == NextFetch(9, 1, {}, [])
    assert handler.handle_response(ErrorCode.NONE, 9, [])
    assert handler.build({A: 5, C: 3}, False) == NextFetch(9, 2, {A: 5, C: 3}, [B])
    assert not handler.handle_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])
    assert handler.build({A: 5, C: 3}, False) == NextFetch(0, 0, {A: 5, C: 3})
    assert handler.handle_response(ErrorCode.NONE, 0, [A, C])  # the leader has no slot
    assert handler.build({A: 5}, False) == NextFetch(0, 0, {A: 5})
    assert handler.saved == 2


@pytest.mark.parametrize(
    "code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR]
)
def test_a_session_that_the_leader_gave_up_is_not_named_again(code: ErrorCode) -> None:
    handler: FetchSessionHandler[int] = FetchSessionHandler()
    handler.build({A: 1}, False)
    handler.handle_response(ErrorCode.NONE, 9, [A])
    assert not handler.handle_response(code, 9, [])
    assert handler.build({A: 1}, False) == NextFetch(0, 0, {A: 1})


@pytest.mark.parametrize("break_it", ["failed", "epoch", "stranger"])
def test_full_request_closes_a_session_after_an_error(break_it: str) -> None:
    handler: FetchSessionHandler[int] = FetchSessionHandler()
    handler.build({A: 1}, False)
    handler.handle_response(ErrorCode.NONE, 9, [A])
    handler.build({A: 2}, False)
    if break_it == "failed":
        handler.handle_error()
    elif break_it == "epoch":
        assert not handler.handle_response(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9, [])
    else:
        assert not handler.handle_response(ErrorCode.NONE, 9, [B])
    assert handler.build({A: 2}, False) == NextFetch(9, 0, {A: 2})


def test_full_response_must_name_exactly_the_requested_partitions() -> None:
    handler: FetchSessionHandler[int] = FetchSessionHandler()
    handler.build({A: 1, B: 1}, False)
    assert not handler.handle_response(ErrorCode.NONE, 9, [A])
    assert is_full(handler.build({A: 1, B: 1}, False).session_epoch)
    assert not handler.handle_response(ErrorCode.NONE, 9, [A, C]), "C is a stranger"
    assert is_full(handler.build({A: 1, B: 1}, False).session_epoch)


def test_names_and_ids_do_not_mix() -> None:
    handler: FetchSessionHandler[int] = FetchSessionHandler()
    handler.build({A: 1}, True)
    handler.handle_response(ErrorCode.NONE, 9, [A])
    assert handler.build({A: 1}, False) == NextFetch(9, 0, {A: 1})
    assert handler.session_id == 9


class Leader:
    """Respond to fetch requests as a broker does. ``truth`` is the high watermark of each
    partition; a request names the offset that the client has reached."""

    def __init__(self, slots: int) -> None:
        self.cache: FetchSessionCache[int] = FetchSessionCache(slots)
        self.truth: dict[PartitionKey, int] = {}
        self.now_ms = 0
        self._ids = 0

    def respond(self, fetch: NextFetch[int]) -> tuple[ErrorCode, int, dict[PartitionKey, int]]:
        self.now_ms += 1
        if not is_full(fetch.session_epoch):
            try:
                session = self.cache.resume(
                    fetch.session_id,
                    fetch.session_epoch,
                    False,
                    fetch.named,
                    fetch.forgotten,
                    self.now_ms,
                )
            except KafkaError as error:
                return error.code, 0, {}
            keys = list(session.partitions)
            places = session.select_changed(
                list(session.partitions.items()), [self._result(session, key) for key in keys]
            )
            session_id = session.id if keys else 0
            return ErrorCode.NONE, session_id, {keys[i]: self.truth[keys[i]] for i in places}
        self.cache.close(fetch.session_id)
        found = {key: self.truth[key] for key in fetch.named}
        if fetch.session_epoch == FINAL_EPOCH or not self.cache.make_room(
            False, len(found), self.now_ms
        ):
            return ErrorCode.NONE, 0, found
        self._ids += 1
        session = FetchSession(self._ids, False, False, self.now_ms)
        session.fill(
            list(fetch.named.items()), [PartitionResult(0, mark, 0) for mark in found.values()]
        )
        self.cache.add(session, self.now_ms)
        return ErrorCode.NONE, session.id, found

    def _result(self, session: FetchSession[int], key: PartitionKey) -> PartitionResult:
        return PartitionResult(
            self.truth[key] - session.partitions[key].request, self.truth[key], 0
        )


KEYS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2))
ROUNDS = st.lists(
    st.tuples(
        st.sets(KEYS, min_size=1),  # what is wanted
        st.dictionaries(KEYS, st.integers(1, 3), max_size=3),  # what is appended before
        st.sampled_from(["", "", "", "request lost", "response lost", "evicted"]),
    ),
    max_size=25,
)


@pytest.mark.mission("FET-7")
@settings(max_examples=150)
@given(slots=st.integers(0, 2), rounds=ROUNDS)
def test_client_knows_the_high_watermarks_of_the_leader_after_each_response(
    slots: int, rounds: list[tuple[set[PartitionKey], Mapping[PartitionKey, int], str]]
) -> None:
    leader, handler = Leader(slots), FetchSessionHandler[int]()
    known: dict[PartitionKey, int] = {}
    for keys, appended, mishap in rounds:
        for key in keys | set(appended):
            leader.truth.setdefault(key, 0)
        for key, count in appended.items():
            leader.truth[key] += count
        wanted = {key: known.get(key, 0) for key in sorted(keys)}
        fetch = handler.build(wanted, False)
        if mishap == "evicted":
            leader.cache.close(fetch.session_id)
        response = None if mishap == "request lost" else leader.respond(fetch)
        if response is None or mishap == "response lost":
            handler.handle_error()
            continue
        error, session_id, found = response
        if not handler.handle_response(error, session_id, list(found)):
            assert mishap == "evicted"
            continue
        known |= found
        assert set(found) <= keys
        assert {key: known[key] for key in keys} == {key: leader.truth[key] for key in keys}
        session = leader.cache.get(session_id)
        assert (session is None) == (session_id == 0)
        if session is not None:
            assert {k: p.request for k, p in session.partitions.items()} == wanted
