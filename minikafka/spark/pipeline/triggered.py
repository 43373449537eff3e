"""Triggered runs: ``spark-pipelines`` checks a pipeline or runs it once, in another process.

The user sees the events of the pipeline; every line of the process goes to a log file.

The run is over before the JVM's usual options pay, so it gets others.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

from minikafka.spark.class_archive import ClassArchive, class_archive
from minikafka.spark.failure_text import cause_of
from minikafka.spark.java import default_cache, prepare_environment
from minikafka.spark.pipeline.connect_server import SERVER_SETTINGS
from minikafka.spark.pipeline.engine import CatalogKind, Engine, static_settings
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.run_log import ShowLine
from minikafka.spark.pipeline.signals import stop_on_signals
from minikafka.spark.pipeline.spec import Spec

# Spark puts the first before the second on the command line of the JVM, where the last one wins.
DEFAULT_OPTIONS: Final = "spark.driver.defaultJavaOptions"
EXTRA_OPTIONS: Final = "spark.driver.extraJavaOptions"
COLLECTOR: Final = "-XX:+UseSerialGC"
# Java compiles a method when it was called so often, and a second time, optimized, which is where a
# third of the CPU time of a short run goes. Three times as often, and a hundred times, are still
# soon reached by what is done for each of many records.
COMPILER: Final = (
    "-XX:CompileThresholdScaling=3",
    "-XX:Tier4InvocationThreshold=160000",
    "-XX:Tier4MinInvocationThreshold=20000",
    "-XX:Tier4CompileThreshold=500000",
    "-XX:Tier4BackEdgeThreshold=1300000",
)
_CHOSEN_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC$")


def java_settings(
    engine: Engine, environ: Mapping[str, str], archive: ClassArchive | None
) -> dict[str, str]:
    """Return Spark's setting of the default options of the JVM of a run.

    They make the JVM start with less work. The user's options override them."""
    ours = [*_options(engine, environ), *(archive.java_options() if archive else ())]
    default = engine.spark.get(DEFAULT_OPTIONS, "")
    return {DEFAULT_OPTIONS: " ".join(filter(None, (*map(shlex.quote, ours), default)))}


def archive_of(
    engine: Engine, java_home: Path, spark_home: Path, environ: Mapping[str, str]
) -> ClassArchive | None:
    """Return the archive of classes for a run with these settings, None if there can be none.

    Raises OSError if its folder cannot be made."""
    if engine.remote or "spark.driver.extraClassPath" in engine.spark:
        return None
    memory = engine.spark.get("spark.driver.memory", "")  # pointers are larger in a large heap
    options = [f"-Xmx{memory}", *_options(engine, environ), *_users_options(engine, environ)]
    cache = default_cache(environ).with_name("classes")
    return class_archive(cache, java_home, spark_home, options, environ)


def _options(engine: Engine, environ: Mapping[str, str]) -> list[str]:
    """Return our options. A JVM refuses to have two garbage collectors: the user's has priority."""
    chosen = any(map(_CHOSEN_COLLECTOR.match, _users_options(engine, environ)))
    return [*([] if chosen else [COLLECTOR]), *COMPILER]


def _users_options(engine: Engine, environ: Mapping[str, str]) -> list[str]:
    given = [engine.spark.get(key, "") for key in (DEFAULT_OPTIONS, EXTRA_OPTIONS)]
    inherited = [environ.get(key, "") for key in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")]
    return [option for text in (*inherited, *given) for option in shlex.split(text)]


_EVENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: (.*)")
_SHOWN: Final = re.compile(
    r"Flow .* (?:is RUNNING|has COMPLETED|has FAILED|has STOPPED).*|Run is .*"
)
_COMPLETED: Final = re.compile(r"Flow '?(?P<flow>[^' ]+)'? has COMPLETED.*")
_RUN: Final = "Run is "
_FAILED: Final = re.compile(r"Flow '?(?P<flow>[^' ]+)'? has FAILED.*")
# What ends the JVM, before Python complains that it is gone.
_JVM_ENDED: Final = re.compile(r'Exception in thread "main" (?:[\w$]+\.)*(\w+: .+)')
_UNRESOLVED: Final = re.compile(
    r"Failed to resolve flow: '(?P<flow>[^']+)'\.\s+Error: (?P<error>.+)"
)
_LAST_LINES: Final = 500  # enough to hold the last traceback


def check(spec: Spec, engine: Engine, catalog: CatalogKind, log: Path, show: ShowLine) -> None:
    """Check the definitions of a pipeline, without running it.

    Raises PipelineError if they are invalid or if a signal stops the check; JavaError if there is
    no usable Java; OSError if the process cannot be started."""
    java_home = prepare_environment(master=engine.master)
    archive = archive_of(engine, java_home, _spark_home(), os.environ)
    if archive is not None and not archive.exists:
        archive = None  # a check uses fewer classes than a run
    _run_process(spec, engine, ["dry-run"], environment(spec, engine, catalog, archive), log, show)


def run_once(spec: Spec, engine: Engine, options: Sequence[str], log: Path, show: ShowLine) -> None:
    """Run a pipeline once: process all records that are new since the last run.

    ``options`` are those of ``spark-pipelines run``. Raises PipelineError if a flow fails or if a
    signal stops the run; JavaError if there is no usable Java; OSError if the process cannot be
    started."""
    java_home = prepare_environment(master=engine.master)
    archive = archive_of(engine, java_home, _spark_home(), os.environ)
    if archive is None or not archive.is_due():
        _run_process(spec, engine, ["run", *options], environment(spec, engine, "hive"), log, show)
        return
    if not archive.exists:
        show(f"This run takes longer: it writes {archive.path}, from which later ones start.")
    try:
        variables = environment(spec, engine, "hive", archive)
        _run_process(spec, engine, ["run", *options], variables, log, show)
        archive.keep()
    finally:
        archive.discard()


def _run_process(
    spec: Spec,
    engine: Engine,
    command: Sequence[str],
    variables: Mapping[str, str],
    log: Path,
    show: ShowLine,
) -> None:
    """Run a command of ``spark-pipelines`` in a process and wait for its end, and the JVM's."""
    if not engine.remote:
        engine.metastore_dir.mkdir(parents=True, exist_ok=True)
    with (
        log.open("ab", buffering=0) as log_file,  # users follow it while it grows
        subprocess.Popen(
            command_line(spec, engine, command),
            cwd=spec.folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
        stop_on_signals(lambda: _terminate(process)) as stop,
    ):
        assert process.stdout is not None, "Popen was called with a pipe"
        last_lines = log_and_show(process.stdout, log_file, show)
        status = process.wait()
    if stop.count:
        raise PipelineError("stopped before its end: the next run continues from there")
    if status:
        raise PipelineError(f"{failure_in(last_lines)} (log: {log})")


def command_line(spec: Spec, engine: Engine, command: Sequence[str]) -> list[str]:
    """Return the command line of PySpark's program for pipelines.

    The program runs together with a new Spark Connect server unless the engine names a server. With
    ``-P`` the processes do not search the project's folder for modules."""
    program = [sys.executable, "-P", "-m"]
    arguments = [*command, "--spec", str(spec.path)]
    if engine.remote:
        return [*program, "pyspark.pipelines.cli", *arguments]
    client = [*program, "minikafka.spark.pipeline.connect_client", *arguments]
    return [*program, "minikafka.spark.pipeline.connect_server", *client]


def environment(
    spec: Spec, engine: Engine, catalog: CatalogKind, archive: ClassArchive | None = None
) -> dict[str, str]:
    """Return the environment variables that name the Spark Connect server or configure a new one.

    Spark rejects static settings in a spec, so the server gets them at its start. Its JVM uses the
    archive of classes, or writes it."""
    if engine.remote:
        return {"SPARK_REMOTE": engine.remote}
    settings = {
        "spark.master": engine.master,
        "spark.app.name": spec.name,
        **static_settings(engine, catalog),
        **java_settings(engine, os.environ, archive),
        **SERVER_SETTINGS,
    }
    options = [each for key, value in settings.items() for each in ("--conf", f"{key}={value}")]
    return {
        "SPARK_HOME": str(_spark_home()),
        "PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"]),
    }


def log_and_show(lines: Iterable[bytes], log_file: BinaryIO, show: ShowLine) -> list[str]:
    """Write all lines to the log file and show the events of flows and of the run.

    Returns the last lines, which hold the failure if there is one.

    Spark 4.3 reports a streaming flow as COMPLETED as soon as its query ends, and only then as
    FAILED if an exception ended it. So COMPLETED is shown when the run ends, unless the flow has
    failed since."""
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    completed: dict[str, str] = {}
    for raw in lines:
        log_file.write(raw)
        line = raw.decode(errors="replace").rstrip()
        last_lines.append(line)
        event = _EVENT.fullmatch(line)
        if event is None or not _SHOWN.fullmatch(event[1]):
            continue
        text = event[1]
        if found := _COMPLETED.fullmatch(text):
            completed[found["flow"]] = text
            continue
        if failed := _FAILED.fullmatch(text):
            completed.pop(failed["flow"], None)
        elif text.startswith(_RUN):
            for held_back in completed.values():
                show(held_back)
            completed = {}
        show(text)
    for held_back in completed.values():
        show(held_back)
    log_file.flush()
    return list(last_lines)


def failure_in(last_lines: Sequence[str]) -> str:
    """Return the failure of a run in one line, found in its last lines."""
    in_java = [found[1] for line in last_lines if (found := _JVM_ENDED.fullmatch(line))]
    if in_java:
        return in_java[-1]
    unresolved = _UNRESOLVED.search("\n".join(last_lines))
    if unresolved is not None:
        return f"flow {unresolved['flow']}: {cause_of(unresolved['error'])}"
    flows = [found["flow"] for line in last_lines if (found := _FAILED.search(line))]
    prefix = f"flow {flows[-1]} failed: " if flows else ""
    return prefix + cause_of("\n".join(last_lines))


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None, "the verb has checked that PySpark is installed"
    assert found.origin is not None, found
    return Path(found.origin).parent


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the process group: the run, its JVM and Spark's Python workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
