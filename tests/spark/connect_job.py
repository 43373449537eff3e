"""A client of Spark Connect, without a JVM: SQL over a topic, and a stream to another."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    url, bootstrap, source, target, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.remote(url).getOrCreate()
    spark.sql(
        "CREATE TEMPORARY VIEW arrived USING minikafka OPTIONS "
        f"('kafka.bootstrap.servers' '{bootstrap}', subscribe '{source}')"
    )
    counted = spark.sql("SELECT count(DISTINCT partition, offset) FROM arrived").first()
    query = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("minikafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert counted is not None
    sys.stdout.write(f"counted {counted[0]}\n")


if __name__ == "__main__":
    main()
