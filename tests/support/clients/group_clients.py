"""Consumer processes of one group, their assignments, and the records that they have read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tests.support.cluster.cluster_state import until

PROGRAM = Path(__file__).with_name("group_consumer.py")
SCRIPT = PROGRAM.with_suffix(".js")


class GroupClient:
    """One consumer process. Its output goes to a file, so that it never blocks on a full pipe.
    kafkajs needs an option with the directory ``node_modules`` that contains it."""

    def __init__(self, library: str, directory: Path, name: str, **options: Any) -> None:
        self.library = library
        self._out = directory / f"{name}.out"
        self._err = directory / f"{name}.err"
        command = [sys.executable, str(PROGRAM), library, json.dumps(options)]
        if library == "kafkajs":
            command = ["node", str(SCRIPT), json.dumps(options)]
        environment = {**os.environ, "NODE_PATH": str(options.get("node_modules", ""))}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)

    def lines(self) -> list[dict[str, Any]]:
        text = self._out.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @property
    def assigned(self) -> list[int]:
        found: list[list[int]] = [line["assigned"] for line in self.lines() if "assigned" in line]
        return found[-1] if found else []

    @property
    def assignments(self) -> list[list[int]]:
        """Every assignment that it had, in order."""
        return [line["assigned"] for line in self.lines() if "assigned" in line]

    @property
    def records(self) -> list[tuple[int, int, str]]:
        return [tuple(line["record"]) for line in self.lines() if "record" in line]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(60) == 0, self._err.read_text()[-2000:]

    def complaints(self) -> str:
        return self._err.read_text()[-2000:]


class Clients:
    """Kill the clients that are still alive at the end."""

    def __init__(
        self, bootstrap: str, directory: Path, group: str, topic: str, **options: Any
    ) -> None:
        """Create clients. ``options`` are options of all clients, besides their own."""
        self._options = options
        self._bootstrap = bootstrap
        self._directory = directory
        self._group = group
        self._topic = topic
        self.all: list[GroupClient] = []

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.all:
            if client.process.poll() is None:
                client.kill()

    def start(self, library: str, **options: Any) -> GroupClient:
        client = GroupClient(
            library,
            self._directory,
            f"{library}-{len(self.all)}",
            bootstrap=self._bootstrap,
            group=self._group,
            topic=self._topic,
            **self._options,
            **options,
        )
        self.all.append(client)
        return client

    def until_shared(
        self, clients: Sequence[GroupClient], partitions: int, limit_s: float = 60
    ) -> None:
        """Wait until each partition is assigned to one of ``clients``, and each of them has one."""

        def shared() -> bool:
            for client in clients:
                assert client.process.poll() is None, client.complaints()
            assigned = [client.assigned for client in clients]
            return all(assigned) and sorted(chain(*assigned)) == list(range(partitions))

        until(shared, f"{partitions} partitions shared by {len(clients)}", limit_s)

    def values(self) -> set[str]:
        return {value for client in self.all for _, _, value in client.records}

    def until_read(self, expected: set[str], limit_s: float = 60) -> None:
        until(lambda: self.values() >= expected, f"{len(expected)} records read", limit_s)
