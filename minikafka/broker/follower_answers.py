"""What the leader of a partition has told its followers last, and so need not find out again."""

from __future__ import annotations

from typing import Any


class FollowerAnswers:
    """By broker id. ``telling``: while parked fetches are looked at for the sake of the high
    watermark alone (see ``HighWatermarkNews``)."""

    __slots__ = ("_last", "_told", "_told_before", "telling")

    def __init__(self) -> None:
        self.telling = False
        self._told: dict[int, int] = {}  # high watermarks
        self._told_before: dict[int, int] = {}  # the telling
        self._last: dict[int, tuple[object, Any]] = {}  # what was asked, and answered

    def clear(self) -> None:
        """Another leader epoch begins."""
        self._told.clear()
        self._last.clear()

    def told(self, replica_id: int, high_watermark: int) -> None:
        """An answer with this high watermark goes to the follower."""
        self._told[replica_id] = high_watermark

    def begin_telling(self) -> None:
        """Until ``end_telling``, every fetch of a follower is told: the first may be that of a
        connection that is gone, where nobody hears the answer."""
        self.telling = True
        self._told_before = dict(self._told)

    def end_telling(self) -> None:
        self.telling = False

    def is_to_be_told(self, replica_id: int, high_watermark: int) -> bool:
        """While ``telling``. Consumers do not wait to be told."""
        return replica_id >= 0 and self._told_before.get(replica_id) != high_watermark

    def is_news(self, replica_id: int, high_watermark: int) -> bool:
        """Whether this follower has yet to be told."""
        return replica_id >= 0 and self._told.get(replica_id) != high_watermark

    def keep(self, replica_id: int, asked: object, answer: Any) -> None:
        """There was nothing to read."""
        self._last[replica_id] = asked, answer

    def last(self, replica_id: int, asked: object) -> Any | None:
        """The answer to the very same question (as a fetch session keeps it), if it was the last
        one of this follower and there was nothing to read."""
        known = self._last.get(replica_id)
        return known[1] if known is not None and known[0] is asked else None
