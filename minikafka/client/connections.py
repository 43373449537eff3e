"""The connections of one client to the brokers, and the API versions of each broker."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from minikafka.client.config import ClientConfig, parse_bootstrap_servers
from minikafka.client.security import oauth_tokens, secured_network
from minikafka.core.backoff import ExponentialBackoff
from minikafka.core.client.calls import request_version
from minikafka.core.client.cluster_view import Node
from minikafka.core.client.errors import WrongPeer
from minikafka.kernel.errors import ErrorCode, KafkaError, LoginRefused
from minikafka.kernel.ports import World
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.schema import Message

if TYPE_CHECKING:
    from minikafka.client.peer_check import PeerCheck

# Every broker knows version 0, and uses its form to respond to versions that it does not know.
_API_VERSIONS_VERSION = 0
NEXT_BROKER_AFTER_MS = 1_000  # a frozen broker accepts connections and never responds
CHECK_PEERS_AFTER_MS = 500  # of a request, if no broker has ever responded


class _Link:
    """The address of one broker, with its connection if there is one."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.channel: Channel | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        self.failures = 0
        self.retry_at_ms = 0
        self.failed_ms: int | None = None  # the last request, unless there was a response since
        self.opening: asyncio.Task[Channel] | None = None
        self.last_error: OSError | None = None  # of the last attempt to connect, if it failed

    @property
    def is_open(self) -> bool:
        return self.channel is not None and self.channel.is_open

    def close(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
        if self.channel is not None:
            self.channel.close()
            self.channel = None


# A second connection to broker N has the id N + SECOND_CONNECTION.
SECOND_CONNECTION = 1 << 31


class Connections:
    """The connections of one client; it sends requests to brokers by broker id.

    Bootstrap servers have the ids -1, -2, ... A connection is opened when needed, and after a
    failure again after a backoff. A broker responds in the order of the requests, so a parked
    JoinGroup would delay all requests behind it: group coordinators therefore have a second
    connection.
    """

    def __init__(self, world: World, config: ClientConfig) -> None:
        self._world = world
        self._tokens = oauth_tokens(world, config)
        self._network = secured_network(world, config, self._tokens)
        self._config = config
        self._backoff = ExponentialBackoff(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms
        )
        self._channel_config = ChannelConfig(
            connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
            max_in_flight=config.max_in_flight_requests_per_connection,
        )
        self._bootstrap = {
            -1 - number: _Link(host, port)
            for number, (host, port) in enumerate(parse_bootstrap_servers(config.bootstrap_servers))
        }
        self._links: dict[int, _Link] = {}
        self._openings: set[asyncio.Task[Channel]] = set()  # at most one for each link
        self._has_responded = False  # whether any broker has ever responded to a request
        self._peer_check: PeerCheck | None = None
        self._closed = False
        self._closing: list[Channel] = []  # those that were there at ``close``

    def set_nodes(self, nodes: Mapping[int, Node]) -> None:
        """Set the current brokers. Connections to removed brokers and old addresses are closed."""
        for broker_id, link in list(self._links.items()):
            node = nodes.get(broker_id % SECOND_CONNECTION)
            if node is None or (node.host, node.port) != (link.host, link.port):
                self._links.pop(broker_id).close()
        for broker_id, node in nodes.items():
            if broker_id not in self._links:
                self._links[broker_id] = _Link(node.host, node.port)

    def any_node(self) -> int:
        """Return the id of a broker for a request that every broker can serve.

        Brokers whose last attempt did not fail are preferred, then connected ones; ties are
        broken at random.
        """
        node_id = self._best_node(())
        assert node_id is not None, "there is at least one bootstrap server"
        return node_id

    async def request(
        self,
        node_id: int,
        message: Message,
        *,
        highest_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send a request and return the response.

        The version is the highest that client and broker support, but not above
        ``highest_version``. ``timeout_ms`` (by default ``request_timeout_ms``) includes the time
        to connect.

        Raises KafkaError: NETWORK_EXCEPTION if there is no connection, or if it was lost, in
        which case the broker may have processed the request; REQUEST_TIMED_OUT;
        UNSUPPORTED_VERSION.
        """
        clock = self._world.clock
        deadline_ms = clock.monotonic_ms() + (timeout_ms or self._config.request_timeout_ms)
        try:
            channel, version = await self._channel_for(
                node_id, message, highest_version, deadline_ms
            )
            left_ms = max(1, deadline_ms - clock.monotonic_ms())
            response = await channel.request(message, version, left_ms)
        except OSError as error:
            if (link := self._link(node_id)) is not None:
                link.failed_ms = clock.monotonic_ms()
            raise _as_kafka_error(error) from error
        if (link := self._link(node_id)) is not None:
            link.failures, link.failed_ms = 0, None
        self._has_responded = True
        return response

    def unreachable(self) -> list[tuple[int, int]]:
        """Return the brokers whose last request had no response, with the time of its failure in
        ms."""
        return [
            (number % SECOND_CONNECTION, link.failed_ms)
            for number, link in self._links.items()
            if link.failed_ms is not None
        ]

    async def request_any(
        self,
        message: Message,
        *,
        highest_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Return the first response of any broker. Raises the KafkaError of the last broker if none
        can be reached, and WrongPeer if no bootstrap server speaks this client's protocol.

        The request is sent to the next broker at once if there is no connection to one, and after a
        while if one does not respond; so it must be one that may be processed twice.
        """
        if self._has_responded:
            return await self._first_response(message, highest_version, timeout_ms)
        outcome = asyncio.create_task(self._first_response(message, highest_version, timeout_ms))
        tasks: list[asyncio.Task[Any]] = [outcome]
        try:
            await asyncio.wait(tasks, timeout=CHECK_PEERS_AFTER_MS / 1000)
            if _is_unexplained(outcome):
                check = asyncio.create_task(self._check_peers())
                tasks.append(check)
                if not outcome.done():
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if _is_unexplained(outcome):
                    await check
            return await outcome
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_peers(self) -> None:
        """Raise WrongPeer if bootstrap servers accept connections, and this client can use none of
        them."""
        from minikafka.client.peer_check import PeerCheck

        if self._peer_check is None:
            self._peer_check = PeerCheck(self._config, self._world.network, self._network)
        found = await self._peer_check.examine(
            (link.host, link.port) for link in self._bootstrap.values()
        )
        wrong = [error for error in found if error is not None]
        if wrong and len(wrong) == len(found):
            text = "; ".join(str(error.message) for error in wrong)
            raise WrongPeer(text, any(error.by_keys for error in wrong))

    async def _first_response(
        self, message: Message, highest_version: int | None, timeout_ms: int | None
    ) -> Any:
        requests: dict[int, asyncio.Task[Any]] = {}
        pending: set[asyncio.Task[Any]] = set()
        last: asyncio.Task[Any] | None = None  # that has failed
        try:
            while True:
                node_id = self._best_node(requests)
                if node_id is not None:
                    request = self.request(
                        node_id, message, highest_version=highest_version, timeout_ms=timeout_ms
                    )
                    requests[node_id] = asyncio.create_task(request)
                    pending.add(requests[node_id])
                elif not pending and last is not None:
                    return last.result()
                done, pending = await asyncio.wait(
                    pending,
                    timeout=None if node_id is None else NEXT_BROKER_AFTER_MS / 1000,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for last in done:
                    if not _is_disconnection(last):
                        return last.result()
                slow = None if done or node_id is None else self._link(node_id)
                if slow is not None:
                    slow.failures = 1  # it comes last, until it responds
        finally:
            for task in requests.values():
                task.cancel()
            await asyncio.gather(*requests.values(), return_exceptions=True)

    async def connect(self, node_id: int) -> None:
        """Open the connection to a broker unless it is open. Then ``versions`` is known.

        Raises KafkaError.
        """
        link = self._link(node_id)
        if link is None:
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"the address of broker {node_id} is unknown"
            )
        try:
            await self._connect(link, self._deadline_ms())
        except OSError as error:
            raise _as_kafka_error(error) from error

    async def send(
        self, node_id: int, message: Message, highest_version: int | None = None
    ) -> None:
        """Send a request that has no response, in the version of ``request``. Raises KafkaError as
        that does."""
        try:
            deadline_ms = self._deadline_ms()
            channel, version = await self._channel_for(
                node_id, message, highest_version, deadline_ms
            )
            await channel.send(message, version, self._config.request_timeout_ms)
        except OSError as error:
            raise _as_kafka_error(error) from error

    def versions(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """Return the version ranges of a broker by API key; empty before the first connection."""
        link = self._link(node_id)
        return {} if link is None else link.versions

    def close(self) -> None:
        """Close all connections. Requests in flight fail with NETWORK_EXCEPTION."""
        self._closed = True
        for link in (*self._links.values(), *self._bootstrap.values()):
            if link.channel is not None:
                self._closing.append(link.channel)
            link.close()
        if self._tokens is not None:
            self._tokens.close()

    async def wait_closed(self) -> None:
        """After ``close``, wait for the end of attempts to connect, and until the brokers have read
        the requests without a response, for at most a second."""
        for channel in self._closing:
            await channel.wait_closed()
        if self._tokens is not None:
            await self._tokens.wait_closed()
        if self._openings:
            await asyncio.wait(self._openings)

    def _best_node(self, but_not: Container[int]) -> int | None:
        links = {number: each for number, each in self._links.items() if number < SECOND_CONNECTION}
        if not any(link.failures == 0 for number, link in links.items() if number not in but_not):
            links.update(self._bootstrap)
        ranks = {n: self._rank(link) for n, link in links.items() if n not in but_not}
        if not ranks:
            return None
        best = min(ranks.values())
        equals = sorted(number for number, rank in ranks.items() if rank == best)
        return equals[self._world.entropy.randrange(len(equals))]

    def _link(self, node_id: int) -> _Link | None:
        if node_id >= SECOND_CONNECTION and node_id not in self._links:
            first = self._links.get(node_id - SECOND_CONNECTION)
            if first is not None:
                self._links[node_id] = _Link(first.host, first.port)
        return self._links.get(node_id) or self._bootstrap.get(node_id)

    def _rank(self, link: _Link) -> tuple[bool, bool, int]:
        return (link.failures > 0, not link.is_open, link.retry_at_ms)

    async def _channel_for(
        self, node_id: int, message: Message, highest_version: int | None, deadline_ms: int
    ) -> tuple[Channel, int]:
        link = self._link(node_id)
        if link is None:
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"the address of broker {node_id} is unknown"
            )
        channel = link.channel
        if channel is None or not channel.is_open:
            channel = await self._connect(link, deadline_ms)
        peer = f"{link.host}:{link.port}"
        return channel, request_version(message, link.versions, peer, highest_version)

    def _deadline_ms(self) -> int:
        return self._world.clock.monotonic_ms() + self._config.request_timeout_ms

    async def _connect(self, link: _Link, deadline_ms: int) -> Channel:
        """Return the open channel, waiting for it until the deadline. Raises OSError.

        All callers share one attempt and its outcome.
        """
        if link.is_open and link.channel is not None:
            return link.channel
        if self._closed:
            raise ConnectionError("the client is closed")
        opening = link.opening
        if opening is None:
            opening = link.opening = asyncio.create_task(self._reopen(link))
            self._openings.add(opening)
            opening.add_done_callback(partial(self._note_opened, link))
        left_ms = max(1, deadline_ms - self._world.clock.monotonic_ms())
        await asyncio.wait([opening], timeout=left_ms / 1000)
        if not opening.done():
            link.failures = max(1, link.failures)  # other brokers are preferred until it is open
            if link.last_error is not None:  # says more than a time-out
                raise link.last_error
            raise TimeoutError(f"{link.host}:{link.port}: no response within {left_ms} ms")
        if opening.cancelled():
            raise ConnectionError(f"{link.host}:{link.port}: closed by this client")
        return opening.result()

    def _note_opened(self, link: _Link, opening: asyncio.Task[Channel]) -> None:
        link.opening = None
        self._openings.discard(opening)
        if not opening.cancelled():
            opening.exception()  # retrieved; callers that still wait get it

    async def _reopen(self, link: _Link) -> Channel:
        """Wait for the backoff, connect and get the API versions. Raises OSError."""
        clock = self._world.clock
        wait_ms = link.retry_at_ms - clock.monotonic_ms()
        if wait_ms > 0:
            await clock.sleep(wait_ms)
        try:
            channel = await self._open(link)
        except OSError as error:
            link.last_error = error
            delay_ms = self._backoff.delay_ms(link.failures, self._world.entropy.random())
            link.failures += 1
            link.retry_at_ms = clock.monotonic_ms() + delay_ms
            raise
        link.failures = link.retry_at_ms = 0
        link.last_error = None
        link.channel = channel
        return channel

    async def _open(self, link: _Link) -> Channel:
        world, config = self._world, self._config
        if self._tokens is not None:
            await self._tokens.refresh()
        channel = await Channel.open(
            self._network,
            world.clock,
            link.host,
            link.port,
            config.client_id,
            self._channel_config,
        )
        try:
            response = await channel.request(
                ApiVersionsRequest(), _API_VERSIONS_VERSION, config.request_timeout_ms
            )
            code = ErrorCode(response.error_code)
            if code is not ErrorCode.NONE:
                raise ConnectionError(f"{channel.peer} sent no API versions: {code.name}")
        except BaseException:
            channel.close()
            raise
        link.versions = {
            row.api_key: (row.min_version, row.max_version) for row in response.api_keys
        }
        return channel


def _is_disconnection(outcome: asyncio.Task[Any]) -> bool:
    """Whether there was no connection, or it was lost: another broker may respond."""
    error = outcome.exception()
    return isinstance(error, KafkaError) and error.code is ErrorCode.NETWORK_EXCEPTION


def _is_unexplained(outcome: asyncio.Task[Any]) -> bool:
    """Whether a request is pending, or has an error that a wrong peer may have caused: one that is
    no broker, or a listener of another security protocol."""
    if not outcome.done():
        return True
    error = outcome.exception()
    return isinstance(error, KafkaError) and error.code in (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.ILLEGAL_SASL_STATE,
    )


def _as_kafka_error(error: OSError) -> KafkaError:
    if isinstance(error, LoginRefused):
        return error.error
    if isinstance(error, TimeoutError):
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
