"""The locks that keep two runs, or two replays with one sink id, from running at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.run_lock import is_running, only_replay, only_run


def test_one_process_runs_a_pipeline_at_a_time(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert not is_running(state)
    with only_run(state):
        assert is_running(state)
        with only_replay(state, "may"):
            pass
        with pytest.raises(PipelineError, match="another run"), only_run(state):
            pass
    assert not is_running(state)


def test_one_process_replays_a_sink_id_at_a_time(tmp_path: Path) -> None:
    with only_replay(tmp_path, "may"):
        with only_replay(tmp_path, "june"):
            pass
        with (
            pytest.raises(PipelineError, match="another replay of may"),
            only_replay(tmp_path, "may"),
        ):
            pass
