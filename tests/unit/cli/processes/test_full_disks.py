"""`minikafka up` reports full disks once."""

from __future__ import annotations

import os
from pathlib import Path

from minikafka.cli.processes.up import FULL_BYTES, ROOM_BYTES, FullDisks, free_bytes


def test_a_full_disk_is_reported_once_and_its_room_once() -> None:
    said: list[str] = []
    disks = FullDisks(said.append)
    for free in (ROOM_BYTES, FULL_BYTES, FULL_BYTES - 1, 0, ROOM_BYTES - 1, ROOM_BYTES, ROOM_BYTES):
        disks.update({"/a": free, "/b": ROOM_BYTES})
    assert len(said) == 2
    assert said[0].startswith("the disk of /a is full")
    assert said[1] == "the disk of /a has room again; start what has exited"


def test_a_disk_that_fills_again_is_reported_again() -> None:
    said: list[str] = []
    disks = FullDisks(said.append)
    for free in (0, ROOM_BYTES, 0):
        disks.update({"/a": free})
    assert len(said) == 3


def test_a_disk_has_the_name_of_its_first_directory(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    found = free_bytes([str(tmp_path / "missing"), str(tmp_path), str(tmp_path / "deep")])
    assert list(found) == [str(tmp_path)]
    disk = os.statvfs(tmp_path)
    assert 0 <= found[str(tmp_path)] <= disk.f_blocks * disk.f_frsize
