"""The clients of the verbs: their configuration from the command line, the world they run in, and a
report on standard error as soon as brokers cannot be reached."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from minikafka.cli.standard_streams import changes_completed
from minikafka.cli.usage import WrongUsage
from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig, parse_bootstrap_servers
from minikafka.client.session import Client
from minikafka.kernel import events
from minikafka.kernel.client_security import TOKEN_PROVIDER, why_unsupported
from minikafka.kernel.config import ConfigError, parse_properties
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Network, ProtocolFactory, World
from minikafka.kernel.spelling import did_you_mean
from minikafka.kernel.tls import TlsSettings
from minikafka.network.login_networks import WrappedNetwork
from minikafka.protocol.records.compression import Compression

# Keys of a client's file that are no settings of a connection.
BOOTSTRAP_SERVERS = "bootstrap.servers"
# Those of Confluent's serializers.
REGISTRY_URL = "schema.registry.url"
REGISTRY_LOGIN = "basic.auth.user.info"  # NAME:PASSWORD
REGISTRY_LOGIN_FROM = "basic.auth.credentials.source"
# Keys whose values are not those of our fields.
_ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}
_RENAMED = {"compression.type": "compression"}


def with_properties(given: Mapping[str, str], *configs: Any) -> list[Any]:
    """Return the configurations with each key set in the one that has it: ``linger.ms=5`` sets
    ``linger_ms``. Raises WrongUsage for an unknown key or an invalid value."""
    wanted: list[dict[str, Any]] = [{} for _ in configs]
    for key, text in given.items():
        name = _RENAMED.get(key, key.replace(".", "_"))
        for config, values in zip(configs, wanted, strict=True):
            if name in {field.name for field in fields(config)} - {TOKEN_PROVIDER}:
                values[name] = _value(key, text, getattr(config, name))
                break
        else:
            why = why_unsupported(key)
            if why:
                raise WrongUsage(f"{key}: {why}")
            known = [each.name.replace("_", ".") for config in configs for each in fields(config)]
            near = did_you_mean(key, [*known, *_RENAMED])
            raise WrongUsage(f"unknown client setting {key}{near}")
    try:
        return [replace(config, **values) for config, values in zip(configs, wanted, strict=True)]
    except ValueError as error:  # no such value, or none that goes with the others
        raise WrongUsage(str(error)) from None


def command_config(args: argparse.Namespace) -> dict[str, str]:
    """Return the keys of the --command-config file. As in Kafka's tools, --bootstrap-server wins
    over bootstrap.servers in the file. Raises WrongUsage if the file cannot be read."""
    file = getattr(args, "command_config", None)
    given = {} if file is None else client_file(file, "--command-config")
    for key in (BOOTSTRAP_SERVERS, REGISTRY_URL, REGISTRY_LOGIN, REGISTRY_LOGIN_FROM):
        given.pop(key, None)
    return given


def client_file(file: str, option: str) -> dict[str, str]:
    """Return the keys of a client's .properties file. Raises WrongUsage if it cannot be read."""
    try:
        return dict(parse_properties(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise WrongUsage(f"{option} {file}: {error.strerror}") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{option} {file}: {error}") from None


def _value(key: str, text: str, default: Any) -> Any:
    try:
        if key == "acks":
            return _ACKS[text]
        if key == "compression.type":
            return Compression[text.upper()]
        if key == "enable.idempotence" or isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(default, int) or key == "compression.level":
            return int(text)
        if isinstance(default, tuple):
            return tuple(part.strip().rpartition(".")[2] for part in text.split(","))
    except (KeyError, ValueError):
        raise WrongUsage(f"{key}={text}: no such value") from None
    return text


# The OSError has no text if the peer closes the connection during the TLS handshake.
NO_REASON = "the peer has closed the connection"
PATIENCE_S = 5  # an attempt that fails after this long had no response at all
PROGRESS_S = 5  # between two lines about the time that is left, on a terminal


class _Unanswered(asyncio.BufferedProtocol):
    """Takes the place of the protocol of a connection until the peer sends something. ``silent`` is
    called every ``PROGRESS_S`` until then, or until the connection is lost."""

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        silent: Callable[[], None],
        answered: Callable[[], None],
    ) -> None:
        self._protocol = protocol
        self._silent = silent
        self._answered = answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._protocol.connection_made(transport)
        self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PROGRESS_S, self._waited)

    def _waited(self) -> None:
        self._silent()
        self._wait()

    def get_buffer(self, sizehint: int) -> Any:
        return self._protocol.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._timer.cancel()
        self._answered()
        self._transport.set_protocol(self._protocol)
        self._protocol.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._protocol.connection_lost(exc)


class FirstContact(WrappedNetwork):
    """A Network that wraps another one and reports on standard error the first connection that
    failed, or over which the peer sends nothing, on a terminal also the time that is left. After
    the first bytes from a peer it reports nothing: the client then knows other brokers.

    ``limit_ms`` is how long the client tries, None if for ever."""

    def __init__(self, network: Network, limit_ms: int | None) -> None:
        super().__init__(network)
        self._limit_s = None if limit_ms is None else limit_ms / 1000
        self._begun_s: float | None = None  # of the first attempt
        self._told_s: float | None = None  # the last line
        self._is_answered = False

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        if self._begun_s is None:
            self._begun_s = begun_s
        try:
            return await self._network.connect(
                factory if self._is_answered else lambda: self._watched(factory(), host, port),
                *(host, port, tls),
            )
        except OSError as error:
            self._tell(f"{host}:{port}: {error.strerror or str(error) or NO_REASON}")
            raise
        except asyncio.CancelledError:
            if loop.time() - begun_s >= PATIENCE_S:
                self._tell(f"{host}:{port}: no answer")
            raise

    def _watched(
        self, protocol: asyncio.BufferedProtocol, host: str, port: int
    ) -> asyncio.BufferedProtocol:
        silent = partial(self._tell, f"{host}:{port}: connected, but no answer")
        return _Unanswered(protocol, silent, self._answered)

    def _answered(self) -> None:
        self._is_answered = True

    def _tell(self, what: str) -> None:
        if self._is_answered or self._begun_s is None:
            return
        now_s = asyncio.get_running_loop().time()
        if self._told_s is None:
            how = "trying on" if self._limit_s is None else f"trying on for {self._limit_s:g} s"
        elif self._limit_s is None or now_s - self._told_s < PROGRESS_S or not sys.stderr.isatty():
            return
        else:
            how = f"{max(0, self._begun_s + self._limit_s - now_s):.0f} s left"
        self._told_s = now_s
        print(f"minikafka: {what}; {how}", file=sys.stderr, flush=True)


T = TypeVar("T")
TIMEOUT_MS = 30_000  # for which a verb tries to reach a broker


def client_config(args: argparse.Namespace, **more: Any) -> ClientConfig:
    """Return the configuration of a verb's clients: --bootstrap-server, and the keys of
    --command-config. Raises WrongUsage."""
    (config,) = with_properties(command_config(args), bare_client_config(args, **more))
    return config  # type: ignore[no-any-return]


def bare_client_config(args: argparse.Namespace, **more: Any) -> ClientConfig:
    """Return the configuration of --bootstrap-server alone. Raises WrongUsage."""
    try:
        parse_bootstrap_servers(args.bootstrap_server)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    return ClientConfig(
        bootstrap_servers=args.bootstrap_server, default_api_timeout_ms=TIMEOUT_MS, **more
    )


def run_client(work: Callable[[World], Coroutine[Any, Any, T]], limit_ms: int | None = None) -> T:
    """Run ``work`` in the real world and log errors only.

    A client retries to connect, so the first failure is printed to standard error at once, with the
    time ``limit_ms`` for which the client tries (None: without a limit). ``work`` runs to its end
    even if its output cannot be written (``changes_completed``)."""
    from minikafka.world.real.loop import run
    from minikafka.world.real.world import real_world

    async def main() -> T:
        world = real_world()
        return await work(replace(world, network=FirstContact(world.network, limit_ms)))

    with events.printed("ERROR"), changes_completed():
        return run(main())


def run_admin(config: ClientConfig, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run ``work`` with an admin client, as ``run_client`` does."""

    async def administer(world: World) -> T:
        async with Admin(world, config) as admin:
            return await work(admin)

    return run_client(administer, config.default_api_timeout_ms)


def check_answered(client: Client) -> None:
    """Raise ConnectionError if the client never received metadata.

    An empty result would then be wrong: no broker has responded.
    """
    if not client.session.metadata.view.nodes:
        servers = client.session.config.bootstrap_servers
        raise ConnectionError(f"no broker answered at {servers}")


NO_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


def tell_of_missing_topic(client: Client, topic: str) -> None:
    """Print once, on a terminal, if brokers do not have the topic as yet, as Kafka's console tools
    warn: since brokers may create it, a wrong name looks like a topic without records."""
    metadata = client.session.metadata
    told = not sys.stderr.isatty()

    def look() -> None:
        nonlocal told
        found = metadata.view.topics.get(topic)
        if not told and found is not None and found.error in NO_TOPIC:
            told = True
            line = f"minikafka: there is no topic {topic} yet; the brokers may create it now"
            print(line, file=sys.stderr, flush=True)

    metadata.add_listener(look)
