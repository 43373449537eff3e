"""What a user submits to a Spark cluster: a batch of a topic, counted, and a stream to another."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def slowly(busy: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Gives all on, takes its time, and tells which process is at it."""

    def give_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            written = Path(f"{busy}.{os.getpid()}")
            written.write_text(str(os.getpid()))
            written.rename(busy)
            threading.Event().wait(0.3)
            yield batch

    return give_on


def main() -> None:
    bootstrap, source, target, backfill, checkpoint, busy = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    brokers = {"kafka.bootstrap.servers": bootstrap}
    everything = spark.read.format("minikafka").options(**brokers, subscribe=source).load()
    (
        everything.select("key", "value")
        .write.format("minikafka")
        .options(**brokers, topic=backfill)
        .option("sink.id", backfill)
        .mode("append")
        .save()
    )
    query = (
        spark.readStream.format("minikafka")
        .options(**brokers, subscribe=source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "5000")
        .load()
        .select("key", "value")
        .mapInArrow(slowly(busy), "key binary, value binary")
        .writeStream.format("minikafka")
        .options(**brokers, topic=target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
