"""What the controller reads of ZooKeeper: names that are known are not checked again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from minikafka.core.topic_names import name_problem
from minikafka.server.controller import znode_reads
from minikafka.server.controller.znode_reads import read_topics
from minikafka.server.zookeeper.store import MalformedZnode


class Store:
    async def topics(self, watcher: Any) -> list[str]:
        return ["a", "b", "..", "new"]


class Log:
    def __init__(self) -> None:
        self.refused: list[str] = []

    def error(self, event: str, topic: str, why: str) -> None:
        assert event == "topic_name_refused"
        self.refused.append(topic)


@pytest.mark.mission("SCALE-3")
def test_only_new_names_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def check(name: str) -> str | None:
        checked.append(name)
        return name_problem(name)

    monkeypatch.setattr(znode_reads, "name_problem", check)
    log = Log()
    found = asyncio.run(
        read_topics(cast(Any, Store()), cast(Any, None), cast(Any, log), {"a", "b"})
    )
    assert found == ["a", "b", "new"]
    assert checked == ["..", "new"]
    assert log.refused == [".."]


@pytest.mark.mission("SCALE-7")
def test_a_malformed_znode_concerns_its_own() -> None:
    reads: list[Sequence[str]] = []

    async def read(keys: Sequence[str]) -> dict[str, int]:
        reads.append(keys)
        if "e" in keys:
            raise MalformedZnode("/e", b"", "no JSON")
        return {key: ord(key) for key in keys if key != "h"}

    found, unreadable = asyncio.run(znode_reads._readable(read, "abcdefgh"))
    assert found == {key: ord(key) for key in "abcdfg"}
    assert unreadable.keys() == {"e"}
    assert list(map("".join, reads)) == ["abcdefgh", "abcd", "efgh", "ef", "e", "f", "gh"]
