"""What the leader of a partition has told its followers last, and so need not find out again."""

from __future__ import annotations

from typing import Any, Final

# What ``FollowerAnswers.last`` has of a follower that has not asked yet.
NEVER_ASKED: Final[tuple[object, Any]] = (None, None)


class FollowerAnswers:
    """By broker id. ``told``: the high watermark of the last answer. ``last``: the question (as a
    fetch session keeps it) that was asked last, if there was nothing to read then, and its answer.
    Both are looked up for thousands of partitions at every fetch. ``telling``: while parked fetches
    are looked at for the sake of the high watermark alone (see ``HighWatermarkNews``)."""

    __slots__ = ("_told_before", "last", "telling", "told")

    def __init__(self) -> None:
        self.telling = False
        self.told: dict[int, int] = {}
        self._told_before: dict[int, int] = {}  # the telling
        self.last: dict[int, tuple[object, Any]] = {}

    def clear(self) -> None:
        """Another leader epoch begins."""
        self.told.clear()
        self.last.clear()

    def begin_telling(self) -> None:
        """Until ``end_telling``, every fetch of a follower is told: the first may be that of a
        connection that is gone, where nobody hears the answer."""
        self.telling = True
        self._told_before = dict(self.told)

    def end_telling(self) -> None:
        self.telling = False

    def is_to_be_told(self, replica_id: int, high_watermark: int) -> bool:
        """While ``telling``. Consumers do not wait to be told."""
        return replica_id >= 0 and self._told_before.get(replica_id) != high_watermark

    def is_news(self, replica_id: int, high_watermark: int) -> bool:
        """Whether this follower has yet to be told."""
        return replica_id >= 0 and self.told.get(replica_id) != high_watermark
