"""Spark sessions with the settings that make this data source fast."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

from minikafka.kernel.extras import require
from minikafka.spark.java import prepare_environment
from minikafka.spark.starting import fill_shared_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    # Over TCP each Python task waits about 30 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Options in SQL (USING minikafka OPTIONS ...) are in plans and in the UI. Spark redacts those
    # with a password or a token in their names or values, but not a private key in PEM.
    "spark.sql.redaction.options.regex": "(?i)url|jaas|keystore[.]key|private key",
}
LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    # Spark's default manager lets Hadoop check for symbolic links, for which Hadoop starts a
    # program: about ten for each checkpoint file. This manager does not check for links.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def local_session(
    name: str = "minikafka", master: str = "local[*]", settings: dict[str, str] | None = None
) -> SparkSession:
    """Get or create a session whose driver runs on this machine, with a suitable Java runtime.

    ``settings`` are Spark's and override the defaults of this module. Raises JavaError if there is
    no Java 17 or newer, MissingExtraError without PySpark."""
    if not all(map(importlib.util.find_spec, ("pyspark", "pyarrow"))):
        require("spark", "local_session")
    prepare_environment(master=master)
    given = settings or {}
    from pyspark.sql import SparkSession

    from minikafka.spark.spark_api import settings_of_version

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**SETTINGS, **LOCAL_SETTINGS, **settings_of_version(), **given}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    fill_shared_environment(session)
    return session
