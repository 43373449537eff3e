"""One client's connection, and the connection to the broker that its frames are passed on to.

One task passes requests and another one responses, each in order. Both wait until the other side
has taken what they wrote, so that at most some megabytes, and a frame in each direction, are held.

A request that a fault strikes is passed on when all requests before it have their responses; later
ones wait for its reply. Other frames pass as the bytes that they are, except responses that name
addresses of brokers or versions of APIs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple, Protocol

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Network
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import DecodeError, EncodeError, decode
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.schema import Message
from minikafka.server.faults.injected import FaultSeam, SeamReply
from minikafka.testing.proxy.frame_stream import FrameStream
from minikafka.testing.proxy.messages import (
    NodeAddress,
    addresses,
    advertise,
    cap_versions,
    known_api,
    may_have_addresses,
    served_versions,
    unsupported_api_versions,
)

MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024  # socket.request.max.bytes
MAX_RESPONSE_BYTES: Final = 2**31 - 1
MAX_IN_FLIGHT: Final = 1_000  # requests without a response
CONNECT_TIMEOUT_S: Final = 10
NO_ACKS: Final = 0
_ERROR_CODE: Final = slice(4, 6)  # of an ApiVersions response, behind the correlation id


class Upstream(Protocol):
    """What a connection needs to know of the brokers behind the proxy."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def seam(self) -> FaultSeam: ...

    async def learn(self, found: list[NodeAddress]) -> None:
        """Open listeners for brokers that are new. Raises OSError."""
        ...

    def learn_topics(self, response: Any) -> None:
        """Note the names of topic ids in a Metadata response."""
        ...

    def advertised_port(self, node_id: int) -> int: ...


@dataclass(frozen=True, slots=True)
class _ProxiedRequest:
    """A request as it has arrived: ``FaultSeam``'s context."""

    api_key: ApiKey
    header: RequestHeader
    frame: memoryview
    message: Any
    client_host: str

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def has_response(self) -> bool:
        return self.api_key is not ApiKey.PRODUCE or self.message.acks != NO_ACKS


class _Expected(NamedTuple):
    """A response that has not arrived, and the future that takes it, if it is not just passed."""

    request: _ProxiedRequest
    taker: asyncio.Future[Any] | None = None


class _Refusal(Exception):
    """The connection is closed for this reason."""


class ProxiedConnection:
    """Passes frames between a client and a broker until one of them closes its connection."""

    def __init__(
        self,
        client: FrameStream,
        upstream: Upstream,
        network: Network,
        clock: Clock,
        log: EventLog,
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._network = network
        self._clock = clock
        self._log = log.bind(client=client.peer_host)
        self._broker = FrameStream(MAX_RESPONSE_BYTES)
        self._in_flight: deque[_Expected] = deque()  # bound: MAX_IN_FLIGHT
        self._progress = asyncio.Event()  # a response has been passed on

    async def run(self) -> None:
        """Serve the client. Both connections are closed at the end."""
        passing: list[asyncio.Task[None]] = []
        try:
            if not await self._connect():
                return
            for work in (self._pass_responses(), self._pass_requests()):
                passing.append(asyncio.create_task(work))
            done, _ = await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except (_Refusal, DecodeError, EncodeError) as error:
            self._log.warning("connection_refused", reason=str(error))
        except OSError as error:
            self._log.warning("listener_failed", error=str(error))
        finally:
            for task in passing:
                task.cancel()
            self._client.close()
            self._broker.close()
            for task in passing:
                with suppress(asyncio.CancelledError, _Refusal, DecodeError, EncodeError, OSError):
                    await task

    async def _connect(self) -> bool:
        host, port = self._upstream.host, self._upstream.port
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._network.connect(lambda: self._broker, host, port)
        except (OSError, TimeoutError) as error:
            reason = str(error) or "no response"
            self._log.warning("upstream_lost", upstream=f"{host}:{port}", error=reason)
            return False
        return True

    # -- requests

    async def _pass_requests(self) -> None:
        """Raises _Refusal, DecodeError and EncodeError, after the responses before it."""
        client = self._client
        while (frame := await client.read()) is not None:
            try:
                request = self._decoded(frame)
            except (_Refusal, DecodeError):
                await self._until_in_flight(0)
                raise
            if request is None:
                continue
            await self._until_in_flight(MAX_IN_FLIGHT - 1)
            reply = _ProxyReply(client, request)
            before = _session(request)
            struck = self._upstream.seam.begin(
                request.api_key, request, request.message, reply, self._serve_for(request)
            )
            if struck is None:
                self._pass_on(request, request.message if _session(request) != before else None)
                await self._broker.drain()
                continue
            with closing(struck):  # where it is not awaited
                await self._until_in_flight(0)
                await struck
            if reply.is_abandoned or not await self._goes_on(reply):
                return
        if client.broken is not None:
            raise _Refusal(client.broken)

    def _decoded(self, frame: memoryview) -> _ProxiedRequest | None:
        """Decode a request. None if it has its response already. Raises _Refusal for a version that
        does not pass, as a broker does, and DecodeError."""
        header, position = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        api_key = known_api(key)
        if api_key is None:
            raise _Refusal(f"API {key} is not known")
        first, last = served_versions(api_key)
        if not first <= version <= last:
            if api_key is not ApiKey.API_VERSIONS or self._in_flight:
                raise _Refusal(f"{api_key.api_name} v{version} is not known")
            own = unsupported_api_versions()
            self._client.write([encode_response(header.correlation_id, own, 0)])
            return None
        message = decode(REQUESTS[api_key], version, frame, position)
        return _ProxiedRequest(api_key, header, frame, message, self._client.peer_host)

    def _pass_on(
        self,
        request: _ProxiedRequest,
        changed: Message | None = None,
        taker: asyncio.Future[Any] | None = None,
    ) -> None:
        """Send a request to the broker: ``changed`` in its place, if that is given."""
        if request.has_response:
            self._in_flight.append(_Expected(request, taker))
        if changed is None:
            self._broker.write_frame(request.frame)
        else:
            self._broker.write([encode_request(request.header, changed)])

    def _serve_for(self, request: _ProxiedRequest) -> Callable[[Any, SeamReply], Awaitable[None]]:
        """Return the function that serves the request, or what is left of it, for its faults."""

        async def serve(rest: Any, collected: SeamReply) -> None:
            is_whole = rest is request.message and request.api_key is not ApiKey.FETCH
            taker = asyncio.get_running_loop().create_future()
            self._pass_on(request, None if is_whole else rest, taker)
            await self._broker.drain()
            collected(await taker if request.has_response else None)

        return serve

    async def _goes_on(self, reply: _ProxyReply) -> bool:
        """Do what a fault means for later requests. False when the client has gone meanwhile: what
        a muted connection has sent is dropped, as in Kafka."""
        if not reply.is_sent:
            while await self._client.read() is not None:
                pass  # swallowed, and all after it
            return False
        if reply.mute_ms:
            sleep = asyncio.ensure_future(self._clock.sleep(reply.mute_ms))
            lost = asyncio.ensure_future(self._client.until_lost())
            try:
                await asyncio.wait((sleep, lost), return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    return False
            finally:
                sleep.cancel()
                lost.cancel()
        await self._client.drain()
        return True

    async def _until_in_flight(self, at_most: int) -> None:
        """Return when at most so many requests have no response."""
        while len(self._in_flight) > at_most:
            self._progress.clear()
            await self._progress.wait()

    # -- responses

    async def _pass_responses(self) -> None:
        """Raises _Refusal, DecodeError, EncodeError and OSError."""
        while (frame := await self._broker.read()) is not None:
            if not self._in_flight:
                raise _Refusal("a response to no request")
            request, taker = self._in_flight[0]
            if int.from_bytes(frame[:4], "big", signed=True) != request.header.correlation_id:
                raise _Refusal("a response to another request")
            if taker is not None:
                message, _ = await self._changed(request, frame, always=True)
                if not taker.done():
                    taker.set_result(message)
            else:
                await self._pass_back(request, frame)
            self._in_flight.popleft()
            self._progress.set()
            await self._client.drain()
        if self._broker.broken is not None:
            raise _Refusal(self._broker.broken)
        if not self._client.is_closing:
            self._log.warning("upstream_lost", in_flight=len(self._in_flight))

    async def _pass_back(self, request: _ProxiedRequest, frame: memoryview) -> None:
        message, version = await self._changed(request, frame)
        if message is None:
            self._client.write_frame(frame)
        else:
            correlation_id = request.header.correlation_id
            self._client.write([encode_response(correlation_id, message, version)])

    async def _changed(
        self, request: _ProxiedRequest, frame: memoryview, always: bool = False
    ) -> tuple[Any, int]:
        """Return a response with the proxy's addresses and versions, and the version that it is
        encoded in; None if it stays as it is, unless ``always``."""
        api_key, version = request.api_key, request.version
        if api_key is ApiKey.API_VERSIONS:
            if int.from_bytes(frame[_ERROR_CODE], "big") == ErrorCode.UNSUPPORTED_VERSION:
                version = 0  # the broker knows no later one (KIP-511)
            listed = decode_response(ApiVersionsResponse, version, frame)[1]
            cap_versions(listed)
            return listed, version
        has_addresses = may_have_addresses(api_key, version)
        if not (always or has_addresses):
            return None, version
        response: Any = decode_response(RESPONSES[api_key], version, frame)[1]
        if not has_addresses:
            return response, version
        upstream = self._upstream
        if api_key is ApiKey.METADATA:
            upstream.learn_topics(response)
        found = addresses(api_key, response)
        if not found:
            return (response if always else None), version
        await upstream.learn(found)
        local = self._client.local_host
        advertise(api_key, response, lambda node_id: (local, upstream.advertised_port(node_id)))
        return response, version


class _ProxyReply:
    """The reply to a request that a fault may strike; notes what becomes of the connection."""

    def __init__(self, client: FrameStream, request: _ProxiedRequest) -> None:
        self._client = client
        self._request = request
        self.is_sent = False
        self.is_abandoned = False  # the connection ends
        self.mute_ms = 0

    def __call__(self, response: Any) -> None:
        self.is_sent = True
        if response is None:
            return  # acks=0
        if isinstance(response, KafkaError):
            error = response.code
            response = RESPONSES[self._request.api_key]()
            response.error_code = error
        version, own = self._request.version, self._request.header.correlation_id
        if getattr(response, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION and isinstance(
            response, ApiVersionsResponse
        ):
            version = 0
        self._client.write([encode_response(own, response, version)])

    def refuse(self, reason: str, **facts: object) -> None:
        self.is_abandoned = True

    def abandon(self, reason: str, **facts: object) -> None:
        self.is_abandoned = True

    def mute(self, delay_ms: int) -> None:
        self.mute_ms = delay_ms


def _session(request: _ProxiedRequest) -> tuple[int, int] | None:
    """Return the session of a Fetch, which ``FaultSeam`` may change."""
    if request.api_key is not ApiKey.FETCH:
        return None
    return request.message.session_id, request.message.session_epoch
