"""The job of ``spark_cluster``, which spark-submit starts. Prints its figures as a line of JSON."""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession

BATCHES = 5
ROUNDS = 2


def main() -> None:
    bootstrap, source, target, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    brokers = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.read.format("minikafka").options(**brokers, subscribe=source).load()
    count = rows.count()
    rate = 0.0
    for _ in range(ROUNDS):
        began = time.monotonic()
        rows.write.format("noop").mode("overwrite").save()
        rate = max(rate, count / (time.monotonic() - began) / 1000)
    stream = spark.readStream.format("minikafka").options(**brokers, subscribe=source)
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(count // BATCHES)}
    copied = stream.options(**limits).load().select("key", "value")
    writer = copied.writeStream.format("minikafka").options(**brokers, topic=target)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    warm = [each for each in query.recentProgress if each["numInputRows"]][1:]
    written = sum(each["numInputRows"] for each in warm)
    took_ms = sum(each["durationMs"]["triggerExecution"] for each in warm)
    found = {"batch to noop": rate, "topic to topic exactly once": written / took_ms}
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
