"""A JVM in which Kafka's command-line tools run one after the other.

To start Java and to load and compile the classes of a client takes most of the processor time of a
tool: a second for each. What a tool prints and its exit status are those of a process of its kind.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from functools import reduce
from typing import Any

from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway
from py4j.java_gateway import find_jar_path as find_py4j
from py4j.protocol import Py4JJavaError

from scripts.lib.apache_kafka import NEWEST, java_command
from tests.support.cluster.kafka_tools import (
    CLASSES,
    LIMIT_S,
    QUIET,
    TOOL_JVM,
    ToolOutput,
    ToolTarget,
    normalised,
    run_tool,
    with_places,
)

# They call System.exit, or end only by a signal.
ALONE = ("replica-verification", "verifiable-consumer", "verifiable-producer")


class ToolEnds(Exception):
    """Unwinds the stack of a tool that exits."""


class ExitProcedure:
    """Takes the status of a tool that calls Kafka's ``Exit.exit``, and ends the tool."""

    def __init__(self, jvm: ToolJvm) -> None:
        self._jvm = jvm

    def execute(self, status: int, message: str | None) -> None:
        self._jvm.note_exit(status)
        raise ToolEnds

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$Procedure",)


class ShutdownHooks:
    """Keeps what a tool has to do when its process ends, such as to close a producer."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []

    def addShutdownHook(self, name: str | None, hook: Any) -> None:
        self._hooks.append(hook)

    def run(self) -> None:
        while self._hooks:
            self._hooks.pop().run()

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$ShutdownHookAdder",)


class ToolJvm:
    """Runs one tool at a time. The standard streams of the JVM are buffers of bytes in it."""

    def __init__(self, gateway: JavaGateway, process: subprocess.Popen[bytes]) -> None:
        self._gateway, self._process = gateway, process
        self._status: int | None = None
        self._printed = ("", "")  # to standard output and standard error, until the exit
        self._hooks = ShutdownHooks()
        java = self._java = gateway.jvm.java
        self._streams = java.io.ByteArrayOutputStream(), java.io.ByteArrayOutputStream()
        # Scala keeps the streams that it finds at first.
        out, err = (java.io.PrintStream(each, True, "UTF-8") for each in self._streams)
        java.lang.System.setOut(out)
        java.lang.System.setErr(err)
        exits = gateway.jvm.org.apache.kafka.common.utils.Exit
        exits.setExitProcedure(ExitProcedure(self))
        exits.setShutdownHookAdder(self._hooks)

    def run(self, cluster: ToolTarget, tool: str, *arguments: str, stdin: str = "") -> ToolOutput:
        """As ``run_tool``."""
        if tool in ALONE:
            return run_tool(cluster, tool, *arguments, stdin=stdin)
        given = with_places(cluster, arguments)
        words = self._gateway.new_array(self._java.lang.String, len(given))
        for index, word in enumerate(given):
            words[index] = word
        source = self._java.io.ByteArrayInputStream(stdin.encode())
        self._java.lang.System.setIn(source)
        self._status = None
        self._take_printed()
        killer = threading.Timer(LIMIT_S, self._process.kill)
        killer.start()
        try:
            self._run_main(CLASSES[tool], words)
            self._hooks.run()
        finally:
            killer.cancel()
        assert self._status is not None
        texts = map("".join, zip(self._printed, self._take_printed(), strict=True))
        return ToolOutput(self._status, *(normalised(cluster, text) for text in texts))

    def _run_main(self, name: str, words: Any) -> None:
        try:
            reduce(getattr, name.split("."), self._gateway.jvm).main(words)
        except Py4JJavaError:
            if self._status is None:
                raise
        self.note_exit(0)
        self._take_printed()  # what handlers of errors have printed after the exit

    def note_exit(self, status: int) -> None:
        """Keep the status and what was printed, if the tool has not ended before."""
        if self._status is None:
            self._status, self._printed = status, self._take_printed()

    def _take_printed(self) -> tuple[str, str]:
        out, err = (str(each.toString("UTF-8")) for each in self._streams)
        for each in self._streams:
            each.reset()
        return out, err


@contextlib.contextmanager
def tool_jvm(version: str = NEWEST) -> Iterator[ToolJvm]:
    """Start a JVM for the tools of a version, which ends with this process at the latest."""
    command = java_command(
        version, "py4j.GatewayServer", "--die-on-broken-pipe", "0", jvm=(*TOOL_JVM, QUIET)
    )
    command[command.index("-cp") + 1] += f":{find_py4j()}"
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            gateway = JavaGateway(
                gateway_parameters=GatewayParameters(port=port, auto_convert=True),
                callback_server_parameters=CallbackServerParameters(
                    port=0, daemonize=True, daemonize_connections=True
                ),
            )
            server = gateway.java_gateway_server
            server.resetCallbackClient(
                server.getCallbackClient().getAddress(),
                gateway.get_callback_server().get_listening_port(),
            )
            yield ToolJvm(gateway, process)
            gateway.shutdown()
        finally:
            process.kill()
