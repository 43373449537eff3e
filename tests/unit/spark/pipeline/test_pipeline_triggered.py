"""The output of a triggered run: the lines shown, the lines logged, and the failure in one line."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("pyspark")

from minikafka.spark.pipeline.triggered import failure_in, log_and_show

FAILED = """\
[STREAM_FAILED] Query [id = 2] terminated with exception: Traceback (most recent call last):
  File "/x/cluster.py", line 189, in partitions
    raise KafkaError(code, f"topic {name}: {_reason(code)}")
minikafka.kernel.errors.KafkaError: UNKNOWN_TOPIC_OR_PARTITION: topic t: does not exist
"""


def test_all_lines_are_logged_and_events_are_shown() -> None:
    out = io.BytesIO()
    shown: list[str] = []
    lines = [
        b"26/11/21 20:12:10 WARN HiveConf: noise\n",
        b"2026-11-21 20:12:10: Loading definitions.\n",
        b"2026-11-21 20:12:16: Flow to_out is RUNNING.\n",
        b"2026-11-21 20:12:16: Flow 'to_out' has FAILED.\n",
        *(line.encode() + b"\n" for line in FAILED.splitlines()),
    ]
    last = log_and_show(lines, out, shown.append)
    assert out.getvalue() == b"".join(lines)
    assert shown == ["Flow to_out is RUNNING.", "Flow 'to_out' has FAILED."]
    assert failure_in(last).startswith("flow to_out failed: KafkaError: UNKNOWN_TOPIC")
    assert failure_in(["no Java"]) == "no Java"
    unresolved = [
        "12: Failed to resolve flow: 'a.b.totals'.",
        "Error: [NO_COLUMN] x SQLSTATE: 42703",
        *last,
    ]
    assert failure_in(unresolved) == "flow a.b.totals: [NO_COLUMN] x"


@pytest.mark.mission("SPO-4")
def test_a_jvm_that_does_not_start_says_why() -> None:
    lines = [
        'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn',
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1128)",
        "Traceback (most recent call last):",
        '  File "/x/java_gateway.py", line 1, in launch_gateway',
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] gone",
    ]
    assert failure_in(lines) == "SparkException: Master must either be yarn"
    assert failure_in(lines[2:]) == "PySparkRuntimeError: [JAVA_GATEWAY_EXITED] gone"


def test_a_failed_flow_is_not_shown_as_completed() -> None:
    """Spark reports both for a flow whose query ends with an exception."""
    texts = [
        "Flow spark_catalog.shop.a is RUNNING.",
        "Flow spark_catalog.shop.b is RUNNING.",
        "Flow spark_catalog.shop.a has COMPLETED.",
        "Flow spark_catalog.shop.b has COMPLETED.",
        "Flow 'spark_catalog.shop.a' has FAILED.",
        "Flow spark_catalog.shop.a is RUNNING.",
        "Flow spark_catalog.shop.a has COMPLETED.",
        "Flow 'spark_catalog.shop.a' has FAILED more than 2 times and will not be restarted.",
        "Run is FAILED.",
    ]
    shown: list[str] = []
    log_and_show(
        [f"2026-11-21 20:12:16: {text}\n".encode() for text in texts], io.BytesIO(), shown.append
    )
    assert [text for text in shown if ".a" in text] == [
        text for text in texts if ".a" in text and "COMPLETED" not in text
    ]
    assert shown[-2:] == ["Flow spark_catalog.shop.b has COMPLETED.", "Run is FAILED."]
