"""What the controller reads of ZooKeeper: names that are known are not checked again."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from minikafka.controller import znode_reads
from minikafka.controller.znode_reads import read_topics
from minikafka.core.topic_names import name_problem


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
