"""Check what each extra of pyproject.toml brings, in an environment with only some of them.

Usage: python -m scripts.lib.extras_check [EXTRA ...]

What the extras bring must work, and what the others would bring must say in one line how to get
it. CI runs this in environments that have one extra each; it needs no extra itself.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minikafka.kernel.extras import EXTRAS, missing_modules
from minikafka.kernel.own_command import own_command

WITHIN_S: Final = 600.0
UNREACHABLE: Final = ("--bootstrap-server", "127.0.0.1:1")
INSIDE: Final = ("up", "--inside", "--brokers", "1", "--base-port", "{port}")

ARROW: Final = """
import asyncio
from minikafka.aio import Consumer, Producer
from minikafka.testing import running

def table():
    try:
        import pyarrow as pa
    except ImportError:
        return None
    return pa.table({"value": pa.array([b"1"], pa.binary())})

async def pass_on(bootstrap):
    async with Producer(bootstrap) as producer:
        await producer.send_arrow("t", table())
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign_topics("t")
        return (await consumer.poll_arrow(timeout_ms=60_000))["value"].to_pylist()

with running(brokers=1) as cluster:
    cluster.create_topic("t")
    assert asyncio.run(pass_on(cluster.bootstrap)) == [b"1"]
"""
SPARK: Final = """
from minikafka.spark.session import local_session
session = local_session(master="local[1]")
assert session.range(3).count() == 3
session.stop()
"""
KERBEROS: Final = """
from minikafka.world.real.kerberos import RealKerberos
RealKerberos().require()
"""


@dataclass(frozen=True)
class Use:
    """Something that an extra is for: a verb, or a program that ``python -c`` runs.

    ``{port}`` stands for a free port. With ``ready`` it runs until it has printed that and then
    gets a SIGTERM. With ``error`` it fails with this message although the extra is installed."""

    verb: Sequence[str] = ()
    program: str = ""
    ready: str = ""
    error: str = ""

    @property
    def command(self) -> list[str]:
        return own_command(*self.verb) if self.verb else [sys.executable, "-c", self.program]


def imports(*names: str) -> list[Use]:
    """Return a use for each module that documents tell users to import."""
    return [Use(program=f"import {name}") for name in names]


USES: Final[Mapping[str, Sequence[Use]]] = {
    "java": [Use(["zookeeper", "--check"])],
    "spark": [
        Use(["pipeline", "init", "shop"]),
        Use(program=SPARK),
        *imports("minikafka.spark.progress", "minikafka.spark.formats"),
    ],
    "arrow": [Use(program=ARROW)],
    "ui": [
        Use(["ui", *UNREACHABLE, "--port", "{port}"], ready=r"http://"),
        Use(["learn", "--port", "{port}"], ready=r"http://"),
    ],
    "registry": [
        Use(["registry", *UNREACHABLE, "--port", "0"], error="cannot connect"),
        Use([*INSIDE, "--registry", "0"], ready=r"ready .*registry="),
    ],
    "mcp": [Use(["mcp", *UNREACHABLE])],
    "gssapi": [Use(program=KERBEROS)],
}
# Where two extras bring the same packages, the one has what the other is for.
CONTAINS: Final[Mapping[str, Sequence[str]]] = {"spark": ["java", "arrow"], "registry": ["ui"]}


def check(extras: Iterable[str]) -> list[str]:
    """Try every use with these extras installed; return what is wrong, a line each."""
    there = {part for extra in extras for part in (extra, *CONTAINS.get(extra, ()))}
    problems = []
    for extra, uses in USES.items():
        for use in uses:
            status, out, err = run(use)
            if extra in there:
                wrong = use.error not in err if use.error else status != 0
            elif status == 0:
                # Another extra has brought what this use needs, such as the pyspark of ``java``.
                wrong = missing_modules(extra) == list(EXTRAS[extra]) or "Traceback" in err
            else:
                wrong = not says_what_is_missing(extra, err)
            if wrong:
                state = "installed" if extra in there else "missing"
                what = " ".join(use.verb) or use.program.strip()
                problems.append(f"extra {extra} ({state}): {what}: status {status}: {out}{err}")
    return problems


def says_what_is_missing(extra: str, err: str) -> bool:
    """Whether the last line names the extra, and packages of it that pip can install."""
    lines = err.splitlines() or [""]
    is_one_line = len(lines) == 1 or lines[0] == "Traceback (most recent call last):"
    found = re.search(rf"needs the extra {extra}: pip install (('[^']+' ?)+)", lines[-1])
    named = set(re.findall("'([^']+)'", found[1])) if found else set()
    return is_one_line and bool(named) and named <= set(EXTRAS[extra].values())


def run(use: Use) -> tuple[int, str, str]:
    """Run a use in an empty folder; return its exit status and what it printed."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
        free.close()
        command = [word.replace("{port}", port) for word in use.command]
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = ""
        if use.ready:
            assert process.stdout is not None
            for line in process.stdout:
                first += line
                if re.search(use.ready, line):
                    process.send_signal(signal.SIGTERM)
                    break
        try:
            out, err = process.communicate(timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"it did not end within {WITHIN_S} s"
        return process.returncode, first + out, err


if __name__ == "__main__":
    found = check(sys.argv[1:])
    print("\n".join(found) or f"extras {' '.join(sys.argv[1:]) or '(none)'}: ok")
    sys.exit(1 if found else 0)
