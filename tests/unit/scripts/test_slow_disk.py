"""What the slow-disk benchmark computes and looks up."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.lib.bench import slow_device
from scripts.lib.bench.slow_device import NoSlowDevice, SlowDevice
from scripts.lib.bench.slow_disk import on_schedule, topic_in


def test_a_long_wait_stands_for_the_requests_that_were_not_sent_meanwhile() -> None:
    taken = [(0.0, 0.001), (0.002, 0.007), (0.009, 0.002)]

    assert on_schedule(taken, 0.002) == pytest.approx([1, 1, 2, 3, 5, 7])


def test_the_topic_of_a_directory_is_found_by_its_log(tmp_path: Path) -> None:
    (tmp_path / "other-0").mkdir()
    (tmp_path / "another-0").mkdir()

    assert topic_in(tmp_path, ("one", "other")) == "other"


def test_a_machine_that_cannot_bound_a_device_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[object] = []

    def output(*command: object) -> str:
        if command[0] == "mount":
            raise PermissionError("mount")
        if command[1] == "--detach":
            undone.append(command[2])
        return "/dev/loop9"

    monkeypatch.setattr(slow_device, "output", output)
    with pytest.raises(NoSlowDevice, match="root"), SlowDevice(tmp_path):
        pass
    assert undone == ["/dev/loop9"]
