"""The log file of a run, and Spark's errors that refer to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minikafka.spark.pipeline.failures import PipelineError, spark_errors_in_one_line
from minikafka.spark.pipeline.run_log import fresh_log, stderr_in


def test_a_spark_error_becomes_one_line_that_names_the_log(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException

    log = tmp_path / "run.log"
    for raised in (Py4JError("gone\n\tat x"), AnalysisException("gone\n\tat x")):
        with pytest.raises(PipelineError) as failure, spark_errors_in_one_line(log):
            raise raised
        assert str(failure.value) == f"gone (log: {log})"


def test_standard_error_goes_to_a_fresh_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = fresh_log(tmp_path / "logs" / "run.log")
    with stderr_in(log):
        os.write(2, b"noise\n")
    os.write(2, b"seen\n")
    assert capfd.readouterr().err == "seen\n"
    assert log.read_text() == "noise\n"
    assert fresh_log(log).read_text() == ""
    assert (tmp_path / "logs" / "run.log.1").read_text() == "noise\n"
