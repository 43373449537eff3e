"""The share consumer: acquires records of a share group and acknowledges them (KIP-932)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Literal
from uuid import UUID

from minikafka.client.config import ClientConfig, check_least
from minikafka.client.consumer.share_member import ShareMember
from minikafka.client.serialization import (
    AnyDeserializer,
    check_serialization,
    record_deserializer,
)
from minikafka.client.session import Client
from minikafka.core.client.calls import Call
from minikafka.core.client.consumer.share_session import (
    AcknowledgeErrors,
    ShareFetched,
    ShareFetchLimits,
    ShareFetchSession,
    SharePlace,
    ShareRecord,
    plain,
)
from minikafka.core.client.errors import BrokerBackoffs
from minikafka.core.share.share_partition import AcknowledgeType
from minikafka.kernel.cluster import TopicPartition, topic_id_text
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World

__all__ = ["AcknowledgeType", "ShareConsumer", "ShareConsumerConfig", "ShareRecord"]

_CHOICES: Final = {
    "share_acknowledgement_mode": ("implicit", "explicit"),
    "share_acquire_mode": ("batch_optimized", "record_limit"),
}
_LEAST: Final = {
    "max_poll_records": 1,
    "fetch_min_bytes": 0,
    "fetch_max_bytes": 0,
    "fetch_max_wait_ms": 0,
}


@dataclass(frozen=True, slots=True)
class ShareConsumerConfig:
    """Kafka's keys of share consumers in snake case, with Kafka's defaults.

    With ``share_acknowledgement_mode`` "implicit" the records of a poll are accepted by the next
    one, by ``commit`` and by ``close``; with "explicit" each is acknowledged before. Raises
    ValueError for values that cannot be."""

    group_id: str = ""
    share_acknowledgement_mode: Literal["implicit", "explicit"] = "implicit"
    share_acquire_mode: Literal["batch_optimized", "record_limit"] = "batch_optimized"
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    client_rack: str = ""
    key_deserializer: AnyDeserializer | None = None
    value_deserializer: AnyDeserializer | None = None

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if (value := getattr(self, name)) not in known:
                key = name.replace("_", ".")
                raise ValueError(f"{key} must be {', '.join(known)}, not {value!r}")
        if not self.group_id:
            raise ValueError("a share consumer needs a group.id")
        check_least(self, _LEAST)
        check_serialization("key.deserializer", self.key_deserializer, "deserialize")
        check_serialization("value.deserializer", self.value_deserializer, "deserialize")

    @property
    def limits(self) -> ShareFetchLimits:
        return ShareFetchLimits(
            self.fetch_max_wait_ms,
            self.fetch_min_bytes,
            self.fetch_max_bytes,
            self.max_poll_records,
            int(self.share_acquire_mode == "record_limit"),
        )


class ShareConsumer(Client):
    """A member of a share group. Its records are locked for it for some time, and delivered to
    another member if they are not acknowledged by then.

    A poll has one fetch under way at each leader of its partitions. Errors of acknowledgements are
    returned by ``commit``; those that a poll has sent are there, too. Use it from one task."""

    def __init__(self, world: World, config: ClientConfig, own: ShareConsumerConfig) -> None:
        super().__init__(world, config)
        self._config = own
        member_id = topic_id_text(UUID(bytes=world.entropy.random_bytes(16), version=4))
        self._member = ShareMember(self.session, own.group_id, member_id, own.client_rack)
        self._member_id = member_id
        self._sessions: dict[int, ShareFetchSession] = {}  # by broker
        self._fetching: dict[int, asyncio.Task[ShareFetched]] = {}
        self._backoffs = BrokerBackoffs(self.session.backoff)
        self._held: dict[tuple[TopicPartition, int], tuple[int, SharePlace]] = {}
        self._ahead: deque[ShareRecord] = deque()  # of the last poll, not iterated over yet
        self._outcomes: AcknowledgeErrors = {}
        self._convert = record_deserializer(own.key_deserializer, own.value_deserializer)
        self._tasks: asyncio.TaskGroup | None = None

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self.session.start(tasks)
        self._member.start(tasks)
        self.session.metadata.add_listener(self._member.news.set)  # partitions have other leaders

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the topics from which the group's records are read."""
        names = sorted(set(topics))
        self.session.metadata.add_topics(names)
        self._member.subscribe(names)

    # -- records

    async def poll(self, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """Return acquired records, or none after ``timeout_ms``.

        Raises KafkaError, and with explicit acknowledgement INVALID_RECORD_STATE while a record of
        an earlier poll is not acknowledged."""
        if self._ahead:
            rest = list(self._ahead)
            self._ahead.clear()
            return rest
        self._settle_held()
        deadline_ms = self.session.deadline_ms(timeout_ms)
        while True:
            self._member.check()
            self._fetch_everywhere()
            left_ms = deadline_ms - self.session.world.clock.monotonic_ms()
            tasks: list[asyncio.Task[Any]] = [*self._fetching.values()]
            news = asyncio.ensure_future(self._member.news.wait())
            try:
                # Without a leader to fetch from, a new one is in the metadata at some time.
                later_ms = self.session.backoff_ms(ErrorCode.LEADER_NOT_AVAILABLE, 0)
                wait_ms = left_ms if tasks else min(left_ms, later_ms)
                await asyncio.wait(
                    [*tasks, news],
                    timeout=max(0, wait_ms) / 1_000,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                news.cancel()
            self._member.news.clear()
            records = self._collect()
            if records or left_ms <= 0:
                return records

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Iterate over records for ever, by polls. With implicit acknowledgement those that the
        loop has reached are accepted."""
        while True:
            self._ahead.extend(await self.poll())
            while self._ahead:
                yield self._ahead.popleft()

    def acknowledge(
        self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record of the last poll; the next request to its leader says so. A renewed
        one is to be acknowledged again. Raises KafkaError INVALID_RECORD_STATE for a record that is
        not held."""
        where = TopicPartition(record.topic, record.partition), record.offset
        held = self._held.get(where)
        if held is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "the record is not held")
        node_id, place = held
        self._sessions[node_id].acknowledge(place, record.offset, kind)
        if kind is not AcknowledgeType.RENEW:
            del self._held[where]

    async def commit(self, timeout_ms: int | None = None) -> AcknowledgeErrors:
        """Send all acknowledgements. Return the error of each partition with acknowledgements since
        the last commit, or None. Raises KafkaError."""
        if self._config.share_acknowledgement_mode == "implicit":
            self._settle_held()
        deadline_ms = self.session.deadline_ms(timeout_ms)
        for node_id, session in list(self._sessions.items()):
            if session.has_acknowledgements:
                await self._send_acknowledgements(node_id, session, deadline_ms)
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes

    # -- the end

    async def close(self) -> None:
        """Send acknowledgements, release other records, and leave the group."""
        if self._config.share_acknowledgement_mode == "implicit":
            self._settle_held()
        await self._end(acknowledges=True)

    async def abort(self) -> None:
        """Release all records that are not acknowledged yet, and leave the group."""
        await self._end(acknowledges=False)

    async def _end(self, acknowledges: bool) -> None:
        if self._tasks is None:
            return
        self._tasks = None
        try:
            deadline_ms = self.session.deadline_ms(self.session.config.request_timeout_ms)
            for node_id, session in list(self._sessions.items()):
                if not acknowledges:
                    session.forget_acknowledgements()
                if session.is_open:
                    await self._send_acknowledgements(node_id, session, deadline_ms, closes=True)
            await self._member.close()
        finally:
            for task in self._fetching.values():
                task.cancel()
            await self.session.close()

    # -- requests

    def _settle_held(self) -> None:
        """Accept what the last poll has returned, or check that it is acknowledged."""
        if self._config.share_acknowledgement_mode == "explicit":
            if self._held:
                (topic_partition, offset), _ = next(iter(self._held.items()))
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"{topic_partition}: the record at offset {offset} is not acknowledged",
                )
            return
        ahead = {(TopicPartition(row.topic, row.partition), row.offset) for row in self._ahead}
        for where, (node_id, place) in list(self._held.items()):
            if where not in ahead:
                self._sessions[node_id].acknowledge(place, where[1], AcknowledgeType.ACCEPT)
                del self._held[where]

    def _fetch_everywhere(self) -> None:
        """Begin a fetch at each leader that has none under way. A broker that leads no partition
        any more is sent what it has to know, and then nothing: it would respond at once."""
        assert self._tasks is not None, "polls come after start"
        now_ms = self.session.world.clock.monotonic_ms()
        for node_id, places in self._places_by_leader().items():
            if node_id not in self._fetching and self._backoffs.may_send(node_id, now_ms):
                session = self._sessions.get(node_id)
                if session is None:
                    session = ShareFetchSession(self._config.group_id, self._member_id)
                    self._sessions[node_id] = session
                if not (places or session.places or session.has_acknowledgements):
                    continue
                self._fetching[node_id] = self._tasks.create_task(
                    self._fetch(node_id, session, places), name=f"share-fetch-{node_id}"
                )

    def _places_by_leader(self) -> dict[int, list[SharePlace]]:
        """Return the assigned partitions by their leaders. A leader that has lost all of them is
        still sent what is to be acknowledged."""
        view, names = self.session.metadata.view, self._topic_names()
        found: dict[int, list[SharePlace]] = {
            node_id: [] for node_id, session in self._sessions.items() if session.is_open
        }
        for topic_id, partition in self._member.assigned:
            topic_partition = TopicPartition(names.get(topic_id, ""), partition)
            leader = view.leaders.get(topic_partition)
            if leader is None:
                self.session.metadata.request_update()
            else:
                found.setdefault(leader, []).append(SharePlace(topic_id, topic_partition))
        return found

    async def _fetch(
        self, node_id: int, session: ShareFetchSession, places: list[SharePlace]
    ) -> ShareFetched:
        request = session.fetch_request(places, self._config.limits)
        timeout_ms = self.session.config.request_timeout_ms + self._config.fetch_max_wait_ms
        try:
            call: Call[Any] = Call(request, _whole)
            response = await self.session.call_within(node_id, call, timeout_ms)
            self._note_leader_errors(node_id, response)
            fetched = session.fetched(response, self._config.check_crcs)
        except KafkaError as error:
            for place in places:
                self.session.metadata.note_leader_error(place.topic_partition, node_id, error.code)
            lost = session.lost(error.code)
            if not error.retriable:
                raise
            fetched = ShareFetched([], lost, {place.topic_partition: error for place in places})
        if fetched.errors:
            world = self.session.world
            code = next(iter(fetched.errors.values())).code
            now_ms = world.clock.monotonic_ms()
            delay_ms = self._backoffs.failed(node_id, code, now_ms, world.entropy.random())
            world.clock.call_later(delay_ms, self._member.news.set)
        else:
            self._backoffs.succeeded(node_id)
        return fetched

    def _collect(self) -> list[ShareRecord]:
        """Return the records of the fetches that have ended."""
        records: list[ShareRecord] = []
        for node_id, task in list(self._fetching.items()):
            if task.done():
                del self._fetching[node_id]
                records += self._take(node_id, task.result())
        return records

    def _take(self, node_id: int, fetched: ShareFetched) -> list[ShareRecord]:
        """Hold the records of a response, and note its errors. Raises KafkaError for an error that
        does not pass."""
        self._note(fetched.acknowledged)
        names = {place.topic_partition: place for place in self._sessions[node_id].places}
        records = []
        for record in fetched.records:
            topic_partition = TopicPartition(record.topic, record.partition)
            self._held[topic_partition, record.offset] = node_id, names[topic_partition]
            if self._convert is not None:
                converted = self._convert(plain(record))
                record = ShareRecord(*converted, record.delivery_count)
            records.append(record)
        for error in fetched.errors.values():
            if not error.retriable:
                raise error
        return records

    async def _send_acknowledgements(
        self, node_id: int, session: ShareFetchSession, deadline_ms: int, closes: bool = False
    ) -> None:
        """Wait for the fetch that is under way, then send what is to be acknowledged. Records that
        the fetch has acquired are returned by the next poll."""
        task = self._fetching.get(node_id)
        if task is not None:
            await asyncio.wait([task])
        if not (session.has_acknowledgements or closes):
            return
        call: Call[Any] = Call(session.acknowledge_request(closes), _whole)
        try:
            response = await self.session.call(node_id, call, deadline_ms)
            self._note_leader_errors(node_id, response)
            self._note(session.acknowledged(response))
        except KafkaError as error:
            self._note(session.lost(error.code))
            self.session.metadata.note_error(error.code)

    def _note_leader_errors(self, node_id: int, response: Any) -> None:
        names = self._topic_names()
        rows = {
            TopicPartition(names[topic.topic_id], row.partition_index): row
            for topic in response.responses
            for row in topic.partitions
            if topic.topic_id in names
        }
        self.session.metadata.note_leader_errors(node_id, rows, response.node_endpoints)

    def _topic_names(self) -> dict[UUID, str]:
        return {topic.topic_id: topic.name for topic in self.session.metadata.view.topics.values()}

    def _note(self, outcomes: AcknowledgeErrors) -> None:
        for topic_partition, error in outcomes.items():
            if error is not None or self._outcomes.get(topic_partition) is None:
                self._outcomes[topic_partition] = error


def _whole(response: Any) -> Any:
    return response
