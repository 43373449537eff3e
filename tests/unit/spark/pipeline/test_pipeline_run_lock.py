"""The locks that keep two runs, or two replays with one sink id, from running at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.run_lock import only_replay, only_run

SPEC = Path("/shop/spark-pipeline.yml")


def test_one_process_runs_a_pipeline_at_a_time(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with only_run(SPEC, [state, state]):
        with only_replay(state, "may"):
            pass
        with (
            pytest.raises(PipelineError, match="another run of this pipeline is under way"),
            only_run(SPEC, [state]),
        ):
            pass
    with only_run(SPEC, [state]):
        pass


@pytest.mark.mission("SPF-2")
def test_pipelines_with_separate_folders_run_at_the_same_time(tmp_path: Path) -> None:
    """With one folder in common they do not, however its path is written: a copied project has the
    storage of the original until somebody changes it."""
    other = Path("/copy/spark-pipeline.yml")
    (tmp_path / "link").symlink_to(tmp_path / "storage")
    with only_run(SPEC, [tmp_path / "state", tmp_path / "storage"]):
        with only_run(other, [tmp_path / "other"]):
            pass
        for shared in ("state", "storage", "link", "other/../state"):
            with (
                pytest.raises(PipelineError) as refused,
                only_run(other, [tmp_path / "other", tmp_path / shared]),
            ):
                pass
            assert "a run of the pipeline /shop/spark-pipeline.yml is under way" in str(
                refused.value
            )
            assert str((tmp_path / shared).resolve()) in str(refused.value)
            with only_run(other, [tmp_path / "other"]):  # its lock was given back
                pass


@pytest.mark.mission("SPF-2")
def test_a_run_waits_for_no_check_and_names_it(tmp_path: Path) -> None:
    """Both would open the catalog."""
    with (
        only_run(SPEC, [tmp_path], "check"),
        pytest.raises(PipelineError, match="another check of this pipeline is under way"),
        only_run(SPEC, [tmp_path]),
    ):
        pass


def test_a_process_that_dies_leaves_no_lock(tmp_path: Path) -> None:
    held = (
        "import os, pathlib, sys\n"
        "from minikafka.spark.pipeline.run_lock import only_run\n"
        "with only_run(pathlib.Path('a-longer-name-than-the-next'), [pathlib.Path(sys.argv[1])]):\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", held, str(tmp_path)], check=False).returncode == -9
    with only_run(SPEC, [tmp_path]):
        assert (tmp_path / "run.lock").read_text() == f"run of {SPEC}\n"


def test_one_process_replays_a_sink_id_at_a_time(tmp_path: Path) -> None:
    with only_replay(tmp_path, "may"):
        with only_replay(tmp_path, "june"):
            pass
        with (
            pytest.raises(PipelineError, match="another replay of may"),
            only_replay(tmp_path, "may"),
        ):
            pass
