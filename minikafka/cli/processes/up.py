"""The verb `up`: supervises a ZooKeeper and N brokers in the foreground, as one small cluster.

It reports full disks to its user.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import errno
import os
import shlex
import shutil
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from minikafka.cli.processes.broker import parse_overrides
from minikafka.cli.processes.children import Child, complain, describe_exit
from minikafka.cli.processes.embedded_zookeeper import (
    HEAP_MB,
    ZookeeperError,
    class_path,
    find_java,
    jar_folders,
    server_status,
)
from minikafka.cli.processes.pid_file import Holder
from minikafka.cli.processes.registry import (
    PORT_HINT,
    RegistryProcess,
    add_registry_argument,
    registry_beside,
)
from minikafka.cli.processes.secure import LOOPBACK
from minikafka.cli.processes.zookeeper import add_heap_argument
from minikafka.cli.secured.folder import PRIVATE_UMASK, write_private
from minikafka.cli.standard_streams import changes_completed
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_pairs_argument, at_least, zookeeper_servers
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.extras import how_to_get, missing_modules, require
from minikafka.kernel.listeners import DEBUG_LISTENER
from minikafka.kernel.ports import CoordinationError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.zookeeper.requests import MalformedZnode

if TYPE_CHECKING:
    from minikafka.cli.processes.page import PageProcess
    from minikafka.cli.secured.folder import SecurityFolder
    from minikafka.page.dashboard.acting.supervision import Greeting
    from minikafka.testing.inside.cluster import InsideCluster


# A disk counts as full below the first limit of free bytes, and has room again from the second one
# on: a disk near one limit must not be reported again and again.
FULL_BYTES: Final = 1 << 20
ROOM_BYTES: Final = 8 << 20


class FullDisks:
    """Calls ``report`` once when a disk becomes full, and once when it has room again."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._full: set[str] = set()

    def update(self, free: Mapping[str, int]) -> None:
        """``free`` has the number of free bytes of each disk, by the path of a directory on it."""
        for path, free_bytes in free.items():
            if free_bytes < FULL_BYTES and path not in self._full:
                self._full.add(path)
                self._report(
                    f"the disk of {path} is full: brokers refuse records until there is room, and "
                    "brokers or ZooKeeper may exit"
                )
            elif free_bytes >= ROOM_BYTES and path in self._full:
                self._full.remove(path)
                self._report(f"the disk of {path} has room again; start what has exited")


def free_bytes(paths: Iterable[str]) -> dict[str, int]:
    """Return the free bytes of each disk, by the first of its paths that exists."""
    found: dict[int, tuple[str, int]] = {}
    for path in paths:
        try:
            found.setdefault(os.stat(path).st_dev, (path, shutil.disk_usage(path).free))
        except OSError:
            continue  # not created as yet, or the disk does not respond
    return dict(found.values())


READY_POLL_MS = 50
READY_TIMEOUT_S = 60
DISK_POLL_S = 2
DEBUG_PORT_OFFSET = 100  # from a broker's port to that of its debug listener
MAX_PORT = 65535
SECURITY_FOLDER = "security"
PROTOCOL = "SASL_SSL"
DATA_DIR, ZOOKEEPER_PORT = "minikafka-data", 2181
# What the page may send to a broker.
SIGNALS: Final[Mapping[str, signal.Signals]] = {
    "stop": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "pause": signal.SIGSTOP,
    "resume": signal.SIGCONT,
}
STOP_LIMIT_S = 60  # more than a controlled shutdown may take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=at_least(1), default=3, help="number of brokers (3)")
    parser.add_argument("--data-dir", default=DATA_DIR, help="folder of all data and logs")
    parser.add_argument(
        "--base-port",
        type=port,
        default=9092,
        help=f"port of the first broker; its debug listener is {DEBUG_PORT_OFFSET} above",
    )
    parser.add_argument(
        "--zookeeper",
        type=zookeeper_servers,
        metavar="HOST:PORT",
        help="use this ZooKeeper; start none",
    )
    parser.add_argument(
        "--zookeeper-port",
        type=port,
        default=ZOOKEEPER_PORT,
        help="port of the ZooKeeper that is started",
    )
    add_heap_argument(parser, "--zookeeper-heap")
    parser.add_argument(
        "--secure",
        action="store_true",
        help=f"TLS, logins and ACLs; keys and client configurations are in {SECURITY_FOLDER} of "
        "the data folder",
    )
    parser.add_argument(
        "--inside",
        action="store_true",
        help="brokers and ZooKeeper in this process, without Java; nothing is kept on disk",
    )
    parser.add_argument(
        "--page-port", type=port, metavar="PORT", help="port of the page (8080, or the next free)"
    )
    parser.add_argument(
        "--no-page", action="store_true", help="start no page that shows what happens inside"
    )
    add_registry_argument(parser)
    add_pairs_argument(parser, "--override", "a setting of every broker; repeatable")


def port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be a port, 1 to {MAX_PORT}")
    return number


def run(args: argparse.Namespace) -> int:
    from minikafka.world.real.loop import run as run_real

    events.configure("ERROR")
    if args.registry is not None:
        require("registry", "the registry")
    with changes_completed():  # runs on when the reader of the ready line ends
        if args.inside:
            return up_inside(args)
        if args.zookeeper is None:
            check_java(os.environ)
        if args.secure:
            os.umask(PRIVATE_UMASK)  # also of the processes that it starts
        return run_real(Supervisor(args).run())


def up_inside(args: argparse.Namespace) -> int:
    """Raises ConfigError for an option that has no effect there."""
    from minikafka.cli.processes.inside import run_inside

    without_effect = {
        "--secure": args.secure,
        "--zookeeper": args.zookeeper is not None,
        "--zookeeper-port": args.zookeeper_port != ZOOKEEPER_PORT,
        "--zookeeper-heap": args.zookeeper_heap != HEAP_MB,
        "--data-dir": args.data_dir != DATA_DIR,
    }
    named = [option for option, is_given in without_effect.items() if is_given]
    if named:
        raise WrongUsage(f"{', '.join(named)}: not with --inside, which keeps all in memory")
    overrides = parse_overrides(args.override)
    debug_ports: list[int] = []
    if DEBUG_LISTENER not in overrides:
        debug_ports = free_debug_ports(args.base_port, args.brokers)
    page_port: int | None = args.page_port
    registry_port: int | None = args.registry
    if registry_port and not port_is_free(registry_port):
        raise ConfigError(f"port already in use: {registry_port} ({PORT_HINT})")

    @contextmanager
    def beside(cluster: InsideCluster) -> Iterator[str]:
        with ExitStack() as stack:
            words = []
            registry: str | None = None
            if registry_port is not None:
                word = stack.enter_context(registry_beside(cluster.bootstrap, registry_port))
                words.append(word)
                registry = word.removeprefix("registry=")
            if has_page(args):
                from minikafka.cli.processes.page import page_beside

                words.append(stack.enter_context(page_beside(cluster, page_port, registry)))
            yield " ".join(words)

    return run_inside(args.brokers, args.base_port, overrides, beside, debug_ports)


def has_page(args: argparse.Namespace) -> bool:
    """Whether to start the page, which is an extra."""
    if args.no_page:
        return False
    missing = missing_modules("ui")
    if missing and args.page_port is not None:
        complain(how_to_get("ui", "the page", missing))
    return not missing


def free_debug_ports(base_port: int, brokers: int) -> list[int]:
    """Return the ports that the debug listeners have in any ``up``, with 0, for one that the system
    chooses, in place of those that are taken."""
    first = base_port + debug_offset(brokers)
    wanted = range(first, first + brokers)
    return [number if number <= MAX_PORT and port_is_free(number) else 0 for number in wanted]


def check_java(environ: Mapping[str, str]) -> None:
    """Raises ConfigError if ZooKeeper cannot be started."""
    try:
        find_java(environ)
        class_path(jar_folders(environ))
    except ZookeeperError as error:
        raise ConfigError(f"{error}; or run a cluster without it: minikafka up --inside") from None


class Supervisor:
    """Starts ZooKeeper and the brokers, prints when they are ready, and stops them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._root = Path(args.data_dir).absolute()
        self._overrides = parse_overrides(args.override)
        self._ports = [args.base_port + i for i in range(args.brokers)]
        offset = debug_offset(args.brokers)
        self._debug_ports = [number + offset for number in self._ports]
        if DEBUG_LISTENER in self._overrides:
            self._debug_ports = []
        elif args.secure:
            self._debug_ports = []  # anyone on this machine could read it
        self._secure: bool = args.secure
        self._security: SecurityFolder | None = None
        self._own_zookeeper = args.zookeeper is None
        self._zookeeper = args.zookeeper or f"127.0.0.1:{args.zookeeper_port}"
        self._zookeeper_port: int = args.zookeeper_port
        self._zookeeper_heap: int = args.zookeeper_heap
        self._brokers: list[Child] = []
        self._all: list[Child] = []
        self._watchers: set[asyncio.Task[None]] = set()
        self._has_page = has_page(args)
        self._page_port: int | None = args.page_port
        self._page: PageProcess | None = None
        self._registry_port: int | None = args.registry
        self._registry: RegistryProcess | None = None
        self._registry_users: Path | None = None
        self._stop = asyncio.Event()
        self._ready = False
        self._failed = False
        self._signals = 0

    async def run(self) -> int:
        from minikafka.world.real.world import real_world

        if not self._root.exists():
            self._check_ports()  # a wrong option creates no directory
            self._check_settings()
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            lock = real_world().files.lock(str(self._root / ".lock"))
        except BlockingIOError:
            raise ConfigError(f"{self._root} is in use by another minikafka") from None
        try:
            self._check_ports()
            self._security = self._open_security_folder()
            self._check_settings()
            self._plan()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._on_signal)
            return await self._supervise()
        finally:
            lock.release()

    def _check_settings(self) -> None:
        """Raises ConfigError."""
        for broker_id, number in enumerate(self._ports, start=1):
            # One message here instead of one from every broker.
            BROKER_CONFIG.parse(self._properties(broker_id, number))

    def _check_ports(self) -> None:
        wanted = self._ports + self._debug_ports
        if self._own_zookeeper:
            wanted.append(self._zookeeper_port)
        if max(wanted) > MAX_PORT:
            raise WrongUsage(f"--base-port is too high: ports up to {max(wanted)} are needed")
        if self._registry_port:
            wanted.append(self._registry_port)
        twice = sorted({number for number in wanted if wanted.count(number) > 1})
        if twice:
            raise WrongUsage(f"port needed twice: {', '.join(map(str, twice))}")
        taken = [number for number in wanted if not port_is_free(number)]
        if taken:
            hints = []
            if any(number in taken for number in self._ports + self._debug_ports):
                hints.append("--base-port chooses others for the brokers")
            if self._own_zookeeper and self._zookeeper_port in taken:
                hints.append("--zookeeper-port chooses another for ZooKeeper")
                hints.append(f"--zookeeper 127.0.0.1:{self._zookeeper_port} uses one that runs")
            if self._registry_port in taken:
                hints.append(PORT_HINT)
            numbers = ", ".join(map(str, taken))
            raise ConfigError(f"port already in use: {numbers} ({', '.join(hints)})")

    def _open_security_folder(self) -> SecurityFolder | None:
        """Raises ConfigError also for a secured cluster that would be started without security."""
        path = self._root / SECURITY_FOLDER
        if not self._secure:
            if path.exists():
                raise ConfigError(
                    f"{self._root} has a secured cluster: add --secure, or delete {path} to let "
                    "everyone on this machine use it"
                )
            return None
        from minikafka.cli.secured.folder import SecurityFolder

        folder = SecurityFolder(path, datetime.datetime.now(datetime.UTC))
        folder.write_client_files(",".join(self._addresses))
        return folder

    def _plan(self) -> None:
        if self._own_zookeeper:
            home = self._home("zookeeper")
            arguments = ["zookeeper", "--data-dir", str(home / "data")]
            arguments += ["--port", str(self._zookeeper_port)]
            arguments += ["--heap", str(self._zookeeper_heap)]
            self._all.append(Child("zookeeper", arguments, home / "log", home / "pid"))
        for broker_id, number in enumerate(self._ports, start=1):
            home = self._home(f"broker-{broker_id}")
            properties = home / "server.properties"
            values = self._properties(broker_id, number)
            write_private(properties, "".join(f"{key}={text}\n" for key, text in values.items()))
            arguments = ["broker", "--config", str(properties)]
            child = Child(f"broker {broker_id}", arguments, home / "log", home / "pid")
            self._brokers.append(child)
        self._all += self._brokers
        if self._registry_port is not None:
            config = None
            if self._security is not None:
                config = self._security.admin_config
                self._registry_users = self._security.write_registry_users()
            bootstrap, home = ",".join(self._addresses), self._home("registry")
            self._registry = RegistryProcess(
                bootstrap, self._registry_port, home, config, self._registry_users
            )

    def _home(self, name: str) -> Path:
        home = self._root / name
        home.mkdir(exist_ok=True)
        if self._secure:
            home.chmod(0o700)  # files of an earlier start without --secure may be open to others
        return home

    @property
    def _addresses(self) -> list[str]:
        return [f"127.0.0.1:{number}" for number in self._ports]

    def _properties(self, broker_id: int, number: int) -> dict[str, str]:
        values = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{number}",
            "zookeeper.connect": self._zookeeper,
            "zookeeper.session.timeout.ms": "6000",
            "zookeeper.connection.timeout.ms": "30000",
            "log.dirs": str(self._root / f"broker-{broker_id}" / "data"),
            "default.replication.factor": str(min(3, len(self._ports))),
            # When all brokers stop at once, the last ones have no other replica to move leaders to.
            "controlled.shutdown.retry.backoff.ms": "500",
            "log.scrubber.bytes.per.second": str(1024 * 1024),
        }
        if self._debug_ports:
            port_of_debug = self._debug_ports[broker_id - 1]
            values[DEBUG_LISTENER] = f"HTTP://127.0.0.1:{port_of_debug}"
        if self._security is not None:
            hosts = (*LOOPBACK, socket.gethostname())
            values["listeners"] = f"{PROTOCOL}://127.0.0.1:{number}"
            values |= self._security.broker_settings(broker_id, hosts, [PROTOCOL])
        return values | self._overrides

    def _on_signal(self) -> None:
        self._signals += 1
        self._stop.set()
        if self._signals > 1:
            self._kill_all()

    def _kill_all(self) -> None:
        for child in self._all:
            child.send(signal.SIGKILL)

    async def _supervise(self) -> int:
        for child in self._all:
            if self._stop.is_set():
                break
            if child is self._brokers[0] and not await self._set_up_users():
                break
            await self._start(child)
            if child not in self._brokers:
                await self._until_zookeeper_serves(child)
        if self._registry_port != 0:
            await self._start_page(self._registry_address)
        ready = asyncio.create_task(self._announce())
        disks = asyncio.create_task(self._watch_disks())
        stopping = asyncio.create_task(self._stop.wait())
        everything = asyncio.create_task(self._until_all_have_ended())
        first: set[asyncio.Future[Any]] = {stopping, everything}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        self._failed |= not self._stop.is_set()
        self._stop.set()
        ready.cancel()
        disks.cancel()
        await self._stop_all()
        await asyncio.gather(everything, stopping)
        await asyncio.wait([ready])
        if not ready.cancelled():
            ready.result()
        return 1 if self._failed else 0

    async def _until_zookeeper_serves(self, zookeeper: Child) -> None:
        """Poll ``srvr``: a starting server may accept a connection seconds before it responds."""
        while zookeeper.running and not self._stop.is_set():
            if "Mode:" in await server_status("127.0.0.1", self._zookeeper_port):
                return
            await asyncio.sleep(READY_POLL_MS / 1000)

    async def _set_up_users(self) -> bool:
        """Write the users of a secured cluster into ZooKeeper: brokers log in as one of them.
        Returns whether the brokers can start."""
        if self._security is None:
            return True
        from minikafka.cli.secured.users import set_up_users
        from minikafka.world.real.world import real_world

        try:
            await set_up_users(real_world(), self._zookeeper, self._security.passwords)
        except (CoordinationError, MalformedZnode) as error:
            text = str(error) or type(error).__name__
            complain(f"the users cannot be written into ZooKeeper {self._zookeeper}: {text}")
            self._failed = True
            self._stop.set()
            return False
        return True

    async def _start(self, child: Child) -> None:
        await child.start()
        self._watchers.add(asyncio.create_task(self._watch(child)))

    async def _until_all_have_ended(self) -> None:
        while self._watchers:
            ended, _ = await asyncio.wait(self._watchers, return_when=asyncio.FIRST_COMPLETED)
            self._watchers -= ended
            for watcher in ended:
                watcher.result()

    async def _watch(self, child: Child) -> None:
        """Report a child that ends by itself; stop the cluster if it has not been ready yet. One
        that the user has ended may start again: its watcher waits for the end of the cluster."""
        status = await child.wait()
        if self._stop.is_set():
            return
        if child.ended_by:
            complain(f"{child.name}: {child.ended_by} from the page")
            await self._stop.wait()
            return
        if status == 0:
            complain(f"{child.name} was stopped")
        else:
            text = f"{child.name} died: {describe_exit(status)}; {child.last_line()}"
            complain(f"{text} (log: {child.log_path})")
        if not self._ready:
            self._failed = True
            self._stop.set()

    async def _watch_disks(self) -> None:
        """Report full disks on the terminal: the log of a broker may be on the same disk."""
        from minikafka.server.node.config_views import log_dirs

        paths = [str(self._root)]
        for broker_id, number in enumerate(self._ports, start=1):
            paths += log_dirs(BROKER_CONFIG.parse(self._properties(broker_id, number)))
        full = FullDisks(complain)
        while True:
            full.update(free_bytes(paths))
            await asyncio.sleep(DISK_POLL_S)

    async def _announce(self) -> None:
        security = {} if self._security is None else self._security.client_settings()
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await wait_until_ready(self._addresses, security)
                registry = await self._start_registry()
            if self._registry_port == 0:
                await self._start_page(registry)
        except TimeoutError:
            complain(f"the cluster is not ready after {READY_TIMEOUT_S} s")
            self._failed = True
            self._stop.set()
            return
        if self._stop.is_set():
            return
        bootstrap = ",".join(self._addresses)
        line = f"ready bootstrap={bootstrap} zookeeper={self._zookeeper}"
        if registry is not None:
            line = f"{line} registry={registry}"
        self._ready = True
        address = None if self._page is None else await self._page.address()
        print(line if address is None else f"{line} page={address}", flush=True)
        if self._security is not None:
            print("\n".join(self._security.summary()), flush=True)
        if self._page is not None and address is None:
            complain(f"the page did not start (log: {self._page_log})")
        elif self._page is not None and self._secure:
            text = "the page shows what the protocol tells: brokers have no debug listener here"
            print(text, flush=True)

    async def _start_registry(self) -> str | None:
        """Start the schema registry and return its address. If it does not serve, its watcher has
        stopped the cluster."""
        if self._registry is None:
            return None
        self._registry.prepare()
        self._all.append(self._registry.child)
        await self._start(self._registry.child)
        address = await self._registry.address()
        if address is None:
            await self._stop.wait()
        return address

    async def _stop_all(self) -> None:
        """Stop the page, the registry, then all brokers at once, then ZooKeeper, which brokers need
        for their shutdown."""
        for child in self._brokers:
            child.resume()
        if self._page is not None:
            await self._page.stop()
        registry = [] if self._registry is None else [self._registry.child]
        others = [c for c in self._all if c not in self._brokers and c not in registry]
        for group in (registry, self._brokers, others):
            for child in group:
                child.send(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_LIMIT_S):
                    await asyncio.gather(*(child.wait() for child in group if child.process))
            except TimeoutError:
                hanging = [child.name for child in group if child.running]
                complain(f"{', '.join(hanging)} did not stop within {STOP_LIMIT_S} s: killed")
                self._failed = True
                self._kill_all()
            # When all processes have ended by themselves, those of others go on.
            if group is self._brokers and self._signals:
                await asyncio.gather(*map(self._stop_restarted, self._ports))

    async def _stop_restarted(self, number: int) -> None:
        """Stop the broker of a port if somebody else has started it again after its end."""
        from minikafka.cli.processes.stop import stop
        from minikafka.server.node.config_views import log_dirs
        from minikafka.world.real.world import real_world

        broker_id = self._ports.index(number) + 1
        settings = BROKER_CONFIG.parse(self._properties(broker_id, number))
        try:
            holder = Holder(Path(log_dirs(settings)[0]))
        except FileNotFoundError:
            return
        with closing(holder):
            if holder.pid() is None:
                return
            try:
                await stop(real_world().clock, holder, f"broker {broker_id}", STOP_LIMIT_S * 1000)
            except ConfigError as error:
                complain(str(error))
                self._failed = True

    # ------------------------------------------------------------------------------------- the page

    @property
    def _page_log(self) -> Path:
        return self._root / "page" / "log"

    @property
    def _registry_address(self) -> str | None:
        """Where the registry will be, unless the system chooses its port."""
        return f"http://127.0.0.1:{self._registry_port}" if self._registry_port else None

    async def _start_page(self, registry: str | None) -> None:
        """Start the page, while the brokers start if that is possible; it is never the reason why
        a cluster fails."""
        if not self._has_page or self._stop.is_set():
            return
        from minikafka.cli.processes.page import PageProcess

        self._home("page")
        config = None if self._security is None else str(self._security.admin_config)
        page = PageProcess(
            ",".join(self._addresses),
            self._page_port,
            config,
            self._page_log,
            self._root / "page" / "history",
            lambda: complain(f"the page has ended (log: {self._page_log})"),
            registry,
            None if registry is None else self._registry_users,
        )
        try:
            await page.start(self)
        except OSError as error:
            complain(f"the page cannot be started: {error}")
        else:
            self._page = page

    @property
    def greeting(self) -> Greeting:
        """What the page can do to the brokers."""
        from minikafka.page.dashboard.acting.supervision import Greeting

        home = f"{shlex.quote(str(self._root))}/broker-{{broker}}"
        kills = {
            verb: f"kill -{number.value} $(cat {home}/pid)" for verb, number in SIGNALS.items()
        }
        commands = {"start": f"minikafka broker --config {home}/server.properties", **kills}
        numbered = dict(enumerate(self._brokers, 1))
        paused = tuple(id for id, child in numbered.items() if child.running and child.is_paused)
        return Greeting(tuple(commands), tuple(numbered), commands, paused)

    async def act(self, verb: str, broker: int) -> None:
        """Do what the page asks for. Raises SupervisorError."""
        from minikafka.page.dashboard.acting.supervision import SupervisorError

        child = self._brokers[broker - 1]
        if not self._ready or self._stop.is_set():
            raise SupervisorError(f"the cluster is {'stopping' if self._ready else 'starting'}")
        if child.running == (verb == "start"):
            raise SupervisorError(f"{child.name} {'runs' if child.running else 'does not run'}")
        match verb:
            case "start":
                await self._start(child)
            case "pause":
                child.pause()
            case "resume":
                child.resume()
            case "stop" if child.is_paused:
                raise SupervisorError(f"{child.name} is paused: resume or kill it")
            case _:
                child.ended_by = {"stop": "stopped", "kill": "killed"}[verb]
                child.send(SIGNALS[verb])


async def wait_until_ready(addresses: Sequence[str], security: Mapping[str, Any]) -> None:
    """Wait until the metadata of every broker lists all brokers and a controller. ``security`` are
    fields of the client's configuration."""
    from minikafka.client.admin.admin import Admin
    from minikafka.client.config import ClientConfig
    from minikafka.world.real.world import real_world

    world = real_world()
    for address in addresses:
        config = ClientConfig(
            bootstrap_servers=address, retry_backoff_max_ms=READY_POLL_MS, **security
        )
        async with Admin(world, config) as admin:
            while True:
                cluster = await admin.describe_cluster()
                if len(cluster.nodes) >= len(addresses) and cluster.controller_id >= 0:
                    break
                await world.clock.sleep(READY_POLL_MS)


def debug_offset(brokers: int) -> int:
    return max(DEBUG_PORT_OFFSET, brokers)


def port_is_free(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True
