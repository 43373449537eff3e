"""One line out of what Spark says of a failure."""

from __future__ import annotations

import pytest

from minikafka.spark.failure_text import cause_of

pytestmark = pytest.mark.mission("SPK-2")

FAILED = """\
[STREAM_FAILED] Query [id = 2] terminated with exception: Traceback (most recent call last):
  File "/x/cluster.py", line 189, in partitions
    raise KafkaError(code, f"topic {name}: {_reason(code)}")
minikafka.kernel.errors.KafkaError: UNKNOWN_TOPIC_OR_PARTITION: topic t: does not exist
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
"""


def test_the_cause_is_one_line() -> None:
    assert cause_of(FAILED) == "KafkaError: UNKNOWN_TOPIC_OR_PARTITION: topic t: does not exist"
    text = "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found. SQLSTATE: 42P01; line 1\nmore"
    assert cause_of(text) == "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.; line 1"
    assert cause_of(KeyError()) == "KeyError"
    text = (
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat org.apache"
    )
    assert cause_of(text) == "SparkException: Could not parse Master URL: 'x'"


OURS_THEN_FOREIGN = """\
org.apache.spark.sql.AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data \
source initialize source: Traceback (most recent call last):
  File "/x/option_names.py", line 69, in check_option_names
    raise OptionError(f"unknown {what} '{name}'{hint}")
minikafka.spark.option_parsing.OptionError: unknown option 'x': did you mean 'path'?

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/python_streaming_source_runner.py", line 295, in main
    reader.stop()
    ^^^^^^
UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
 SQLSTATE: 38000
\tat org.apache.spark.sql.errors.QueryCompilationErrors$.pythonDataSourceError(Query.scala:2576)
"""
OF_THE_USER = """\
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback \
(most recent call last):
  File "/x/job.py", line 30, in save
    raise {raised}

{raised}

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


def test_the_last_of_our_exceptions_is_the_cause() -> None:
    """Spark's data source of Python raises another one when ours ends it."""
    assert cause_of(OURS_THEN_FOREIGN) == "OptionError: unknown option 'x': did you mean 'path'?"
    twice = FAILED.replace(" SQLSTATE", OURS_THEN_FOREIGN + " SQLSTATE", 1)
    assert cause_of(twice).startswith("OptionError: ")


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        ("ValueError: the user's own: text", "ValueError: the user's own: text"),
        ("__main__.NotReady: the table is locked", "NotReady: the table is locked"),
        ("AssertionError", "AssertionError"),
    ],
)
def test_an_exception_of_the_users_code_may_have_any_name(raised: str, cause: str) -> None:
    assert cause_of(OF_THE_USER.format(raised=raised)) == cause
