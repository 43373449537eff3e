"""The way of every request, from its frame to its reply.

``Apis.on_frame`` does these in order:

1. find the API (``ServedApi``) by the first two bytes; its file is imported at the first request;
2. defer the frame until earlier requests have their replies, unless its API may overlap;
3. read the header, and the message if a prepared form matches;
4. check the version;
5. begin to measure for the client's quotas;
6. otherwise decode the message: on the loop, or by a worker if the request is large;
7. let a fault strike (``Seam``), or call the handler, which is behind its guard;
8. reply (``PendingReply``): throttle, encode, and send at once or in the order of requests;
9. note how long it took, and whether it kept the loop for too long.

Every request goes this way: there is no second one beside it. docs/explanation/order-of-requests.md
says why requests of one connection that are in flight together have the effect of requests that are
sent one at a time.
"""

from __future__ import annotations

import asyncio
import traceback
import types
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from minikafka.core.stall_meter import NotedRequest, StallMeter, StallMeterConfig
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log, serving_client
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Workers
from minikafka.protocol.api_keys import LAST_DEPRECATED, ApiKey, Release
from minikafka.protocol.codec import DecodeError, FieldOverflow, decode, element_count, error_codes
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    encode_large_response,
    encode_response,
    encode_response_parts,
)
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.prepared import PreparedRequests, has_records
from minikafka.protocol.schema import Message
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.api_versions import ApiVersionsHandler, FeatureState
from minikafka.server.broker.apis.guards import OPEN
from minikafka.server.broker.apis.request import (
    Handler,
    RequestContext,
    RequestReply,
    Seam,
    UnreadableRequest,
    error_response,
)
from minikafka.server.broker.apis.request_times import AllRequestTimes, RequestTimes, RequestWatch
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.quotas import ClientQuotas, Quota, RequestThrottle
from minikafka.server.listeners.reply_queue import ReplyBytes, ReplySlot
from minikafka.server.listeners.server_connection import ServerConnection

# What decoding raises; OSError without a descriptor for the import of a message. It has changed
# nothing yet, so that a request that takes too much or is nested too deep ends its connection only.
UNDECODABLE = (DecodeError, MemoryError, OSError, RecursionError)
# A larger request is decoded by a worker, and a response of more array elements is encoded by one:
# either takes more than some milliseconds. Produce requests are always decoded at once: their
# records are not copied.
ON_LOOP_BYTES = 128 * 1024
ON_LOOP_ELEMENTS = 4_000
NOT_YET = -1
LEAST_HEADER_BYTES = 8  # of ControlledShutdown version 0, which has no client id


class ServedApi:
    """An API as this broker serves it: its row, its handler behind its guard, and its metrics.

    It repeats attributes of the row, which the hot path reads."""

    __slots__ = (
        "api",
        "api_key",
        "changes_state",
        "first_version",
        "handler",
        "in_parts",
        "last_deprecated",
        "last_version",
        "of_clients",
        "overlapping",
        "parks_reads",
        "prepared",
        "quota",
        "request_class",
        "task",
        "times",
        "times_of",
    )

    def __init__(
        self,
        api: Api,
        handler: Handler,
        first_version: int,
        last_version: int,
        times: AllRequestTimes,
    ) -> None:
        self.api = api
        self.api_key = api.key
        self.handler: Any = handler  # of either kind; ``task`` says which
        self.task = api.task
        self.in_parts = api.in_parts
        self.changes_state = api.changes_state
        self.parks_reads = api.parks_reads
        self.quota = api.quota
        self.of_clients = api.senders is not Senders.BROKERS
        # Requests with the same value may be served at the same time; None: one at a time.
        self.overlapping = api if api.overlapping else None
        self.first_version = first_version
        self.last_version = last_version
        self.last_deprecated = LAST_DEPRECATED.get(api.key, -1)
        request_class: type = REQUESTS[api.key]
        self.request_class: Any = request_class
        self.prepared = None if has_records(request_class) else PreparedRequests()
        self.times = times.of_api(api.key)
        # Chooses other times by the request, if the API has several.
        self.times_of: Callable[[Any], RequestTimes] | None = (
            times.of_fetch if api.key is ApiKey.FETCH else None
        )

    def arrived(self, times: RequestTimes, version: int, connection: ServerConnection) -> None:
        """Count a request."""
        times.arrived(version)
        if version <= self.last_deprecated:
            times.deprecated(version, connection.software)


class PendingReply:
    """The ``reply`` argument of handlers: encodes and sends the response of one request.

    A response that comes while the handler runs needs no slot if no earlier request is unanswered.
    ``park`` opens the slot of a later one, in the order of the connection's replies."""

    __slots__ = (
        "_apis",
        "_connection",
        "_handled_ns",
        "_header",
        "_local_us",
        "_queue_us",
        "_row",
        "_size",
        "_slot",
        "_throttle",
        "_times",
        "_watched",
        "is_sent",
    )

    def __init__(
        self,
        apis: Apis,
        connection: ServerConnection,
        row: ServedApi,
        header: RequestHeader,
        size: int,
        times: RequestTimes,
        throttle: RequestThrottle | None = None,
    ) -> None:
        self._times = times
        self._connection = connection
        self._slot: ReplySlot | None = None
        self._size = size  # of the request in bytes
        watch = apis.watch
        self._watched = (
            None if watch is None else watch.request(times, header, connection.client_host, size)
        )
        self._handled_ns = NOT_YET  # when the handler has returned without a response
        self._apis = apis
        self._row = row
        self._header = header
        self._throttle = throttle
        self.is_sent = False

    def __call__(self, response: Message | KafkaError | None) -> None:
        """Send the response; None sends nothing, a KafkaError becomes an error response.

        The connection is closed, as in Kafka, if a stored value is too large for this version,
        since a request of another version had set it. Raises EncodeError for any other response
        that the version cannot carry, which is a bug of the handler."""
        throttle = self._throttle
        if throttle is None or isinstance(response, KafkaError):
            self._send(response)
            return
        mute_ms = throttle.finish(response)
        if mute_ms:  # the client has exceeded its quota
            self.mute(mute_ms)
            self._times.throttled(mute_ms)
        self._send(response)
        throttle.sent()

    def park(self) -> ReplySlot:
        """Return the place of the response among those of the connection."""
        slot = self._slot
        if slot is None:
            slot = self._slot = self._connection.open_slot(self._size)
            slot.times = self._watched or self._times
        return slot

    def _send(self, response: Any) -> None:
        try:
            if response is None:
                self._deliver(None)
            elif isinstance(response, KafkaError):
                self._fail(response)
            elif element_count(response) > ON_LOOP_ELEMENTS and self._apis.is_open:
                self.park()
                self._apis.encode_later(self, response)
            else:
                self._count(error_codes(response))
                encode = encode_response_parts if self._row.in_parts else encode_response
                header = self._header
                self._deliver(encode(header.correlation_id, response, header.api_version))
        except FieldOverflow as error:
            self.refuse("response_too_large", error=str(error))

    def _deliver(self, frame: ReplyBytes) -> None:
        assert not self.is_sent, "a request is answered once"
        self.is_sent = True
        connection = self._connection
        if self._slot is None and not connection.unanswered:
            connection.send_now(frame, self._watched or self._times)
        else:
            self.park().send(frame)
        if self._handled_ns != NOT_YET:
            self._responded()

    def _count(self, errors: list[int]) -> None:
        for code in errors:
            self._times.failed(ErrorCode(code).name)

    def handled(self, queue_us: int, local_us: int, now_ns: int) -> None:
        """Called when the handler has returned, after ``local_us``; the request had waited
        ``queue_us`` before. A response that comes later has a remote time from now on."""
        if not self.is_sent:
            self.park()
            self._queue_us, self._local_us, self._handled_ns = queue_us, local_us, now_ns
            return
        self._times.served(queue_us, local_us, self._size)
        if self._watched is not None:
            self._watched.served(queue_us, local_us, 0)

    def _responded(self) -> None:
        remote_us = (self._apis.now_ns() - self._handled_ns) // 1000
        self._times.responded(self._queue_us, self._local_us, remote_us, self._size)
        self._handled_ns = NOT_YET
        if self._watched is not None:
            self._watched.served(self._queue_us, self._local_us, remote_us)

    async def encode_and_send(self, response: Message, workers: Workers) -> None:
        """Let a worker encode the response, then send it as ``__call__`` does."""
        header = self._header

        def encode() -> tuple[ReplyBytes, list[int]]:
            frame = encode_large_response(header.correlation_id, response, header.api_version)
            return frame, error_codes(response)

        try:
            frame, errors = await workers.run(encode)
        except FieldOverflow as error:
            self.refuse("response_too_large", error=str(error))
        else:
            self._count(errors)
            self._deliver(frame)

    def refuse(self, reason: str, **facts: object) -> None:
        """Close the connection instead (``ReplySlot.refuse``)."""
        assert not self.is_sent, "a request is answered once"
        self.is_sent = True
        self.park().refuse(reason, **facts)
        if self._handled_ns != NOT_YET:
            self._responded()

    def abandon(self, reason: str, **facts: object) -> None:
        """Close the connection, whether the request has been answered or not."""
        if self.is_sent:
            self._connection.refuse(reason, **facts)
        else:
            self.refuse(reason, **facts)

    def mute(self, delay_ms: int) -> None:
        """Serve and read nothing more of the connection for that long."""
        self._connection.mute(delay_ms)

    def _fail(self, error: KafkaError) -> None:
        """Send the error code, or close the connection if the response has no field for it."""
        api_key = self._row.api_key
        response = error_response(api_key, self._header.api_version, error)
        if response is None:
            self._times.failed(error.code.name)
            self.refuse("request_failed", api=api_key.api_name, error=str(error))
            return
        self(response)


class Apis:
    """Kafka's ``KafkaApis``: serves requests; a failure becomes an error, or ends the connection.

    The requests of one connection take effect one after the other. In Kafka a connection is muted
    until the response is sent. Here a request is served when all requests before it have their
    replies, or when they are of the same ``overlapping`` API (Produce).

    The connection is closed, with a logged reason, after a header or body that cannot be decoded,
    an unknown key, a version that is not served, or a response that does not fit its version. An
    unknown version of ApiVersions gets a response in version 0 instead (KIP-511). A ``KafkaError``
    from a handler becomes the error code of the response, or closes the connection if the response
    has none at its top level. Any other exception is a bug: ``Api.changes_state`` says whether
    it stops the node, or closes the connection with the event ``request_handler_failed`` and counts
    in Kafka's ``ErrorsPerSec``.

    Large requests and responses are decoded and encoded by ``workers``, so that the event loop does
    not stand still. The connection serves nothing else meanwhile.

    ``stalls`` is notified of each request that keeps the loop for longer than its threshold, from
    the decoding to the end of the handler; for a task handler, each step between two awaits is
    measured separately. The events of task handlers name the client and are bounded for each client
    (``serving_client``).
    """

    def __init__(
        self,
        broker_id: int,
        table: Mapping[ApiKey, Api],
        services: Services,
        log: EventLog | None = None,
        release: Release = Release.NEWEST,
        stalls: StallMeter | None = None,
        metrics: Metrics | None = None,
        features: Callable[[], FeatureState] = FeatureState,
        unlisted: Callable[[], Collection[int]] = tuple,
        quotas: ClientQuotas | None = None,
        seam: Seam | None = None,
    ) -> None:
        """Serve the APIs of ``table`` that ``release`` has, up to the newest versions of the
        release. ``features`` returns the supported and the finalized features, ``unlisted`` the
        keys of the APIs that are served, but not listed now."""
        self._table = table
        self._services = services
        self._seam = seam
        self._stalls = stalls or StallMeter(StallMeterConfig(), 0)
        self._stall_ns = self._stalls.threshold_ms * 1_000_000
        self.now_ns = services.world.clock.monotonic_ns
        self._workers = services.world.workers
        self.watch: RequestWatch | None = None  # while a page looks
        self.busy_ns = 0  # for how long handlers have kept the loop, until they first await
        self._log = log or event_log("apis", broker=broker_id)
        self._context = copy_context()  # so that the events of handlers reach the same sinks
        self._broker_id = broker_id
        self._quotas = quotas
        self.times = AllRequestTimes(metrics or Metrics())
        self._failures = 0  # of handlers, contained; numbers their error ids
        self._release = release
        self._shown = release  # to clients
        self._api_versions = ApiVersionsHandler([], features, unlisted)
        self._api_keys = {int(api_key): api_key for api_key in (*table, ApiKey.API_VERSIONS)}
        self._rows: dict[int, ServedApi] = {}  # of the APIs that had requests
        self._list_versions()
        self._tasks: asyncio.TaskGroup | None = None
        self._serving: set[asyncio.Task[None]] = set()  # bound: queued.max.requests a connection
        self._bug: asyncio.Future[None] | None = None
        self._bug_watch: asyncio.Task[None] | None = None
        self.is_open = False  # between ``start`` and ``close``

    def _list_versions(self) -> None:
        """List what clients are shown, and begin to count the requests of each API."""
        listed = []
        for _, api_key in sorted(self._api_keys.items()):
            newest = self._shown.newest(api_key)
            if newest is not None:
                oldest = self._shown.oldest_listed(api_key)
                listed.append(ApiVersion(api_key, oldest, min(api_key.max_version, newest)))
                self.times.of_api(api_key)
        self._api_versions.served = self._served = listed

    def serve_clients_as(self, release: Release) -> None:
        """List the APIs of a release, and serve no others, from now on. What brokers call of each
        other is served as before, since they do not negotiate. Connected clients that use a newer
        version are disconnected at their next request."""
        self._shown = release
        self._rows = {}
        self._list_versions()

    def _load(self, key: int) -> ServedApi | None:
        """Return the row of an API at its first request; None if the release has no such API.

        Raises what an import can raise: without memory or descriptors, or while another version
        is installed. The next request tries again."""
        api_key = self._api_keys.get(key)
        if api_key is None:
            return None
        api = self._api_versions_row() if api_key is ApiKey.API_VERSIONS else self._table[api_key]
        release = self._shown if api.senders is Senders.CLIENTS else self._release
        newest = release.newest(api_key)
        if newest is None:
            return None
        handler, broker = api.handler(self._services), self._services
        if api.to_controller and self._forwards:
            assert api.task, "a forwarded request waits for the controller"
            handler = broker.forwarding.before(handler)
            # The guard decides here as the controller does: a refused request is not forwarded.
            broker = replace(broker, is_controller=lambda: True)
        if broker.authorization is not None:
            handler = api.authorization(broker, handler, api.task)
        last = min(api_key.max_version, newest)
        row = ServedApi(api, handler, release.oldest(api_key), last, self.times)
        self._rows[key] = row
        return row

    @property
    def _forwards(self) -> bool:
        """Whether requests for the controller are forwarded to it. Older releases refuse them."""
        return not self._shown.is_before_4 and self._release is Release.NEWEST

    def _api_versions_row(self) -> Api:
        """Return the row of ApiVersions, whose response is the list of the others."""
        return Api(
            key=ApiKey.API_VERSIONS,
            handler=lambda _: self._api_versions,
            task=False,
            authorization=OPEN,
            quota=Quota.REQUESTS,
            changes_state=False,
        )

    def api_versions(self, version: int) -> ApiVersionsResponse:
        """Return the response to ApiVersions, which is the same before and after a login."""
        return self._api_versions.response(version)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Serve requests from now on. ``tasks`` is the node's group: task handlers run in it, and a
        bug in any handler fails it."""
        self._tasks = tasks
        self.is_open = True
        self._bug = asyncio.get_running_loop().create_future()
        self._bug_watch = tasks.create_task(self._raise_bug(self._bug), name="apis-bug-watch")

    def close(self) -> None:
        """Cancel the requests that are being served in tasks."""
        self.is_open = False
        for task in self._serving:
            task.cancel()
        if self._bug is not None and not self._bug.done():
            self._bug.set_result(None)

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool:
        """Serve one request. True if it must wait for the replies before it: then call this again
        later. ``frame`` is not kept (see ``ServerConnection``)."""
        started_ns, size = self.now_ns(), len(frame)
        key = frame[0] << 8 | frame[1] if size >= LEAST_HEADER_BYTES else -1
        row = self._rows.get(key)
        if row is None and key >= 0:
            try:
                row = self._context.run(self._load, key)
            except Exception as error:  # nothing has been changed: no reason to end the node
                return _refuse(connection, "api_not_loaded", api_key=key, error=_reason(error))
        if connection.unanswered and (row is None or row.api is not connection.overlapping):
            return True
        prepared = None if row is None or row.prepared is None else row.prepared.decode(frame)
        if prepared is None:
            request: Message | None = None
            try:
                header, position = decode_request_header(frame)
            except UNDECODABLE as error:
                return _refuse(connection, "bad_header", error=_reason(error))
        else:
            header, position, request = prepared
        if row is None:
            return _refuse(
                connection,
                "unknown_api",
                api_key=header.api_key,
                api_version=header.api_version,
            )
        if not row.first_version <= header.api_version <= row.last_version:
            return self._refuse_version(connection, row, header, size)
        context = RequestContext(
            header, connection.listener, connection.client_host, connection, connection.principal
        )
        if self._throttles:
            context.throttle = self._throttle_of(row, context, connection, size - position)
        if size > ON_LOOP_BYTES and row.api_key is not ApiKey.PRODUCE:
            self._start_large(connection, row, context, frame, position)
            return False
        if request is None:
            try:
                request = decode(row.request_class, header.api_version, frame, position)
            except UNDECODABLE as error:
                self.note_if_long(started_ns, row, header, connection.client_host, size)
                facts = _facts(row, header.api_version, error)
                return _refuse(connection, "bad_request", **facts)
            if row.prepared is not None:
                row.prepared.learn(frame, header, position, request)
        self._begin(connection, row, context, request, size, started_ns)
        return False

    def _begin(
        self,
        connection: ServerConnection,
        row: ServedApi,
        context: RequestContext,
        request: Message,
        size: int,
        started_ns: int,
    ) -> None:
        """Serve a decoded request: at once, or by a task that begins now."""
        connection.overlapping = row.overlapping
        header, throttle = context.header, context.throttle
        times = row.times if row.times_of is None else row.times_of(request)
        row.arrived(times, header.api_version, connection)
        reply = PendingReply(self, connection, row, header, size, times, throttle)
        work = None if self._seam is None else self._by_seam(row, context, request, reply)
        if work is None and row.task:
            self._start(self._serve(row, context, request, reply), row, context, size)
        else:
            if work is None:
                rest = self._serve_at_once(row, context, request, reply)
                work = None if rest is None else self._serve_rest(row, context, rest, reply)
            if work is not None:
                connection.overlapping = None
                self._start(work, row, context, size)
        if throttle is not None:
            # The next request waits for the response, which may throttle it.
            connection.overlapping = None
            throttle.pause()
        now_ns = self.now_ns()
        self.busy_ns += now_ns - started_ns
        queue_us = (started_ns - connection.received_ns) // 1000
        reply.handled(queue_us, (now_ns - started_ns) // 1000, now_ns)
        if now_ns - started_ns >= self._stall_ns:
            self.note_if_long(started_ns, row, header, connection.client_host, size)

    def _start_large(
        self,
        connection: ServerConnection,
        row: ServedApi,
        context: RequestContext,
        frame: memoryview,
        position: int,
    ) -> None:
        """Let a worker decode a large request, and a task serve it then."""
        connection.overlapping = None
        header, size = context.header, len(frame)
        row.arrived(row.times, header.api_version, connection)
        reply = PendingReply(self, connection, row, header, size, row.times, context.throttle)
        reply.handled(0, 0, self.now_ns())  # what a worker does counts as remote
        work = self._decode_and_serve(connection, row, context, bytes(frame), position, reply)
        self._start(work, row, context, size)

    def _serve_at_once(
        self, row: ServedApi, context: RequestContext, request: Message, reply: RequestReply
    ) -> Coroutine[Any, Any, None] | None:
        """Call an ``ImmediateHandler``. Return what is left to run as a task."""
        if row.parks_reads:
            header, host = context.header, context.client_host  # the context would be a cycle
            context.contain = partial(self.contain, row=row, header=header, host=host, reply=reply)
        try:
            rest: Coroutine[Any, Any, None] | None = row.handler(context, request, reply)
            return rest
        except KafkaError as error:
            reply(error)
        except UnreadableRequest as error:
            reply.refuse("bad_request", **_facts(row, context.version, error))
        except Exception as bug:
            if row.changes_state:
                self.stop_node(bug)
                raise
            self.contain(bug, row, context.header, context.client_host, reply)
        return None

    async def _serve_rest(
        self,
        row: ServedApi,
        context: RequestContext,
        rest: Coroutine[Any, Any, None],
        reply: RequestReply,
    ) -> None:
        """Run what an ``ImmediateHandler`` has left. It runs to its end even if the connection
        closes; then the response is dropped."""
        try:
            await rest
        except Exception as bug:
            if row.changes_state:
                raise
            self.contain(bug, row, context.header, context.client_host, reply)

    def encode_later(self, reply: PendingReply, response: Message) -> None:
        """Let a worker encode the response, and send it then. Call only while ``is_open``."""
        self._spawn(reply.encode_and_send(response, self._workers), "encode-response")

    @property
    def _throttles(self) -> bool:
        """Whether some client has a quota."""
        return self._quotas is not None and self._quotas.enabled

    def _throttle_of(
        self, row: ServedApi, context: RequestContext, connection: ServerConnection, size: int
    ) -> RequestThrottle | None:
        assert self._quotas is not None
        return self._quotas.throttle_of(
            row.quota, connection.principal.name, context.client_id, size
        )

    def note_if_long(
        self, started_ns: int, row: ServedApi, header: RequestHeader, host: str, size: int
    ) -> None:
        ran_ns = self.now_ns() - started_ns
        if ran_ns >= self._stall_ns:
            ran_ms = ran_ns // 1_000_000
            api = row.api_key.api_name
            self._stalls.note(NotedRequest(api, header.client_id or "", host, size, ran_ms))

    # -- tasks

    def _start(
        self, work: Coroutine[Any, Any, None], row: ServedApi, context: RequestContext, size: int
    ) -> None:
        def note(started_ns: int) -> None:
            self.note_if_long(started_ns, row, context.header, context.client_host, size)

        if context.throttle is not None:
            context.throttle.pause()
        name = f"{row.api_key.api_name}-{context.header.correlation_id}"
        self._spawn(_awaiting(_in_steps(work, self.now_ns, note, context.throttle)), name)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self._tasks is not None, "requests are served after start"
        task = self._tasks.create_task(work, name=name)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _decode_and_serve(
        self,
        connection: ServerConnection,
        row: ServedApi,
        context: RequestContext,
        frame: bytes,
        position: int,
        reply: PendingReply,
    ) -> None:
        """Let a worker decode a large request, then serve it unless the client has gone."""
        version = context.version
        try:
            request = await self._workers.run(decode, row.request_class, version, frame, position)
        except UNDECODABLE as error:
            reply.refuse("bad_request", **_facts(row, version, error))
            return
        if connection.closed:
            return
        otherwise = None if self._seam is None else self._by_seam(row, context, request, reply)
        if otherwise is not None:
            await otherwise
        else:
            await self._serve_to_reply(row, context, request, reply)

    def _by_seam(
        self, row: ServedApi, context: RequestContext, request: Message, reply: RequestReply
    ) -> Coroutine[Any, Any, None] | None:
        assert self._seam is not None

        async def serve(rest: Any, collected: RequestReply) -> None:
            await self._serve_to_reply(row, context, rest, collected)

        return self._seam.begin(row.api_key, context, request, reply, serve)

    async def _serve_to_reply(
        self, row: ServedApi, context: RequestContext, request: Message, reply: RequestReply
    ) -> None:
        """Serve a request in a task. An ``ImmediateHandler`` may park it, and reply later."""
        if row.task:
            await self._serve(row, context, request, reply)
            return
        rest = self._serve_at_once(row, context, request, reply)
        if rest is not None:
            await self._serve_rest(row, context, rest, reply)

    async def _serve(
        self,
        row: ServedApi,
        context: RequestContext,
        request: Message,
        reply: RequestReply,
    ) -> None:
        """Run a task handler and send its response. The handler runs to its end even if the
        connection closes; then the response is dropped."""
        with serving_client(context.client_host) if row.of_clients else nullcontext():
            try:
                try:
                    reply(await row.handler(context, request))
                except KafkaError as error:
                    reply(error)
            except Exception as bug:
                if row.changes_state:
                    raise
                self.contain(bug, row, context.header, context.client_host, reply)

    # -- what goes wrong

    def _refuse_version(
        self, connection: ServerConnection, row: ServedApi, header: RequestHeader, size: int
    ) -> bool:
        if row.api_key is not ApiKey.API_VERSIONS:
            return _refuse(
                connection,
                "unsupported_version",
                api=row.api_key.api_name,
                api_version=header.api_version,
            )
        # As in Kafka, the response has only the row of ApiVersions, from which the client chooses
        # its next version. Before Kafka 2.4 (KIP-511) the list was empty.
        named = [each for each in self._served if each.api_key == ApiKey.API_VERSIONS]
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[] if self._release is Release.KAFKA_2_0 else named,
        )
        times = self.times.of_api(row.api_key)
        oldest = RequestHeader(header.api_key, 0, header.correlation_id, header.client_id)
        PendingReply(self, connection, row, oldest, size, times)(response)
        return False

    def contain(
        self, bug: Exception, row: ServedApi, header: RequestHeader, host: str, reply: RequestReply
    ) -> None:
        """Close the connection of a request whose handler has failed and changes no state."""
        self._failures += 1
        error_id = f"{self._broker_id}-{self._failures}"
        api_name = row.api_key.api_name
        self.times.of_api(row.api_key).failed(ErrorCode.UNKNOWN_SERVER_ERROR.name)
        self._log.error(
            "request_handler_failed",
            error_id=error_id,
            api=api_name,
            api_version=header.api_version,
            client=host,
            client_id=header.client_id or "",
            error=_reason(bug),
            traceback="".join(traceback.format_exception(bug)),
        )
        reply.abandon("request_handler_failed", api=api_name, error_id=error_id)

    def stop_node(self, bug: Exception) -> None:
        """Fail the node: a handler has raised ``bug``, and may have left half a change."""
        if self._bug is not None and not self._bug.done():
            self._bug.set_exception(bug)

    async def _raise_bug(self, bug: asyncio.Future[None]) -> None:
        await bug


async def _awaiting(work: Awaitable[None]) -> None:
    """Return a coroutine for what ``types.coroutine`` made: tasks refuse it since Python 3.12."""
    await work


@types.coroutine
def _in_steps(
    work: Coroutine[Any, Any, None],
    now_ns: Callable[[], int],
    stepped: Callable[[int], None],
    throttle: RequestThrottle | None,
) -> Generator[Any, Any, None]:
    """Run a coroutine, and call ``stepped`` with the start of each step after it: a step is what
    runs between two awaits that give the loop back. ``throttle`` measures the steps."""
    resume: Callable[[], Any] = partial(work.send, None)
    while True:
        started_ns = now_ns()
        if throttle is not None:
            throttle.resume()
        try:
            awaited = resume()
        except StopIteration:
            return
        finally:
            if throttle is not None:
                throttle.pause()
            stepped(started_ns)
        try:
            sent = yield awaited
        except BaseException as error:
            resume = partial(work.throw, error)
        else:
            resume = partial(work.send, sent)


def _reason(error: Exception) -> str:
    named = isinstance(error, DecodeError | UnreadableRequest)
    return str(error) if named else repr(error)


def _refuse(connection: ServerConnection, reason: str, **facts: object) -> bool:
    """Close the connection. True if earlier requests have no replies yet, which come first: then
    call this again later."""
    if connection.unanswered:
        return True
    connection.refuse(reason, **facts)
    return False


def _facts(row: ServedApi, version: int, error: Exception) -> dict[str, object]:
    return {"api": row.api_key.api_name, "api_version": version, "error": _reason(error)}
