"""The pid file of a broker, and what `minikafka stop` says where there is nothing to stop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.cli import main
from minikafka.cli.processes.pid_file import NAME, Holder, held

HOLDER = """
import sys, signal
from pathlib import Path
from minikafka.cli.processes.pid_file import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
print("released", flush=True)
sys.stdin.close()
"""


def start_holder(directory: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    home = tmp_path / "cluster" / "broker-2"
    home.mkdir(parents=True)
    file = home / "server.properties"
    file.write_text(f"broker.id=2\nzookeeper.connect=z:1\nlog.dirs={home}/data\n")
    return file


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main(["stop", *words]) == 1
    return capsys.readouterr().err


def test_the_lock_decides_if_the_broker_lives_and_the_file_holds_its_pid(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Holder(tmp_path / "data")
    process = start_holder(tmp_path / "data")
    holder = Holder(tmp_path / "data")
    assert holder.pid() == process.pid
    assert int((tmp_path / "data" / NAME).read_text()) == process.pid
    process.kill()
    process.wait()
    assert (tmp_path / "data" / NAME).exists(), "nobody was there to remove it"
    assert holder.pid() is None
    holder.close()


def test_an_orderly_end_leaves_no_file(tmp_path: Path) -> None:
    process = start_holder(tmp_path)
    holder = Holder(tmp_path)
    process.communicate("", timeout=60)
    assert not (tmp_path / NAME).exists()
    assert holder.pid() is None
    holder.close()


def test_a_second_process_does_not_take_the_file_away(tmp_path: Path) -> None:
    process = start_holder(tmp_path)
    with held(tmp_path):
        pass
    holder = Holder(tmp_path)
    assert holder.pid() == process.pid
    holder.close()
    process.kill()
    process.wait()


def test_where_nothing_can_be_written_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with held(tmp_path / "file" / "data"):
        pass


@pytest.mark.mission("CSH-1")
def test_a_broker_that_does_not_run(
    properties: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = ("--data-dir", str(tmp_path / "cluster"))
    assert refusal(capsys, "--broker", "2", *where) == "minikafka: broker 2 is not running\n"
    process = start_holder(properties.parent / "data")
    process.kill()
    process.wait()
    assert refusal(capsys, "--broker", "2", *where) == "minikafka: broker 2 is not running\n"


def test_a_broker_that_is_not_there(
    properties: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = ("--data-dir", str(tmp_path / "cluster"))
    assert f"no broker 7 in {tmp_path}/cluster, there are 2" in refusal(
        capsys, "--broker", "7", *where
    )
    assert "no cluster of minikafka up" in refusal(
        capsys, "--broker", "2", "--data-dir", str(tmp_path)
    )
    assert main.main(["stop"]) == main.USAGE
    assert "--broker ID or --config FILE is needed" in capsys.readouterr().err
    assert "is that of broker 2, not of broker 3" in refusal(
        capsys, "--broker", "3", "--config", str(properties)
    )


@pytest.mark.mission("CSH-1")
def test_one_that_stops(
    properties: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    process = start_holder(properties.parent / "data")
    assert main.main(["stop", "--config", str(properties)]) == 0
    assert capsys.readouterr().out.startswith(f"broker 2 stopped (pid {process.pid}, ")
    process.wait()


def test_one_that_does_not(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ignoring = HOLDER.replace(
        "with held", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwith held"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", ignoring, str(properties.parent / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    said = refusal(capsys, "--config", str(properties), "--timeout-s", "0")
    assert f"(pid {process.pid}) still runs after 0 s; kill -9 {process.pid}" in said
    process.kill()
    process.wait()
