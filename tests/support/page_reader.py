"""Runs the commands of a page of the documentation as its reader would, in a separate folder.

The ports of a page are free ones here: 9092 in a command is the first broker of the last cluster
that the page has started, or else of one that all pages share. `up` and `fake` run until the end of
the page, other servers until the end of their block of code.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from minikafka.cli.processes.up import DEBUG_PORT_OFFSET
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import until
from tests.support.pages import Block, Command, parse

LIMIT_S = 120
PASSWORD = "a-good-password"
VARIABLES = ".variables"  # a script that each command begins with
# What a server prints when it serves.
READY = {
    "up": "ready ",
    "fake": "ready ",
    "faults": "ready ",
    "ui": "page=",
    "learn": "page=",
    "registry": "registry=",
    "broker": " broker_started ",
}
CLUSTERS = ("up", "fake")
IN_A_ROW = (9092, 9093, 9094, 2181, 8080, 8081, 8090, 19092)
DEBUG_PORT = 9092 + DEBUG_PORT_OFFSET
# Hosts that a page leaves to its reader.
HOSTS = {
    "B:9092": "127.0.0.1:9092",
    "Z:2181/chroot": "127.0.0.1:2181",
    "kafka.example:9092": "127.0.0.1:9092",
}
# The options that choose the ports on which a server listens by default.
OPTIONS = {
    "up": {"--base-port": 9092, "--zookeeper-port": 2181, "--page-port": 8080},
    "fake": {"--base-port": 9092},
    "ui": {"--port": 8080},
    "learn": {"--port": 8090},
    "registry": {"--port": 8081},
}
OWN_PORTS = {
    "up": (9092, 9093, 9094, DEBUG_PORT, 2181, 8080, 8081),
    "fake": (9092, 9093, 9094, 8090),
    "faults": (19092, 8090),
    "ui": (8080,),
    "learn": (8090,),
    "registry": (8081,),
    "broker": (),
}


def asks_for_a_password(text: str) -> bool:
    asking = ("minikafka users " in text and "--create" in text) or "--user-entry" in text
    return asking and "--password" not in text


class Server:
    """A verb that runs until a signal stops it. ``ports`` maps ports of the page to real ones."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, ports: dict[int, int]) -> None:
        self.process = process
        self.ports = ports
        self._log = log

    @property
    def output(self) -> str:
        return self._log.read_text()

    def until_ready(self, sign: str) -> None:
        until(lambda: self.process.poll() is not None or sign in self.output, sign, LIMIT_S)
        assert sign in self.output, self.output

    def stop(self) -> None:
        """Stop it with SIGTERM. Fails if its exit status is not 0."""
        try:
            self.process.terminate()
            status = self.process.wait(LIMIT_S)
        finally:
            self.process.kill()
        assert status == 0, f"exit status {status} after SIGTERM: {self.output}"


class PageReader:
    """Runs the commands of one page. ``phrases`` are replaced in each command, such as a host
    name; ``ports`` maps each port of the page to a free one."""

    def __init__(self, folder: Path, shared: Callable[[], Server]) -> None:
        """``shared`` returns a server of the verb ``up`` without options."""
        programs = folder / ".programs"
        programs.mkdir(parents=True)
        verbs = programs / "minikafka"
        verbs.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m minikafka.cli.main "$@"\n')
        verbs.chmod(0o755)
        (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
        self.folder = folder
        self.phrases = {**HOSTS, "/home/me": str(folder)}
        self.ports: ChainMap[int, int] = ChainMap({}, {})
        self._shared = shared
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "CURL_HOME": str(folder),
        }
        (folder / VARIABLES).touch()
        self._until_end_of_page = ExitStack()
        self._until_end_of_block = ExitStack()
        self._servers = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._until_end_of_page.close()

    def here(self, text: str) -> str:
        """Return the text with the addresses of this reader."""
        for phrase, replacement in self.phrases.items():
            text = text.replace(phrase, replacement)
        pattern = "|".join(map(str, {*IN_A_ROW, DEBUG_PORT, *self.ports}))
        return re.sub(rf"\b({pattern})\b", lambda found: str(self._port(int(found[0]))), text)

    def _port(self, number: int) -> int:
        if number not in self.ports:
            self.ports.maps[-1].update({**self._shared().ports, **self.ports})
        return self.ports[number]

    def follow(self, block: Block, not_run: Callable[[Command], bool]) -> Iterator[str]:
        """Run the commands of a block, and yield what is wrong with each that fails, or does not
        print what the page shows."""
        try:
            with self._until_end_of_block:
                for command in block.commands:
                    if not not_run(command):
                        try:
                            self._check(command)
                        except (AssertionError, subprocess.TimeoutExpired) as error:
                            yield f"line {command.line}: {command.text}\n    {error}"
        except AssertionError as error:
            yield f"line {block.line}: {error}"
        self.ports.maps[0].clear()

    def _check(self, command: Command) -> None:
        match command.words:
            case ["minikafka", verb, *words] if verb in READY and "--user-entry" not in words:
                lifetime = None if verb in CLUSTERS else self._until_end_of_block
                given = (
                    word for word in words if word.strip() not in ("", "&")
                )  # a line may go on
                server = self.serve(verb, *given, lifetime=lifetime)
                until(lambda: self._has(server.output, command), "the output of the page", LIMIT_S)
            case _:
                output = self.run(command.text)
                assert self._has(output, command), f"not the output of the page: {output}"

    def _has(self, output: str, command: Command) -> bool:
        """Return whether the output has all lines that the page shows."""
        patterns = (
            ".*".join(map(re.escape, self.here(line).split("..."))) for line in command.output
        )
        return all(re.search(f"^{pattern}$", output, re.MULTILINE) for pattern in patterns)

    def run(self, text: str) -> str:
        """Run a command and return its output. Its variables are there for later commands. It has a
        terminal if it asks for a password."""
        names = " ".join(re.findall(r"^(?:export )?([A-Z_]+)=", text, re.MULTILINE))
        keep = f"declare -p {names} >> {VARIABLES}" if names else ":"
        script = f". ./{VARIABLES}\n{self.here(text)}\nstatus=$?\n{keep}\nexit $status\n"
        command = ["bash", "-o", "pipefail", "-c", script]
        if asks_for_a_password(text):
            return self._run_at_terminal(command)
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr or done.stdout}"
        return done.stdout

    def _run_at_terminal(self, command: list[str]) -> str:
        """Run a command at a pseudo terminal, and type the password when it asks for one."""
        outside, inside = pty.openpty()
        output = b""
        with subprocess.Popen(
            command,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            cwd=self.folder,
            env=self._environment,
            start_new_session=True,
        ) as process:
            os.close(inside)
            try:
                while select.select([outside], [], [], LIMIT_S)[0]:
                    output += os.read(outside, 4096)
                    if output.endswith(b": "):
                        os.write(outside, f"{PASSWORD}\n".encode())
            except OSError:
                pass  # the other end is closed
            finally:
                os.close(outside)
                process.kill()
        text = output.decode()
        assert process.returncode == 0, f"exit status {process.returncode}: {text}"
        return text

    def serve(self, verb: str, *words: str, lifetime: ExitStack | None = None) -> Server:
        """Start a server, or take the shared cluster, and return when it is ready. It runs until
        the end of ``lifetime``, or of the page."""
        if verb == "up" and parse(verb, words) == parse(verb, ()):
            server = self._shared()
        else:
            server = self.start(verb, *words)
            (lifetime or self._until_end_of_page).callback(server.stop)
            server.until_ready(READY[verb])
        return server

    def start(self, verb: str, *words: str) -> Server:
        """Start a server on free ports. The caller stops it."""
        row = dict(zip(IN_A_ROW, free_ports(len(IN_A_ROW)), strict=True))
        row[DEBUG_PORT] = row[9092] + DEBUG_PORT_OFFSET
        own = {number: row[number] for number in OWN_PORTS[verb]}
        self.ports.maps[verb in CLUSTERS].update(own)
        given = list(words)
        for option, number in OPTIONS.get(verb, {}).items():
            if option != "--zookeeper-port" or "--inside" not in words:
                given += [option, str(number)]
        if verb == "up" and "--registry" in given:
            given.insert(given.index("--registry") + 1, "8081")
        self._servers += 1
        log = self.folder / f".server-{self._servers}"
        line = self.here(shlex.join(["minikafka", verb, *given]))
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=self._environment,
            )
        return Server(process, log, own)
