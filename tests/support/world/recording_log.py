"""An event log that keeps its events."""

from __future__ import annotations

from typing import Any


class RecordingLog:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def _take(self, level: str, event: str, facts: dict[str, Any]) -> None:
        self.events.append((level, event, facts))

    def debug(self, event: str, **facts: Any) -> None:
        self._take("debug", event, facts)

    def info(self, event: str, **facts: Any) -> None:
        self._take("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._take("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        self._take("error", event, facts)

    def bind(self, **facts: Any) -> RecordingLog:
        return self

    def named(self, event: str) -> list[dict[str, Any]]:
        return [facts for _, name, facts in self.events if name == event]

    def reasons(self) -> list[str]:
        return [facts["reason"] for _, _, facts in self.events if "reason" in facts]
