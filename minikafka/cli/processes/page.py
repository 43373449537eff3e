"""The page as a child of `minikafka up`, which does to the brokers what the page asks for."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

from minikafka.cli.processes.children import complain
from minikafka.kernel.own_command import own_command
from minikafka.page.dashboard.acting.supervision import (
    MAX_LINE,
    Greeting,
    SupervisorError,
    greeting_line,
    line,
    parse_line,
)
from minikafka.world.real.loop_thread import LoopThread

if TYPE_CHECKING:
    from minikafka.testing.inside.cluster import InsideCluster

ADDRESS_WITHIN_S: Final = 20.0
STOP_WITHIN_S: Final = 5.0
# What a user of the testing API would call; the page shows it where no process has a pid.
INSIDE_COMMANDS: Final[Mapping[str, str]] = {
    "start": "cluster.start_broker({broker})",
    "stop": "cluster.stop_broker({broker})",
    "kill": "cluster.kill_broker({broker})",
    "pause": "cluster.pause_broker({broker})",
    "resume": "cluster.resume_broker({broker})",
    "isolate": "cluster.isolate_broker({broker})",
    "rejoin": "cluster.heal_broker({broker})",
}


class BrokerProcesses(Protocol):
    """What the page may act on."""

    @property
    def greeting(self) -> Greeting: ...

    async def act(self, verb: str, broker: int) -> None:
        """Raises SupervisorError, or whatever makes it fail."""
        ...


class PageProcess:
    """`minikafka ui` as a child with a supervisor link.

    ``log`` gets what it complains of; None: standard error of this process. ``on_end`` is called if
    the page ends by itself after it has served. ``registry`` is the address of a schema registry,
    and ``registry_users`` the file of those who may use it; ``history`` is the file of its history.
    """

    def __init__(
        self,
        bootstrap: str,
        port: int | None = None,
        command_config: str | None = None,
        log: Path | None = None,
        history: Path | None = None,
        on_end: Callable[[], None] = lambda: None,
        registry: str | None = None,
        registry_users: Path | None = None,
    ) -> None:
        self._arguments = ["--bootstrap-server", bootstrap]
        if registry is not None:
            self._arguments += ["--registry", registry]
        if registry_users is not None:
            self._arguments += ["--registry-users", str(registry_users)]
        if command_config is not None:
            self._arguments += ["--command-config", command_config]
        if port is not None:
            self._arguments += ["--port", str(port)]
        if history is not None:
            self._arguments += ["--history", str(history)]
        self._log = log
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._serving: asyncio.Task[None] | None = None
        self._address: asyncio.Future[str] | None = None

    async def start(self, brokers: BrokerProcesses) -> None:
        """Start the page, which may act on ``brokers`` until ``stop``. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = self._spawn(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self.serve(*await asyncio.open_connection(sock=ours, limit=MAX_LINE), brokers)

    def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, brokers: BrokerProcesses
    ) -> None:
        """Do what the page at the other end asks for, until ``stop``."""
        self._writer = writer
        self._address = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(reader, writer, brokers))

    def _spawn(self, fd: int) -> subprocess.Popen[bytes]:
        errors: IO[bytes] | None = None if self._log is None else self._log.open("ab")
        command = own_command("ui", *self._arguments)
        try:
            return subprocess.Popen(
                [*command, "--supervisor-fd", str(fd)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it prints the token
                stderr=errors,
                pass_fds=(fd,),
                start_new_session=True,  # Ctrl-C reaches only the supervisor
            )
        finally:
            if errors is not None:
                errors.close()

    async def address(self) -> str | None:
        """Return where the page is, which has the token; None if it does not serve."""
        assert self._address is not None
        try:
            async with asyncio.timeout(ADDRESS_WITHIN_S):
                return await asyncio.shield(self._address)
        except (TimeoutError, SupervisorError):
            return None

    async def stop(self) -> None:
        """Stop the page by ending its link, and kill it if it does not end soon."""
        if self._serving is not None:
            self._serving.cancel()
        if self._writer is not None:
            self._writer.close()
        if self._process is None:
            return
        try:
            await asyncio.to_thread(self._process.wait, STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, brokers: BrokerProcesses
    ) -> None:
        """Carry out one request after the other until the page ends."""
        assert self._address is not None
        greeting = brokers.greeting
        writer.write(greeting_line(greeting))
        try:
            while text := await reader.readline():
                message = parse_line(text)
                if "page" in message:
                    if not self._address.done():
                        self._address.set_result(str(message["page"]))
                    continue
                reply = await _reply(message, brokers)
                if brokers.greeting != greeting:
                    greeting = brokers.greeting
                    writer.write(greeting_line(greeting))
                writer.write(line(reply))
                await writer.drain()
        except (OSError, ValueError) as error:  # it has gone, or does not speak this protocol
            self._fail(str(error))
        else:
            self._fail("the page has ended")

    def _fail(self, why: str) -> None:
        assert self._address is not None
        if self._address.done():
            self._on_end()
            return
        self._address.set_exception(SupervisorError(why))
        self._address.exception()  # it may be that no caller waits for it


async def _reply(message: Mapping[str, object], brokers: BrokerProcesses) -> dict[str, object]:
    number, verb, broker = (message.get(name) for name in ("id", "do", "broker"))
    greeting = brokers.greeting
    if verb not in greeting.supervised or broker not in greeting.brokers:
        return {"id": number, "error": f"cannot {verb} broker {broker}"}
    assert isinstance(verb, str)
    assert isinstance(broker, int)
    try:
        await brokers.act(verb, broker)
    except Exception as error:  # whatever it is, the page waits for a reply, and acts again
        return {"id": number, "error": str(error) or type(error).__name__}
    return {"id": number, "ok": True}


class InsideBrokers:
    """The brokers of a cluster inside this process."""

    def __init__(self, cluster: InsideCluster) -> None:
        self._cluster = cluster
        self._paused: set[int] = set()
        self._isolated: set[int] = set()

    @property
    def greeting(self) -> Greeting:
        return Greeting(
            tuple(INSIDE_COMMANDS),
            self._cluster.broker_ids,
            INSIDE_COMMANDS,
            tuple(sorted(self._paused)),
            tuple(sorted(self._isolated)),
        )

    async def act(self, verb: str, broker: int) -> None:
        """Raises SupervisorError, and what the cluster raises, which runs in another thread."""
        cluster = self._cluster
        acts = {
            "start": cluster.start_broker,
            "stop": cluster.stop_broker,
            "kill": cluster.kill_broker,
            "pause": cluster.pause_broker,
            "resume": cluster.resume_broker,
            "isolate": cluster.isolate_broker,
            "rejoin": cluster.heal_broker,
        }
        is_running = cluster.is_running(broker)
        if verb == "start" and is_running:
            raise SupervisorError(f"broker {broker} is running")
        if verb != "start" and not is_running:
            raise SupervisorError(f"broker {broker} does not run")
        await asyncio.to_thread(acts[verb], broker)
        self._note(verb, broker)

    def _note(self, verb: str, broker: int) -> None:
        """Keep which brokers can be resumed or join again; one that has ended can do neither."""
        match verb:
            case "pause":
                self._paused.add(broker)
            case "isolate":
                self._isolated.add(broker)
            case "resume":
                self._paused.discard(broker)
            case "rejoin":
                self._isolated.discard(broker)
            case _:
                self._paused.discard(broker)
                self._isolated.discard(broker)


@contextmanager
def page_beside(
    cluster: InsideCluster, port: int | None, registry: str | None = None
) -> Iterator[str]:
    """Run the page beside a cluster in this process; yield what the ready line says of it.
    ``registry`` is the address of a schema registry."""
    thread = LoopThread("page")
    ended = partial(complain, "the page has ended")
    page = PageProcess(cluster.bootstrap, port, on_end=ended, registry=registry)
    thread.start()
    try:
        address: str | None = None
        try:
            thread.call(page.start(InsideBrokers(cluster)))
        except OSError as error:
            complain(f"the page cannot be started: {error}")
        else:
            address = thread.call(page.address())
            if address is None:
                complain("the page did not start")
        yield "" if address is None else f"page={address}"
    finally:
        thread.call(page.stop())
        thread.stop()
