"""The routes of records: browse and tail them, export them, write one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from minikafka.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from minikafka.client.config import ClientConfig
from minikafka.client.consumer.consumer import Consumer, ConsumerConfig
from minikafka.client.producer.producer import Producer, ProducerConfig
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.page.dashboard.acting.acts_api import body
from minikafka.page.dashboard.context import (
    HttpError,
    PageContext,
    ShownCluster,
    identity_of,
    peer_of,
)
from minikafka.page.dashboard.record_reads import (
    CSV_COLUMNS,
    MOST_BYTES,
    MOST_EXPORTED,
    LogBounds,
    ReadQuery,
    csv_line,
    csv_row,
    first_offsets,
    in_order,
    json_line,
    parse_new_record,
    parse_query,
    record_facts,
    share,
)

WITHIN_MS: Final = 5_000  # to find the topic and its offsets, to read, to write
MOST_LOOKED_AT: Final = 20_000  # records of one request, which `next` continues
MOST_READ_BYTES: Final = 32 * 1024 * 1024  # of their keys and values
MOST_AT_ONCE: Final = 500  # records between two turns of the loop
MOST_READERS: Final = 16  # requests that read at a time; each has connections to brokers
_NO_STORE: Final = {"Cache-Control": "no-store"}
_CONSUMER: Final = ConsumerConfig(
    auto_offset_reset="earliest",  # of a partition whose oldest records were deleted meanwhile
    fetch_max_wait_ms=200,
    fetch_max_bytes=8 * 1024 * 1024,
)
_PRODUCER: Final = ProducerConfig(
    enable_idempotence=False,  # one record needs no producer id
    max_block_ms=WITHIN_MS,
    delivery_timeout_ms=2 * WITHIN_MS,
    max_request_size=MOST_BYTES,
)


def routes(context: PageContext) -> list[BaseRoute]:
    cluster = context.cluster
    if cluster is None:  # a recording is shown
        return []
    records = RecordsApi(context, cluster)
    return [
        Route("/api/records", records.browse, methods=["GET"]),
        Route("/api/export", records.export, methods=["GET"]),
        Route("/api/produce", records.produce, methods=["POST"]),
    ]


class RecordsApi:
    def __init__(self, context: PageContext, cluster: ShownCluster) -> None:
        self._context = context
        self._cluster = cluster
        self._readers = 0
        # A consumer's or a producer's request for metadata must not create a misspelled topic.
        self._config: ClientConfig = replace(
            cluster.client, allow_auto_create_topics=False, default_api_timeout_ms=WITHIN_MS
        )

    async def browse(self, request: Request) -> Response:
        """Return some records, and where to go on."""
        query = _query(request, {})
        async with self._reading(query) as reading:
            found = await reading.read(query.limit, query.wait_ms)
        rows = [record_facts(record, query.most_bytes) for record in in_order(found)]
        return JSONResponse({"records": rows, **reading.facts()}, headers=_NO_STORE)

    async def export(self, request: Request) -> Response:
        """Stream the records up to the present end, as JSON lines or CSV."""
        query = _query(request, {"limit": str(MOST_EXPORTED)}, MOST_EXPORTED)
        kind = request.query_params.get("format", "json")
        if kind not in ("json", "csv"):
            raise HttpError(400, "format needs json or csv.")
        # What is wrong is an error before the download begins.
        await find_logs(self._cluster, query)
        self._check_readers()
        name = f"{query.topic}.{'ndjson' if kind == 'json' else 'csv'}"
        return StreamingResponse(
            self._lines(query, kind),
            media_type="application/x-ndjson" if kind == "json" else "text/csv; charset=utf-8",
            headers={**_NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'},
        )

    async def _lines(self, query: ReadQuery, kind: str) -> AsyncGenerator[str]:
        line = json_line if kind == "json" else csv_row
        if kind == "csv":
            yield csv_line(CSV_COLUMNS)
        left = query.limit
        async with self._reading(query) as reading:
            while left > 0 and reading.more:
                before = reading.next
                found = await reading.read(min(left, MOST_AT_ONCE))
                if reading.next == before:  # the download ends as an incomplete one
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"records of {query.topic}")
                left -= len(found)
                yield "".join(line(record_facts(record, MOST_BYTES)) for record in found)

    def _check_readers(self) -> None:
        """Raises HttpError if so many requests read that no other one may."""
        if self._readers >= MOST_READERS:
            raise HttpError(429, f"{MOST_READERS} requests are reading records already.")

    @asynccontextmanager
    async def _reading(self, query: ReadQuery) -> AsyncIterator[RecordReading]:
        self._check_readers()
        self._readers += 1
        try:
            logs = await find_logs(self._cluster, query)
            config = replace(
                _CONSUMER,
                isolation_level="read_uncommitted" if query.uncommitted else "read_committed",
            )
            world = self._context.world
            async with Consumer(world, self._config, config) as consumer:
                yield RecordReading(world, consumer, query, logs)
        finally:
            self._readers -= 1

    async def produce(self, request: Request) -> Response:
        """Write a record, some times over; return where the last one is."""
        if self._context.read_only:
            raise HttpError(403, "The page is read-only.")
        try:
            new = parse_new_record(await body(request))
        except ValueError as error:
            raise HttpError(400, f"{error}.") from None
        view = await _topic(self._cluster, new.topic)
        if new.partition is not None and new.partition not in view:
            raise HttpError(404, f"There is no partition {new.partition} of {new.topic}.")
        line = f"minikafka produce --bootstrap-server {self._context.bootstrap} --topic {new.topic}"
        about = (identity_of(request), peer_of(request), "produce", f"{line} # {new.times} x")
        self._context.audit.begun(*about)
        try:
            async with Producer(self._context.world, self._config, _PRODUCER) as producer:
                sent = [
                    await producer.send(
                        new.topic,
                        new.value,
                        new.key,
                        partition=new.partition,
                        headers=new.headers,
                    )
                    for _ in range(new.times)
                ]
                written = await asyncio.gather(*sent)
        except KafkaError as error:
            self._context.audit.ended(*about, 1, str(error))
            raise
        self._context.audit.ended(*about, 0)
        last = written[-1]
        return JSONResponse(
            {"partition": last.partition, "offset": last.offset, "count": len(written)}
        )


def _query(request: Request, defaults: Mapping[str, str], *most: int) -> ReadQuery:
    try:
        return parse_query({**defaults, **request.query_params}, *most)
    except ValueError as error:
        raise HttpError(400, f"{error}.") from None


async def _topic(cluster: ShownCluster, name: str) -> Sequence[int]:
    """Return the partitions of a topic that have a leader. Raises HttpError, KafkaError."""
    found = (await cluster.admin.describe_topics([name], timeout_ms=WITHIN_MS))[name]
    if isinstance(found, KafkaError):
        if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise HttpError(404, f"There is no topic {name}.")
        raise found
    return found.available


async def find_logs(cluster: ShownCluster, query: ReadQuery) -> dict[int, LogBounds]:
    """Return the offsets of the partitions to read. Raises HttpError, KafkaError."""
    numbers = await _topic(cluster, query.topic)
    if query.partition is not None:
        if query.partition not in numbers:
            raise HttpError(
                404, f"There is no partition {query.partition} of {query.topic} with a leader."
            )
        numbers = [query.partition]
    partitions = [TopicPartition(query.topic, number) for number in numbers]

    async def at(timestamp: int) -> dict[int, int]:
        found = await cluster.admin.list_offsets(
            dict.fromkeys(partitions, timestamp),
            read_committed=not query.uncommitted,
            timeout_ms=WITHIN_MS,
        )
        return {tp.partition: row.offset for tp, row in found.items()}

    begins, ends = await at(EARLIEST_TIMESTAMP), await at(LATEST_TIMESTAMP)
    by_time: Mapping[int, int] = {}
    if query.start == "time" and query.positions is None:
        by_time = await at(query.number)
    return {
        number: LogBounds(begins[number], ends[number], _found(by_time.get(number, -1)))
        for number in numbers
    }


def _found(offset: int) -> int | None:
    return None if offset < 0 else offset


class RecordReading:
    """Reads from the positions of a query on; bounded in records, bytes and time a call."""

    def __init__(
        self, world: World, consumer: Consumer, query: ReadQuery, logs: Mapping[int, LogBounds]
    ) -> None:
        self._clock = world.clock
        self._consumer = consumer
        self._query = query
        self._ends = {number: log.end for number, log in logs.items()}
        self._next = first_offsets(query, logs)
        self._taken: Counter[int] = Counter()
        self._assigned: set[int] = set()
        self.looked_at = 0

    @property
    def more(self) -> bool:
        """Whether there are records before the ends that were looked up."""
        return bool(self._open())

    @property
    def next(self) -> dict[int, int]:
        return dict(self._next)

    def facts(self) -> dict[str, Any]:
        return {
            "next": {str(number): offset for number, offset in sorted(self._next.items())},
            "more": self.more,
            "looked_at": self.looked_at,
        }

    def _open(self) -> list[int]:
        return [number for number, offset in self._next.items() if offset < self._ends[number]]

    async def read(self, limit: int, wait_ms: int = 0) -> list[ConsumerRecord]:
        """Return at most ``limit`` records that match.

        It ends at the ends that were looked up, or with ``wait_ms`` after the first records, or
        when that time is over.
        """
        now_ms = self._clock.monotonic_ms()
        deadline_ms = now_ms + (wait_ms or WITHIN_MS)
        found: list[ConsumerRecord] = []
        looked_at = read_bytes = 0
        while len(found) < limit and looked_at < MOST_LOOKED_AT and read_bytes < MOST_READ_BYTES:
            open_ones = self._open()
            if not open_ones and (not wait_ms or found):
                break
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                break
            wanted = share(limit, self._taken, open_ones) if open_ones else list(self._next)
            self._assign(wanted)
            room = min(limit - len(found), max(1, limit // len(wanted)), MOST_AT_ONCE)
            records = await self._consumer.poll(min(left_ms, 200 if open_ones else left_ms), room)
            for record in records:
                self._next[record.partition] = record.offset + 1
                self._taken[record.partition] += 1
                read_bytes += len(record.key or b"") + len(record.value or b"")
                if self._query.matches(record):
                    found.append(record)
            looked_at += len(records)
            if not records:
                await self._skip_markers(wanted)
            await asyncio.sleep(0)
        self.looked_at += looked_at
        return found

    def _assign(self, numbers: Sequence[int]) -> None:
        """Read from these partitions only."""
        topic, consumer = self._query.topic, self._consumer
        wanted = set(numbers)
        if wanted - self._assigned:
            self._assigned |= wanted
            before = {tp.partition for tp in consumer.assignment}
            consumer.assign([TopicPartition(topic, number) for number in sorted(self._assigned)])
            for number in self._assigned - before:
                consumer.seek(TopicPartition(topic, number), self._next[number])
        paused = {tp.partition for tp in consumer.paused}
        for number in self._assigned:
            tp = TopicPartition(topic, number)
            if number in wanted and number in paused:
                consumer.resume(tp)
            elif number not in wanted and number not in paused:
                consumer.pause(tp)

    async def _skip_markers(self, numbers: Sequence[int]) -> None:
        """Move on behind markers of transactions and aborted records, which give no record."""
        for number in numbers:
            position = await self._consumer.position(TopicPartition(self._query.topic, number))
            self._next[number] = max(self._next[number], position)
