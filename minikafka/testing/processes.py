"""A cluster of real processes for tests: ZooKeeper and brokers on free ports of this machine.

``minikafka up`` runs them; kill -9 and SIGSTOP are real.
"""

from __future__ import annotations

import random
import re
import runpy
import socket
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from minikafka.aio import world_of_clients
from minikafka.client import ClientConfig
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.own_command import own_command
from minikafka.testing.broker_folders import BrokerFolders, end_of
from minikafka.testing.clients import ClientThread, ClusterClients, attempts, in_thread
from minikafka.testing.cluster import AnyCluster, Where

ATTEMPTS = 5  # another process may take a port after ``free_ports`` has found it free
# Below 32768, from where on Linux takes the near ports of connections: one of those could have the
# port of a broker that a test has killed, and keep it.
PORT_RANGE = 10_000, 32_000
PORT_TAKEN = "port already in use"
READY = re.compile(r"ready bootstrap=(\S+) zookeeper=(\S+)(?: page=(\S+))?")
MIN_DEBUG_OFFSET = 100  # as in `minikafka up`: see ``debug_offset``
STOP_TIMEOUT_S = 60
DEFAULTS = (
    "group.initial.rebalance.delay.ms=0",
    "zookeeper.session.timeout.ms=3000",
)


class ClusterNotStarted(RuntimeError):
    """The cluster or topic could not be created. The message has the output of the processes."""


class ClusterProcesses(BrokerFolders):
    """``minikafka up`` as a child process. ``start`` sets ``bootstrap`` and ``zookeeper``.

    Broker ids start at 1. All data and logs are below ``directory``. With ``secure`` clients need
    TLS and a login: ``client_settings`` returns what they need. With ``page`` there is the page
    that shows what happens inside, at the address ``page``.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 1,
        settings: Sequence[str] = (),
        secure: bool = False,
        page: bool = False,
    ) -> None:
        super().__init__(directory)
        self.directory = directory
        self.brokers = brokers
        self.secure = secure
        self.bootstrap = ""
        self.zookeeper = ""
        self.page: str | None = None
        self._has_page = page
        factor = min(3, brokers)
        self._settings = [
            *DEFAULTS,
            f"offsets.topic.replication.factor={factor}",
            f"transaction.state.log.replication.factor={factor}",
            f"transaction.state.log.min.isr={max(1, factor - 1)}",
            *settings,
        ]
        self._up: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the cluster and return when all brokers serve. Raises ClusterNotStarted."""
        for attempt in range(ATTEMPTS):
            home = self.directory / f"cluster-{attempt}"
            if self._try_to_start(home):
                return
            complaint = self._end_of_stderr()
            if not home.exists() and PORT_TAKEN not in complaint:
                raise ClusterNotStarted(complaint)  # no Java, or a setting that makes no sense
        raise ClusterNotStarted(f"not within {ATTEMPTS} attempts: {complaint}")

    def _try_to_start(self, home: Path) -> bool:
        ports = free_ports(self.brokers)
        command = own_command("up", "--data-dir", str(home))
        command += ["--brokers", str(self.brokers)]
        command += ["--base-port", str(ports.first), "--zookeeper-port", str(ports.zookeeper)]
        if self.secure:
            command.append("--secure")
        if not self._has_page:
            command.append("--no-page")
        for setting in self._settings:
            command += ["--override", setting]
        home.parent.mkdir(parents=True, exist_ok=True)
        with (self.directory / "stderr").open("ab") as stderr:
            self._up = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
            )
        assert self._up.stdout is not None
        try:
            found = READY.match(self._up.stdout.readline())
        except BaseException:  # also Ctrl-C: no other code would stop the child
            self.stop()
            raise
        if found is None:
            self.stop()
            return False
        self.home = home
        self.bootstrap, self.zookeeper, self.page = found.groups()
        return True

    def stop(self) -> None:
        """Stop all processes with SIGTERM, and with SIGKILL after ``STOP_TIMEOUT_S`` each."""
        processes: list[subprocess.Popen[Any]] = [*self.restarted]
        if self._up is not None:
            processes.append(self._up)
        self._up = None
        self.restarted.clear()
        for process in processes:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def address(self, broker_id: int) -> str:
        """Return where a broker listens."""
        return self.bootstrap.split(",")[broker_id - 1]

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 1) -> None:
        """Create a topic and wait until it is usable. Raises ClusterNotStarted with the error."""
        command = own_command("topics", "create")
        command += ["--bootstrap-server", self.bootstrap, "--topic", name]
        command += ["--partitions", str(partitions)]
        command += ["--replication-factor", str(replication_factor)]
        if self.secure:
            command += ["--command-config", str(self.client_folder("admin") / "client.properties")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterNotStarted(done.stderr.strip())

    def client_folder(self, user: str = "app") -> Path:
        """Return the folder with the client configurations of a user of a secured cluster: ``app``,
        which may use names that begin with ``app-``, or ``admin``."""
        return self.home / "security" / "clients" / user

    def client_settings(
        self, user: str = "app", client: str = "minikafka_aio", name: str = "CONFIG"
    ) -> dict[str, Any]:
        """Return the settings of a Python client, e.g. ``Producer(**cluster.client_settings())``.
        ``client`` is minikafka_aio, confluent_kafka, kafka_python, aiokafka or spark."""
        found: dict[str, Any] = runpy.run_path(str(self.client_folder(user) / f"for_{client}.py"))
        return dict(found[name])

    def _end_of_stderr(self) -> str:
        return end_of(self.directory / "stderr")


class ClusterPorts(NamedTuple):
    """Brokers have ports from ``first`` on, and their debug listeners from ``first_debug`` on."""

    first: int
    first_debug: int
    zookeeper: int


def debug_offset(brokers: int) -> int:
    """Return how far a broker's debug listener is above its port in `minikafka up`."""
    return max(MIN_DEBUG_OFFSET, brokers)


def free_ports(brokers: int) -> ClusterPorts:
    """Return ports that are free for `minikafka up`. Raises ClusterNotStarted."""
    offset = debug_offset(brokers)
    dice = random.SystemRandom()
    for _ in range(100):
        zookeeper = offset + brokers  # above them all
        first = dice.randrange(PORT_RANGE[0], PORT_RANGE[1] - zookeeper)
        used = [*range(brokers), *range(offset, offset + brokers), zookeeper]
        if all(_is_free(first + number) for number in used):
            return ClusterPorts(first, first + offset, first + zookeeper)
    raise ClusterNotStarted("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


T = TypeVar("T")

POLL_MS = 50
ATTEMPT_MS = 2_000
TIMEOUT_S = 60


class ProcessesPlace(AnyCluster):
    """Broker processes with their data below ``directory``, started. Raises ClusterNotStarted."""

    where: Where = "processes"

    def __init__(self, brokers: int, settings: Mapping[str, str], directory: Path) -> None:
        rows = [f"{key}={value}" for key, value in settings.items()]
        self.processes = ClusterProcesses(directory, brokers, rows)
        self.processes.start()
        self._ended: set[int] = set()
        self._paused: set[int] = set()
        self._loop = ClientThread()

    @property
    def bootstrap(self) -> str:
        return self.processes.bootstrap

    @property
    def brokers(self) -> Sequence[int]:
        return range(1, self.processes.brokers + 1)

    def clients(self) -> ClusterClients:
        return ClusterClients(world_of_clients(), ClientConfig(bootstrap_servers=self.bootstrap))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._loop.run(work)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.call(work)

    def close(self) -> None:
        try:
            self._loop.close()
        finally:
            for broker in self._paused:
                self.processes.resume_broker(broker)
            self.processes.stop()

    # ------------------------------------------------------------------------------- single brokers

    def is_running(self, broker: int) -> bool:
        return broker not in self._ended

    async def stop(self, broker: int) -> None:
        if self.is_running(broker):
            self._ended.add(broker)
            self.processes.stop_broker(broker)
            await self._until_ended(broker)

    async def kill(self, broker: int) -> None:
        if self.is_running(broker):
            self._ended.add(broker)
            self._paused.discard(broker)
            self.processes.kill_broker(broker)
            await self._until_ended(broker)

    async def start(self, broker: int) -> None:
        if self.is_running(broker):
            raise RuntimeError(f"broker {broker} runs")
        await in_thread(self.processes.restart_broker, broker)
        await self._until_it_serves(broker)
        self._ended.discard(broker)

    async def pause(self, broker: int) -> None:
        self.processes.pause_broker(broker)
        self._paused.add(broker)

    async def resume(self, broker: int) -> None:
        self.processes.resume_broker(broker)
        self._paused.discard(broker)

    async def restore(self) -> bool:
        """A paused broker starts again. It would learn only later that its session has expired: it
        would be registered now, gone, and registered again."""
        for broker in sorted(self._paused):
            await self.kill(broker)
        ended = sorted(self._ended)
        for broker in ended:
            await self.start(broker)
        return bool(ended)

    async def _until_ended(self, broker: int) -> None:
        clock = self.clients().world.clock
        for _ in attempts(clock, TIMEOUT_S):
            if not self.processes.is_alive(broker):
                return
            await clock.sleep(POLL_MS)
        raise ClusterNotStarted(f"broker {broker} has not ended after {TIMEOUT_S} s")

    async def _until_it_serves(self, broker: int) -> None:
        """The registration alone may still be that of the broker's last process."""
        address = self.processes.address(broker)
        clients = ClusterClients(world_of_clients(), ClientConfig(bootstrap_servers=address))
        for _ in attempts(clients.world.clock, TIMEOUT_S):
            if not self.processes.is_alive(broker):
                break
            async with clients.admin() as admin:
                try:
                    cluster = await admin.describe_cluster(timeout_ms=ATTEMPT_MS)
                except KafkaError:
                    continue
            if any(node.id == broker for node in cluster.nodes):
                return
            await clients.world.clock.sleep(POLL_MS)
        end_of_log = self.processes.end_of_log(broker)
        raise ClusterNotStarted(f"broker {broker} does not serve: {end_of_log}")
