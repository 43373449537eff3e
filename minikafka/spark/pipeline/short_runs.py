"""The options of the JVM of a triggered run, which is over before the JVM's usual ones pay."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from minikafka.spark.class_archive import ClassArchive, class_archive
from minikafka.spark.java import default_cache
from minikafka.spark.pipeline.engine import Engine

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
