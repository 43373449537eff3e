"""Check a pipeline or run it once, in a process whose events are shown and other lines logged."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

from minikafka.spark.failure_text import cause_of
from minikafka.spark.java import prepare_environment
from minikafka.spark.pipeline.connect_server import SERVER_SETTINGS
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
    """Check or run the pipeline in a process and wait for its end.

    ``deed`` is ``run`` or ``dry-run`` with options of ``pyspark.pipelines.cli``. ``show`` is called
    with each event that the user should see, ``log`` receives every line.

    Raises PipelineError if the run fails or is ended by a signal; JavaError, OSError."""
    prepare_environment(master=engine.master)
    if not engine.remote:
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
    """PySpark's command for pipelines, beside a server of its own unless the engine names one. The
    processes do not search the project's folder for modules (``-P``)."""
    program = [sys.executable, "-P", "-m"]
    command = [*program, "pyspark.pipelines.cli", *deed, "--spec", str(spec.path)]
    if engine.remote:
        return command
    return [*program, "minikafka.spark.pipeline.connect_server", *command]


def environment(spec: Spec, engine: Engine, keeps_tables: bool) -> dict[str, str]:
    """The variables which tell the process where Spark is, or with which settings to start it.

    Spark refuses static settings in a spec, so the server is given them at its start."""
    if engine.remote:
        return {"SPARK_REMOTE": engine.remote}
    settings = {
        "spark.master": engine.master,
        "spark.app.name": spec.name,
        **static_settings(engine, keeps_tables),
        **SERVER_SETTINGS,
    }
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the process group: the run, its JVM and Spark's Python workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
