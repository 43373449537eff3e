"""The process of a session of learn mode, as its server sees it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minikafka.kernel.own_command import own_module

ENDS_WITHIN_S = 60


class LearnPlayer:
    """Sends requests to a process of ``serving/player.py``."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def request(self, do: str, **more: object) -> list[dict[str, Any]]:
        return self.send(json.dumps({"do": do, **more}).encode())

    def send(self, line: bytes) -> list[dict[str, Any]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        messages: list[dict[str, Any]] = json.loads(self.process.stdout.readline())
        return messages

    def end(self) -> int:
        """Close its input, as the server does, and return its status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(ENDS_WITHIN_S)

    @property
    def has_processes(self) -> bool:
        """Whether it, or one of its checkpoints, is there, a zombie included."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def learn_player() -> Iterator[LearnPlayer]:
    process = subprocess.Popen(
        own_module("minikafka.page.learn.serving.player"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    player = LearnPlayer(process)
    with process:
        try:
            yield player
        finally:
            if process.poll() is None:
                player.end()
