"""Topic to topic by the data source that is named, and all of a topic by both, compared."""

from __future__ import annotations

import sys
from typing import Any

from minikafka.spark.session import local_session
from tests.spark.kafka_side import spark_rows


def read(spark: Any, kind: str, bootstrap: str, source: str) -> list[tuple[Any, ...]]:
    options = {"subscribe": source, "includeHeaders": "true", "minPartitions": "7",
               "kafka.isolation.level": "read_committed"}  # fmt: skip
    frame = spark.read.format(kind).option("kafka.bootstrap.servers", bootstrap)
    return spark_rows(frame.options(**options).load())


def main() -> None:
    kind, jars, bootstrap, source, target, checkpoint = sys.argv[1:]
    spark = local_session(
        "official",
        "local[2]",
        {"spark.jars": jars, "spark.ui.enabled": "false", "spark.log.level": "ERROR"},
    )
    frame = (
        spark.readStream.format(kind)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "100")
        .load()
    )
    query = (
        frame.select("key", "value")
        .writeStream.format(kind)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if kind == "kafka":
        assert read(spark, "kafka", bootstrap, source) == read(
            spark, "minikafka", bootstrap, source
        )
    spark.stop()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
