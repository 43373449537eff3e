"""The routes of records: browse and tail them, export them, write one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from minikafka.client.config import ClientConfig
from minikafka.client.consumer.consumer import Consumer, ConsumerConfig
from minikafka.client.producer.producer import Producer, ProducerConfig
from minikafka.client.producer.sender import RecordMetadata
from minikafka.client.rest import RestAddress, RestClient
from minikafka.client.schema_registry import CONTENT_TYPE
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Network
from minikafka.page.dashboard.acting.acts_api import body
from minikafka.page.dashboard.context import (
    HttpError,
    PageContext,
    ShownCluster,
    identity_of,
    peer_of,
)
from minikafka.page.dashboard.records.decoder import Decoder, Schemas
from minikafka.page.dashboard.records.decoding import DECODINGS
from minikafka.page.dashboard.records.new_record import NewRecord, parse_new_record
from minikafka.page.dashboard.records.places import in_order
from minikafka.page.dashboard.records.query import (
    ABORTED,
    MOST_BYTES,
    MOST_EXPORTED,
    ReadQuery,
    parse_query,
)
from minikafka.page.dashboard.records.reading import (
    MOST_AT_ONCE,
    WITHIN_MS,
    Aborted,
    ForwardReading,
    NewestReading,
    Source,
    check_partition,
    described_topic,
    find_logs,
    rendered,
)
from minikafka.page.dashboard.records.rows import (
    CSV_COLUMNS,
    csv_line,
    csv_row,
    json_line,
    record_facts,
)
from minikafka.page.dashboard.records.schemas import RegistrySchemas

MOST_BODY: Final = 20 * 1024 * 1024  # of a record to write, which may be in base64
MOST_READERS: Final = 16  # requests that read at a time; each has connections to brokers
_NO_STORE: Final = {"Cache-Control": "no-store"}
_CONSUMER: Final = ConsumerConfig(
    auto_offset_reset="earliest",  # of a partition whose oldest records were deleted meanwhile
    fetch_max_wait_ms=200,
    fetch_max_bytes=1024 * 1024,  # a response holds the loop while it is taken apart
)
# The ends of logs are read in windows: a fetch that waits for new records would delay the next one.
_NEWEST: Final = replace(_CONSUMER, fetch_max_wait_ms=5, max_partition_fetch_bytes=256 * 1024)
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
        Route("/api/decodings", records.decodings, methods=["GET"]),
        Route("/api/export", records.export, methods=["GET"]),
        Route("/api/produce", records.produce, methods=["POST"]),
    ]


class RecordsApi:
    def __init__(self, context: PageContext, cluster: ShownCluster) -> None:
        self._context = context
        self._cluster = cluster
        self._readers = 0
        self._schemas: Schemas | None = None
        address = context.registry
        if address is not None:
            get = partial(_from_registry, context.world.network, address)
            self._schemas = RegistrySchemas(get, context.world.clock.monotonic_ms)
        # A consumer's or a producer's request for metadata must not create a misspelled topic.
        self._config: ClientConfig = replace(
            cluster.client, allow_auto_create_topics=False, default_api_timeout_ms=WITHIN_MS
        )

    async def browse(self, request: Request) -> Response:
        """Return some records, and where to go on."""
        query = _query(request, {})
        async with self._reading(query) as source:
            row = partial(record_facts, decoder=source.decoder, most_bytes=query.most_bytes)
            facts: dict[str, Any] = {}
            rows: list[dict[str, Any]] = []
            if query.is_newest_first:
                newest = NewestReading(source, query)
                rows, facts = await newest.read(query.limit, row), newest.facts()
            if not rows and (query.wait_ms or not facts):
                reading = ForwardReading(source, query)
                found = await reading.read(query.limit, query.wait_ms)
                rows, facts = await rendered(source.clock, in_order(found), row), reading.facts()
        left_out = {"unread": source.unread, "held": source.held}
        return JSONResponse({"records": rows, **facts, **left_out}, headers=_NO_STORE)

    async def export(self, request: Request) -> Response:
        """Stream all records that match, up to the present end, as JSON lines or CSV."""
        query = _query(request, {"limit": str(MOST_EXPORTED)}, MOST_EXPORTED)
        kind = request.query_params.get("format", "json")
        if kind not in ("json", "csv"):
            raise HttpError(400, "format needs json or csv.")
        # What is wrong is an error before the download begins.
        unread = (await find_logs(self._cluster, query)).unread
        if unread:
            raise HttpError(
                503,
                f"The export would lack the records of partitions of {query.topic} without a "
                f"leader: {', '.join(map(str, unread))}. Export single partitions.",
            )
        self._check_readers()
        name = f"{query.topic}.{'ndjson' if kind == 'json' else 'csv'}"
        return StreamingResponse(
            self._lines(query, kind),
            media_type="application/x-ndjson" if kind == "json" else "text/csv; charset=utf-8",
            headers={**_NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'},
        )

    async def _lines(self, query: ReadQuery, kind: str) -> AsyncGenerator[str]:
        if kind == "csv":
            yield csv_line(CSV_COLUMNS)
        line = json_line if kind == "json" else csv_row
        async with self._reading(query) as source:
            row = partial(line, decoder=source.decoder, most_bytes=MOST_BYTES)
            left = query.limit
            reading: NewestReading | ForwardReading
            if query.is_newest_first:
                reading = NewestReading(source, query)
            else:
                reading = ForwardReading(source, query)
            while left > 0 and reading.more:
                before, most = reading.progress, min(left, MOST_AT_ONCE)
                if isinstance(reading, NewestReading):
                    lines = await reading.read(most, row)
                else:
                    lines = await rendered(source.clock, await reading.read(most), row)
                if reading.progress == before:  # the download ends as an incomplete one
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"records of {query.topic}")
                left -= len(lines)
                yield "".join(lines)

    async def decodings(self, request: Request) -> Response:
        """List how keys and values can be decoded."""
        rows = [{"name": name, "label": label} for name, label in DECODINGS.items()]
        return JSONResponse({"decodings": rows, "registry": self._context.options.registry})

    def _check_readers(self) -> None:
        """Raises HttpError if so many requests read that no other one may."""
        if self._readers >= MOST_READERS:
            raise HttpError(429, f"{MOST_READERS} requests are reading records already.")

    @asynccontextmanager
    async def _reading(self, query: ReadQuery) -> AsyncIterator[Source]:
        self._check_readers()
        self._readers += 1
        world = self._context.world
        try:
            logs, unread, held = await find_logs(self._cluster, query)
            config = _NEWEST if query.is_newest_first else _CONSUMER
            committed = replace(config, isolation_level="read_committed")
            decoder = Decoder(query.topic, query.key_as, query.value_as, self._schemas)
            async with AsyncExitStack() as stack:
                aborted: Aborted | None = None
                if query.transaction == ABORTED:
                    seeing = await stack.enter_async_context(
                        Consumer(world, self._config, committed)
                    )
                    aborted = Aborted(world.clock, seeing, query.topic, logs)
                used = config if query.uncommitted else committed
                consumer = await stack.enter_async_context(Consumer(world, self._config, used))
                yield Source(world.clock, consumer, logs, decoder, unread, held, aborted)
        finally:
            self._readers -= 1

    async def produce(self, request: Request) -> Response:
        """Write a record, some times over; return where the last one is."""
        if self._context.read_only:
            raise HttpError(403, "The page is read-only.")
        try:
            new = parse_new_record(await body(request, MOST_BODY))
        except ValueError as error:
            raise HttpError(400, f"{error}.") from None
        topic = await described_topic(self._cluster, new.topic)
        if new.partition is not None:
            check_partition(topic, new.partition)
        line = f"minikafka produce --bootstrap-server {self._context.bootstrap} --topic {new.topic}"
        about = (identity_of(request), peer_of(request), "produce", f"{line} # {new.times} x")
        self._context.audit.begun(*about)
        try:
            written = await self._write(new)
        except KafkaError as error:
            self._context.audit.ended(*about, 1, str(error))
            raise
        self._context.audit.ended(*about, 0)
        last = written[-1]
        return JSONResponse(
            {"partition": last.partition, "offset": last.offset, "count": len(written)}
        )

    async def _write(self, new: NewRecord) -> list[RecordMetadata]:
        """Raises KafkaError."""
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
            return await asyncio.gather(*sent)


async def _from_registry(network: Network, address: RestAddress, path: str) -> Any:
    """Return the JSON for a path, over a connection of its own: readers load at the same time.
    Raises RestError and ConnectionError."""
    client = RestClient(network, address, "the registry", CONTENT_TYPE)
    try:
        return await client.send("GET", path)
    finally:
        client.close()


def _query(request: Request, defaults: Mapping[str, str], *most: int) -> ReadQuery:
    try:
        return parse_query({**defaults, **request.query_params}, *most)
    except ValueError as error:
        raise HttpError(400, f"{error}.") from None
