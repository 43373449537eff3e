"""Settings of a Spark session that this data source needs or runs faster with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minikafka.spark.java import prepare_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    # Over TCP every Python task waits some 30 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}
LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    # On a local disk Hadoop starts a program for each change of a permission and each look for a
    # link, ten for a file of a checkpoint; in this way it does not look for links.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def local_session(
    name: str = "minikafka", master: str = "local[*]", settings: dict[str, str] | None = None
) -> SparkSession:
    """A session on this machine, with a Java that was found and this Python for the workers.

    Raises JavaError when there is no Java."""
    prepare_environment(master=master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**SETTINGS, **LOCAL_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session
