"""A process that has imported what Spark's Python workers need, and forks to be one of them.

Spark starts a Python for each kind of work: one to look up data sources, one to create a source,
one to plan a read, one for tasks, one for each stream. Each of them imports PySpark, and most of
them Arrow and minikafka, too: a first query waits for about a second of that. This server imports
it once, while the JVM starts.

``worker_python`` gives Spark a script as its Python. The script runs ``fork_client.py``, which
sends the server its arguments, environment, working directory, and its standard input, output and
error. The server forks; the child takes these over and runs the module that the arguments name. The
client stays until the child ends, and exits with its status: it is the process that the JVM knows,
waits for and stops. If the client is killed, the server terminates the child. Without a server the
script starts a Python.

The server has one thread: a fork takes no others along.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

# Modules that are run in place of those that Spark names.
_IN_PLACE_OF: Final = {"pyspark.daemon": "minikafka.spark.worker_daemon"}
VARIABLE: Final = "MINIKAFKA_FORK_SERVER"  # in the environment: the path of the server's socket
# The hash of a text must be the same in all workers. Spark's launcher sets this for the JVM.
_HASH_SEED: Final = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}
_NEEDED: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark_minikafka",
    "minikafka.spark.read.batch_reader",
    "minikafka.spark.read.stream_reader",
    "minikafka.spark.write.writers",
)


def start_fork_server(environ: MutableMapping[str, str]) -> None:
    """Start a server that lives as long as this process, and name its socket in ``environ``.

    It ends at the end of its standard input, a pipe whose other end this process never closes."""
    if VARIABLE in environ and os.path.exists(environ[VARIABLE]):
        return
    folder = tempfile.mkdtemp(prefix="minikafka-")  # only this user may enter it
    environ[VARIABLE] = os.path.join(folder, "forks")
    reader, _ = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "minikafka.spark.fork_server", environ[VARIABLE]],
        {**environ, **_HASH_SEED},
        file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)],
        setpgroup=0,  # Ctrl-C does not concern it
    )
    os.close(reader)


class Request(NamedTuple):
    """What a client wants to be run: the arguments of ``python``, its environment and folder."""

    arguments: list[str]
    environ: dict[str, str]
    folder: str


class ForkServer:
    """Serves clients at the socket ``path`` until its standard input ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, int] = {}  # process ids, by descriptor of the client
        self._clients: dict[int, socket.socket] = {}  # by descriptor of the process
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        self._installed = [each for each in sys.path[1:] if each not in inherited]

    def run(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._path)
            listener.listen()
            self._selector.register(0, selectors.EVENT_READ)
            self._selector.register(listener, selectors.EVENT_READ)
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is listener:
                        self._accept(listener)
                    elif key.fd == 0:
                        return
                    elif key.fd in self._clients:
                        self._ended(key.fd)
                    elif key.fd in self._children:  # the client is gone
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(self._children[key.fd], signal.SIGTERM)
                        self._selector.unregister(key.fileobj)

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        try:
            request, descriptors = receive(client)
        except (OSError, ValueError):  # it was killed meanwhile
            client.close()
            return
        process = os.fork()
        if process == 0:
            listener.close()
            self._selector.close()
            for other in (client, *self._clients.values()):
                other.close()
            become(request, descriptors, self._installed)
        for each in descriptors:
            os.close(each)
        ended = os.pidfd_open(process)
        self._children[client.fileno()] = process
        self._clients[ended] = client
        self._selector.register(client, selectors.EVENT_READ)
        self._selector.register(ended, selectors.EVENT_READ)

    def _ended(self, descriptor: int) -> None:
        client = self._clients.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(self._children.pop(client.fileno()), 0)
        with contextlib.suppress(KeyError):
            self._selector.unregister(client)
        with contextlib.suppress(OSError):  # the client was killed
            client.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
        client.close()


def receive(client: socket.socket) -> tuple[Request, list[int]]:
    """Receive a request, and the descriptors of standard input, output and error. Raises OSError,
    ValueError."""
    header, descriptors, _, _ = socket.recv_fds(client, 4, 3)
    try:
        size = int.from_bytes(header, "big")
        with client.makefile("rb", buffering=0) as stream:
            body = b""
            while len(body) < size and (more := stream.read(size - len(body))):
                body += more
        return Request(*json.loads(body)), descriptors
    except (OSError, ValueError):
        for each in descriptors:
            os.close(each)
        raise


def become(request: Request, descriptors: Iterable[int], installed: list[str]) -> NoReturn:
    """Run the module of ``python -m MODULE ...`` in this process, and end the process."""
    status = 1
    try:
        for number, each in enumerate(descriptors):
            os.dup2(each, number)
            os.close(each)
        status = _run(request, installed)
        sys.stdout.flush()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the JVM closed the socket first, as when a query is stopped: nobody needs a trace
    except BaseException:  # the process ends here: nothing may return into the server
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status & 0xFF)


def _run(request: Request, installed: list[str]) -> int:
    """Run a module as ``__main__``, and return the exit status."""
    os.environ.clear()
    os.environ.update(request.environ)
    os.chdir(request.folder)
    given = request.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [request.folder, *filter(None, given), *installed]
    _, module, *arguments = request.arguments
    module = _IN_PLACE_OF.get(module, module)
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # runpy warns of one that is imported already
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        sys.stderr.write(f"{ending.code}\n")
        return 1
    return 0


def _import_what_workers_need() -> None:
    for each in _NEEDED:
        __import__(each)
    os.register_at_fork(after_in_child=_new_random_numbers)
    gc.collect()
    gc.freeze()


def _new_random_numbers() -> None:
    """Give each worker its own random numbers of numpy, as if it had imported numpy itself."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def main() -> None:
    path = sys.argv[1]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_what_workers_need()
    try:
        ForkServer(path).run()
    finally:
        with contextlib.suppress(OSError):
            Path(path).unlink(missing_ok=True)
            Path(path).parent.rmdir()


if __name__ == "__main__":
    main()
