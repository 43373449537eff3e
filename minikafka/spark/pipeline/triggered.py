"""Runs or checks a pipeline once, by spark-pipelines: its events are shown, its noise is kept."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

from minikafka.spark.failure_text import cause_of
from minikafka.spark.java import prepare_environment
from minikafka.spark.pipeline.engine import Engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.settings import static_settings
from minikafka.spark.pipeline.signals import asked_to_stop
from minikafka.spark.pipeline.spec import Spec

_EVENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: (.*)")
_SHOWN: Final = re.compile(
    r"Flow .* (?:is RUNNING|has COMPLETED|has FAILED|has STOPPED).*|Run is .*"
)
_COMPLETED: Final = re.compile(r"Flow '?(?P<flow>[^' ]+)'? has COMPLETED.*")
_RUN: Final = "Run is "
_FAILED: Final = re.compile(r"Flow '?(?P<flow>[^' ]+)'? has FAILED.*")
_UNRESOLVED: Final = re.compile(
    r"Failed to resolve flow: '(?P<flow>[^']+)'\.\s+Error: (?P<said>.+)"
)
_CONNECT_PORT: Final = 15002  # of the server that PySpark starts for a local run: it knows no other
_LAST_WORDS: Final = 500  # lines: they hold the last traceback

Show = Callable[[str], object]


def run_once(
    spec: Spec,
    engine: Engine,
    deed: Sequence[str],
    log: Path,
    show: Show,
    keeps_tables: bool = True,
) -> None:
    """``deed``: ``run`` or ``dry-run``, and options of spark-pipelines. Raises PipelineError if it
    fails or is ended by a signal; JavaError, OSError."""
    prepare_environment(master=engine.master)
    if not engine.remote:
        _check_port()
        engine.metastore_dir.mkdir(parents=True, exist_ok=True)
    with (
        log.open("ab") as noise,
        subprocess.Popen(
            command_line(spec, engine, deed),
            cwd=spec.folder,
            env={**os.environ, **environment(spec, engine, keeps_tables)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
        asked_to_stop(lambda: _end(process)) as asked,
    ):
        assert process.stdout is not None, "a pipe was asked for"
        last = sift(process.stdout, noise, show)
        status = process.wait()
    if asked.count:
        raise PipelineError("stopped before its end: the next run goes on from there")
    if status:
        raise PipelineError(f"{failure_in(last)} (log: {log})")


def command_line(spec: Spec, engine: Engine, deed: Sequence[str]) -> list[str]:
    program = str(_spark_home() / "bin" / "spark-pipelines")
    return [program, "--remote", engine.remote or engine.master, *deed, "--spec", str(spec.path)]


def environment(spec: Spec, engine: Engine, keeps_tables: bool) -> dict[str, str]:
    """Static settings are refused in a spec, and of ``--conf`` PySpark 4.3 hands only the last ten
    or so on to the server that it starts: that server is told here."""
    words = []
    for key, value in static_settings(engine, keeps_tables).items():
        words += ["--conf", f"{key}={value}"]
    return {
        "SPARK_HOME": str(_spark_home()),
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
    }


def sift(lines: Iterable[bytes], noise: BinaryIO, show: Show) -> list[str]:
    """Write all lines to ``noise`` and give the user's events to ``show``. Returns the last lines,
    which hold the failure if there is one.

    Spark 4.3 reports a streaming flow as COMPLETED as soon as its query ends, and only then as
    FAILED if it ended by an exception. So COMPLETED is shown when the run ends, unless the flow has
    failed since."""
    last: deque[str] = deque(maxlen=_LAST_WORDS)
    completed: dict[str, str] = {}
    for raw in lines:
        noise.write(raw)
        line = raw.decode(errors="replace").rstrip()
        last.append(line)
        event = _EVENT.fullmatch(line)
        if event is None or not _SHOWN.fullmatch(event[1]):
            continue
        text = event[1]
        if done := _COMPLETED.fullmatch(text):
            completed[done["flow"]] = text
            continue
        if failed := _FAILED.fullmatch(text):
            completed.pop(failed["flow"], None)
        elif text.startswith(_RUN):
            _show_all(completed, show)
        show(text)
    _show_all(completed, show)
    noise.flush()
    return list(last)


def _show_all(lines: dict[str, str], show: Show) -> None:
    for line in lines.values():
        show(line)
    lines.clear()


def failure_in(last: Sequence[str]) -> str:
    """One line out of the last ones of a run that failed."""
    unresolved = _UNRESOLVED.search("\n".join(last))
    if unresolved is not None:
        return f"flow {unresolved['flow']}: {cause_of(unresolved['said'])}"
    flows = [found["flow"] for line in last if (found := _FAILED.search(line))]
    where = f"flow {flows[-1]} failed: " if flows else ""
    return where + cause_of("\n".join(last))


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None, "looked for before"
    assert found.origin is not None, found
    return Path(found.origin).parent


def _check_port() -> None:
    """Another run's server would be taken for ours, and refuse. Raises PipelineError."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _CONNECT_PORT))
        except OSError:
            raise PipelineError(
                f"port {_CONNECT_PORT} is in use, by another check or run? With --continuous, or "
                "with remote=sc://... in config/spark.properties, it is not needed"
            ) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Of the shell, the JVM and the Python in it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
