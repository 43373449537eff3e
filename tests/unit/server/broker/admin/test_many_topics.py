"""CreateTopics of very many topics: few listings in ZooKeeper, and no long loop."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import ConnectionLost
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.server.broker.admin.topics import LISTED_FOR, KnownTopics
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element
from tests.support.zookeeper.direct import DirectZookeeper
from tests.unit.server.broker.admin.test_topic_admin import Admin

COUNT = 2 * LISTED_FOR + 1
CONTEXT = RequestContext(RequestHeader(19, 7, 1), "PLAINTEXT", "h")


class AdminOfSession(Admin):
    session: Any


@pytest.fixture
async def admin() -> AdminOfSession:
    session: Any = await DirectZookeeper().open("", 0, 0)
    store = ZkStore(session)
    await store.create_persistent_paths()
    made = AdminOfSession(store)
    made.session = session
    return made


@pytest.mark.mission("SAFE-38")
async def test_topics_to_validate_are_checked_against_few_listings(
    admin: AdminOfSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause_at_every_element(monkeypatch)
    request = CreateTopicsRequest(
        [CreatableTopic(f"new-{number}", 1, 1) for number in range(COUNT)], validate_only=True
    )
    before = len(admin.session.calls)
    response, most = await most_calls_in_a_turn(admin.create_handler(CONTEXT, request))
    assert [row.error_code for row in response.topics] == [0] * COUNT
    reads = admin.session.calls[before:]
    assert sorted(path for _, path in reads) == [paths.DELETE_TOPICS] * 3 + [paths.TOPICS] * 3
    assert most < 10 * COUNT


@pytest.mark.mission("SAFE-38")
async def test_many_existing_topics_are_noted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_element(monkeypatch)
    existing = [f"t_{number}" for number in range(2_000)]
    known = KnownTopics(lambda: Listing(existing), LISTED_FOR)  # type: ignore[arg-type, return-value]
    _, most = await most_calls_in_a_turn(known.require_free("new"))
    assert most < 2_000
    for name in ("t_7", "t.7"):
        with pytest.raises(KafkaError):
            await known.require_free(name)


@pytest.mark.mission("SAFE-38")
async def test_topics_collide_with_others_of_the_request(admin: AdminOfSession) -> None:
    rows = [CreatableTopic(name, 1, 1) for name in ("a.b", "a_b", "ab")]
    outcomes = await admin.admin.create_topics(rows, timeout_ms=0, validate_only=False)
    codes = {name: o.error.code for name, o in outcomes.items() if o.error is not None}
    assert codes == {
        "a.b": ErrorCode.REQUEST_TIMED_OUT,  # created
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "ab": ErrorCode.REQUEST_TIMED_OUT,
    }
    assert await admin.store.topics() == ["a.b", "ab"]


@pytest.mark.mission("SAFE-38")
async def test_a_topic_marked_for_deletion_since_the_listing_is_not_created(
    admin: AdminOfSession,
) -> None:
    """The controller would delete the new one with the old."""

    async def marked(topic: str) -> bool:
        return topic == "going"

    admin.store.topic_marked_for_deletion = marked
    (outcome,) = (
        await admin.admin.create_topics([CreatableTopic("going", 1, 1)], 0, validate_only=False)
    ).values()
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert await admin.store.topics() == []


@pytest.mark.mission("SAFE-38")
async def test_a_listing_that_fails_is_read_again_for_the_next_topic() -> None:
    listing = Listing(["old"], failures=1)
    known = KnownTopics(lambda: listing, LISTED_FOR)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConnectionLost):
        await known.require_free("new")
    await known.require_free("new")
    with pytest.raises(KafkaError):
        await known.require_free("old")


class Listing:
    """A store with these topics, which fails so many times first."""

    def __init__(self, names: list[str], failures: int = 0) -> None:
        self._names = names
        self._failures = failures

    async def topic_deletions(self) -> list[str]:
        return []

    async def topics(self) -> list[str]:
        if self._failures:
            self._failures -= 1
            raise ConnectionLost
        return self._names
