"""Incremental fetches (KIP-227): a session names only what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import expect, expect_error, expect_true
from minikafka.testing.conformance.subject import MAX_BYTES, Subject, Topic

FETCH = ApiKey.FETCH
FIRST, FIRST_BY_ID = 7, 13
NO_SESSION = -1


class ScriptedSession:
    """Sends the fetches of one session; the caller names the epochs."""

    def __init__(self, s: Subject, topic: Topic, version: int) -> None:
        self._s, self._topic, self.version = s, topic, version
        self.session_id = 0

    @classmethod
    async def of(
        cls, s: Subject, partitions: int = 2, version: int | None = None
    ) -> ScriptedSession:
        chosen = s.version(FETCH, FIRST) if version is None else version
        # A session is with one broker, which leads so many of them.
        topic = await s.topic(partitions * len(s.cluster.brokers))
        return cls(s, topic, chosen)

    @property
    def topic(self) -> Topic:
        return self._topic

    def own_partitions(self) -> list[int]:
        """The partitions of the topic that the first one's leader leads."""
        leaders = self._topic.leaders
        return [i for i, leader in enumerate(leaders) if leader == leaders[0]]

    async def fetch(
        self,
        epoch: int,
        offsets: Mapping[int, int],
        forgotten: list[int] | None = None,
        version: int | None = None,
    ) -> Any:
        rows = [
            {"partition": i, "fetch_offset": offset, "partition_max_bytes": MAX_BYTES}
            for i, offset in offsets.items()
        ]
        names = {"topic": self._topic.name, "topic_id": self._topic.topic_id}
        topics = [{**names, "partitions": rows}] if rows else []
        gone = [{**names, "partitions": forgotten}] if forgotten else []
        version = version or self.version
        return await self._s.ask(
            FETCH,
            (version, version),
            await self._s.leader(self._topic),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            session_id=self.session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=gone,
        )

    async def begin(self) -> Any:
        """Open the session with all partitions of the broker, at offset 0."""
        response = await self.fetch(0, dict.fromkeys(self.own_partitions(), 0))
        expect_error(response.error_code, ErrorCode.NONE)
        expect_true(response.session_id > 0, "no session was opened")
        self.session_id = response.session_id
        return response

    async def next(self, epoch: int, offsets: Mapping[int, int] = {}, **more: Any) -> list[int]:
        """Send an incremental fetch, and return the partitions in its response."""
        response = await self.fetch(epoch, offsets, **more)
        expect_error(response.error_code, ErrorCode.NONE)
        expect("the session id", response.session_id, self.session_id)
        return [p.partition_index for t in response.responses for p in t.partitions]


@check("KIP-227, FetchManager")
async def epoch_0_opens_a_session(s: Subject) -> None:
    """A consumer of many partitions would name all of them in each request."""
    session = await ScriptedSession.of(s)
    response = await session.begin()
    found = [p.partition_index for t in response.responses for p in t.partitions]
    expect("the partitions in the first response", sorted(found), session.own_partitions())


@check("KIP-227")
async def without_a_session_there_is_no_id(s: Subject) -> None:
    """A client that wants no session would fill the broker's cache."""
    session = await ScriptedSession.of(s)
    response = await session.fetch(NO_SESSION, {0: 0})
    expect("the session id", response.session_id, 0)


@check("KIP-227, IncrementalFetchContext")
async def partitions_without_news_are_left_out(s: Subject) -> None:
    """A response to a consumer of many partitions would be large without a record."""
    session = await ScriptedSession.of(s)
    await session.begin()
    expect("the partitions in the response", await session.next(1), [])


@check("KIP-227, IncrementalFetchContext")
async def a_partition_with_records_is_in_the_response(s: Subject) -> None:
    """A consumer would never see new records."""
    session = await ScriptedSession.of(s)
    await session.begin()
    await s.produce(session.topic, b"v")
    expect("the partitions in the response", await session.next(1), [0])


@check("KIP-227")
async def a_partition_keeps_its_offset_until_it_is_named_again(s: Subject) -> None:
    """A consumer would lose the records of a response that it has not processed."""
    session = await ScriptedSession.of(s)
    await session.begin()
    await s.produce(session.topic, b"v")
    expect("the partitions in the first response", await session.next(1), [0])
    expect("the partitions in the second one", await session.next(2), [0])
    expect("the partitions after the offset moved", await session.next(3, {0: 1}), [])


@check("KIP-227, FetchManager")
async def an_unknown_session_is_an_error(s: Subject) -> None:
    """A consumer would not notice that its session was evicted, and miss partitions."""
    session = await ScriptedSession.of(s)
    session.session_id = 123_456_789
    response = await session.fetch(1, {0: 0})
    expect_error(response.error_code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


@check("KIP-227, FetchManager")
async def a_wrong_epoch_is_an_error(s: Subject) -> None:
    """A response that got lost would leave client and broker with different partitions."""
    session = await ScriptedSession.of(s)
    await session.begin()
    response = await session.fetch(5, {})
    expect_error(response.error_code, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


@check("KIP-227")
async def a_session_can_be_closed(s: Subject) -> None:
    """Sessions of consumers that ended would fill the broker's cache."""
    session = await ScriptedSession.of(s)
    await session.begin()
    await session.fetch(NO_SESSION, {})
    response = await session.fetch(1, {})
    expect_error(response.error_code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


@check("KIP-227")
async def a_forgotten_partition_is_not_sent(s: Subject) -> None:
    """A consumer would get records of a partition that another member owns now."""
    session = await ScriptedSession.of(s)
    await session.begin()
    await s.produce(session.topic, b"v")
    expect("the partitions in the response", await session.next(1, forgotten=[0]), [])


@check("KIP-227")
async def a_partition_can_be_added(s: Subject) -> None:
    """A consumer that is assigned a partition would not read it."""
    session = await ScriptedSession.of(s, 1)
    await session.begin()
    more = await s.topic(len(s.cluster.brokers))
    partition = more.leaders.index(session.topic.leaders[0])
    await s.produce(more, b"v", partition=partition)
    row = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": MAX_BYTES}
    topics = [{"topic": more.name, "topic_id": more.topic_id, "partitions": [row]}]
    version = session.version
    response = await s.ask(
        FETCH, (version, version), await s.leader(more, partition), max_wait_ms=0, min_bytes=0,
        max_bytes=MAX_BYTES, session_id=session.session_id, session_epoch=1, topics=topics,
    )  # fmt: skip
    found = [each.topic or each.topic_id for each in response.responses]
    expected = more.topic_id if version >= FIRST_BY_ID else more.name
    expect("the topics in the response", found, [expected])


@check("KIP-227, CachedPartition.maybeUpdateResponseData")
async def a_partition_with_an_error_is_always_sent(s: Subject) -> None:
    """A consumer would see the error once and then wait for ever."""
    session = await ScriptedSession.of(s)
    await session.begin()
    expect("the partitions in the response", await session.next(1, {0: 99}), [0])
    expect("the partitions in the next one", await session.next(2), [0])


@check("KIP-227")
async def epoch_0_with_an_id_opens_a_new_session(s: Subject) -> None:
    """A client that begins again after an error would go on with the old partitions."""
    session = await ScriptedSession.of(s)
    await session.begin()
    old = session.session_id
    await session.begin()
    expect_true(session.session_id != old, "the session is the old one")


@check("KIP-516, FetchSession")
async def names_and_ids_are_not_mixed_in_a_session(s: Subject) -> None:
    """After a downgrade a consumer would read a partition of another topic."""
    s.version(FETCH, FIRST_BY_ID)
    session = await ScriptedSession.of(s, version=FIRST_BY_ID)
    await session.begin()
    response = await session.fetch(1, {0: 0}, version=FIRST_BY_ID - 1)
    expect_error(response.error_code, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
