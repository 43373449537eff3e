"""A streaming job that kills itself, JVM and workers, once the query has written down a batch."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from minikafka.spark.session import local_session


def watch(mark: Path) -> None:
    """A little after the batch is planned, so that its tasks are writing."""
    while not mark.exists():
        threading.Event().wait(0.002)
    threading.Event().wait(int.from_bytes(os.urandom(1), "big") / 1000)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    bootstrap, source, target, checkpoint, kill_at = sys.argv[1:]
    session = local_session(
        "copy", "local[2]", {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    )
    if kill_at:
        mark = Path(checkpoint) / kill_at
        threading.Thread(target=watch, args=(mark,), daemon=True).start()
    frame = (
        session.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "1000")
        .load()
    )
    query = (
        frame.select("key", "value")
        .writeStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    session.stop()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
