"""Batch reads and writes of the data source, beside librdkafka's view of the same topics."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.spark.kafka_side import consume, consume_by_kafka_python, produce, spark_rows
from tests.support.clients.places import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def read(spark: Any, cluster: Cluster, **options: Any) -> Any:
    names = {"kafka.bootstrap.servers": cluster.bootstrap, **options}
    return spark.read.format("minikafka").options(**names).load()


def odd_messages(seed: int, count: int = 150) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    return [
        {
            "key": dice.choice([None, b"", b"key-%d" % number]),
            "value": dice.choice([None, b"", dice.randbytes(dice.choice([5, 90, 5000]))]),
            "headers": dice.choice([None, [("h", b"1"), ("h", None)]]),
            "partition": number % 3,
        }
        for number in range(count)
    ]


def write_transactions(cluster: Cluster, topic: str, codec: str) -> None:
    """Some committed, some aborted, and plain records between them."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": f"tx-{topic}",
            "compression.type": codec,
        }
    )
    producer.init_transactions(60)
    for number in range(4):
        producer.begin_transaction()
        for message in odd_messages(number, 30):
            producer.produce(topic, **message)
        producer.flush(60)
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


@pytest.mark.mission("SPK-1")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_equal_to_librdkafka(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str], codec: str
) -> None:
    topic = make_topic(3)
    produce(cluster.bootstrap, topic, odd_messages(1), compression_type=codec, linger_ms=20)
    write_transactions(cluster, topic, codec)
    produce(cluster.bootstrap, topic, odd_messages(2), compression_type=codec, linger_ms=20)
    for isolation in ("read_uncommitted", "read_committed"):
        frame = read(
            spark,
            cluster,
            **{
                "subscribe": topic,
                "includeHeaders": "true",
                "kafka.isolation.level": isolation,
                "minPartitions": "7",
            },
        )
        theirs = consume(cluster.bootstrap, topic, 3, isolation)
        assert spark_rows(frame) == theirs
    assert len(theirs) == 360


@pytest.mark.mission("SPK-1")
def test_the_columns_are_those_of_the_official_connector(
    spark: Any, cluster: Cluster, topic: str
) -> None:
    plain = read(spark, cluster, subscribe=topic)
    assert plain.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert plain.collect() == []
    with_headers = read(spark, cluster, subscribe=topic, includeHeaders="true")
    assert with_headers.dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")


def test_a_part_of_the_columns_a_range_and_sql(spark: Any, cluster: Cluster, topic: str) -> None:
    values = [{"value": b"%d" % number, "partition": 0} for number in range(20)]
    produce(cluster.bootstrap, topic, values)
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "assign": f'{{"{topic}":[0]}}',
        "startingOffsets": f'{{"{topic}":{{"0":3}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":7}}}}',
    }
    frame = (
        spark.read.format("minikafka")
        .schema("offset bigint, value binary")
        .options(**options)
        .load()
    )
    assert [(r.offset, bytes(r.value)) for r in frame.collect()] == [
        (number, b"%d" % number) for number in range(3, 7)
    ]
    view = f"v_{topic.replace('-', '_')}"
    spark.sql(
        f"CREATE TEMPORARY VIEW {view} USING minikafka OPTIONS("
        f"'kafka.bootstrap.servers' '{cluster.bootstrap}', subscribePattern '{topic[:8]}.*')"
    )
    (row,) = spark.sql(f"SELECT count(*) AS n, max(topic) AS topic FROM {view}").collect()
    assert (row.n, row.topic) == (20, topic)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "One of the following options must be specified"),
        ({"subscribe": "no-such-topic"}, "topic no-such-topic: does not exist"),
        ({"subscribe": "t", "minPartitions": "none"}, "minPartitions must be a number"),
        (
            {"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1",
             "kafka.default.api.timeout.ms": "100"},
            "127.0.0.1:1",
        ),
        ({"subscribe": "t", "startingOffsets": "latest"}, "can't be latest for batch"),
        (
            {"subscribe": "t", "kafka.max.poll.recrds": "5"},
            "'kafka.max.poll.recrds': did you mean 'kafka.max.poll.records'",
        ),
    ],
)  # fmt: skip
def test_wrong_options_are_one_clear_error(
    spark: Any, cluster: Cluster, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(Exception, match=complaint):
        read(spark, cluster, **options).count()


@pytest.mark.mission("SPK-1")
def test_a_start_beyond_the_end_is_refused(spark: Any, cluster: Cluster, topic: str) -> None:
    """It would skip the partition."""
    produce(cluster.bootstrap, topic, [{"value": b"x", "partition": 0} for _ in range(3)])
    options = {
        "subscribe": topic,
        "startingOffsets": f'{{"{topic}":{{"0":4,"1":0,"2":0}}}}',
    }
    complaint = f"{topic}-0: start offset 4 is greater than end offset 3"
    with pytest.raises(Exception, match=complaint):
        read(spark, cluster, failOnDataLoss="false", **options).count()


@pytest.mark.mission("SPK-1")
def test_records_that_are_gone(spark: Any, cluster: Cluster, topic: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    produce(cluster.bootstrap, topic, [{"value": b"x", "partition": 0} for _ in range(10)])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        future.result(60)
    options = {
        "assign": f'{{"{topic}":[0]}}',
        "startingOffsets": f'{{"{topic}":{{"0":1}}}}',
    }
    with pytest.raises(Exception, match="offsets 1 to 3 are gone"):
        read(spark, cluster, **options).count()
    assert read(spark, cluster, failOnDataLoss="false", **options).count() == 6


@pytest.mark.mission("SPK-1")
def test_starting_and_ending_timestamps(spark: Any, cluster: Cluster, topic: str) -> None:
    produce(
        cluster.bootstrap,
        topic,
        [{"value": b"%d" % n, "partition": 0, "timestamp": 1000 * (n + 1)} for n in range(10)],
    )
    assign = {"assign": f'{{"{topic}":[0]}}'}
    frame = read(spark, cluster, startingTimestamp="3000", endingTimestamp="6000", **assign)
    assert sorted(bytes(row.value) for row in frame.collect()) == [b"2", b"3", b"4"]
    with pytest.raises(Exception, match="no record with timestamp 99000 or later"):
        read(spark, cluster, startingTimestamp="99000", **assign).count()
    late = {"startingOffsetsByTimestampStrategy": "latest", **assign}
    assert read(spark, cluster, startingTimestamp="99000", **late).count() == 0


@pytest.mark.mission("SPK-1")
def test_filters_become_ranges(spark: Any, cluster: Cluster, topic: str) -> None:
    values = [{"value": b"%d" % n, "partition": n % 3} for n in range(60)]
    produce(cluster.bootstrap, topic, values)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, cluster, subscribe=topic, pushdown="true").where(
            "offset >= 5 and offset < 9 and partition = 1"
        )
        assert frame.rdd.getNumPartitions() == 1
        assert sorted(int(row.value) for row in frame.collect()) == [16, 19, 22, 25]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@pytest.mark.mission("SPK-3", "IN-97")
def test_written_rows_are_read_back_by_two_clients(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    from confluent_kafka import Producer

    topic, other = make_topic(3), make_topic(3)
    frame = spark.range(2000).selectExpr(
        "if(id % 10 = 0, null, concat('k', id % 97)) AS key",
        "if(id % 50 = 1, null, cast(id AS string)) AS value",
        f"if(id % 4 = 0, '{other}', '{topic}') AS topic",
        "if(id % 5 = 0, cast(id % 3 AS int), null) AS partition",
        "if(id % 7 = 0, array(struct('h' AS key, cast('x' AS binary) AS value)), null) AS headers",
    )
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "kafka.compression.type": "lz4"}
    frame.write.format("minikafka").mode("append").options(**options).save()
    rows: list[tuple[Any, ...]] = []
    for name in (topic, other):
        found = consume(cluster.bootstrap, name, 3, "read_committed")
        assert found == consume_by_kafka_python(cluster.bootstrap, name, 3, "read_committed")
        rows += [(name, *row) for row in found]

    def expected(row: Any) -> tuple[Any, ...]:
        headers = row.headers and [(h.key, bytes(h.value)) for h in row.headers]
        return (
            row.topic,
            row.key and row.key.encode(),
            row.value and row.value.encode(),
            headers,
        )

    def order(row: tuple[Any, ...]) -> str:
        return repr(row)

    assert sorted([(r[0], r[4], r[5], r[6]) for r in rows], key=order) == sorted(
        [expected(row) for row in frame.collect()], key=order
    )
    given = {row.value.encode(): row.partition for row in frame.collect()
             if row.partition is not None and row.value is not None}  # fmt: skip
    assert all(given.get(row[5], row[1]) == row[1] for row in rows)
    # Keys go where Java's producer sends them, and librdkafka's with the same hash.
    third = make_topic(3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2"})
    for number in range(97):
        producer.produce(third, key=b"k%d" % number, value=b"")
    producer.flush(60)
    of_theirs = {r[3]: r[0] for r in consume(cluster.bootstrap, third, 3, "read_committed")}
    for row in rows:
        if row[4] is not None and row[5] is not None and row[5] not in given:
            assert row[1] == of_theirs[row[4]]


@pytest.mark.mission("SPK-3")
@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        (["'x' AS value"], {}, "topic option required"),
        (["'x' AS key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["1 AS value"], {"topic": "t"}, "value attribute unsupported type int"),
        (["'x' AS value"], {"topic": "no-such-topic"}, "topic no-such-topic: does not exist"),
        (["'x' AS value", "7 AS partition"], {"topic": "T"}, "partition 7 of topic"),
        (["'x' AS value"], {"topic": "t", "delivery": "maybe"}, "delivery must be"),
        (["repeat('x', 2000000) AS value"], {"topic": "T"}, "kafka.max.request.size"),
    ],
)
def test_invalid_writes_are_refused(
    spark: Any,
    cluster: Cluster,
    topic: str,
    columns: list[str],
    options: dict[str, str],
    complaint: str,
) -> None:
    named = {name: topic if value == "T" else value for name, value in options.items()}
    frame = spark.range(1).selectExpr(*columns)
    with pytest.raises(Exception, match=complaint):
        frame.write.format("minikafka").mode("append").options(
            **{"kafka.bootstrap.servers": cluster.bootstrap, **named}
        ).save()


def test_overwriting_a_topic_is_refused(spark: Any, cluster: Cluster, topic: str) -> None:
    frame = spark.range(1).selectExpr("'x' AS value")
    with pytest.raises(Exception, match="overwrite is not allowed"):
        frame.write.format("minikafka").mode("overwrite").options(
            **{"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
        ).save()


@pytest.mark.mission("SPK-1")
def test_a_timestamp_beyond_sparks_range_is_null_if_the_user_says_so(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    from pyspark.errors import PythonException

    topic = make_topic(1)
    times = [1_700_000_000_000, 1_700_000_000_000_000_000]
    produce(cluster.bootstrap, topic, [{"value": b"x", "timestamp": each} for each in times])
    text = "cast(timestamp AS string)"
    with pytest.raises(PythonException, match=r'at offset 1: .* option "failOnTimestampOverflow"'):
        read(spark, cluster, subscribe=topic).selectExpr(text).collect()
    mild = read(spark, cluster, subscribe=topic, failOnTimestampOverflow="false")
    rows = mild.orderBy("offset").selectExpr(text).collect()
    assert [each[0] for each in rows] == ["2023-11-14 22:13:20", None]
