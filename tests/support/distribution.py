"""How pytest-xdist distributes the tests: whole files, and the longest first.

What a file starts once (a Chromium, a cluster, a process of learn mode) is then started by one
worker and not by each. The files of one ``xdist_group`` stay together, as they share even more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

# Folders whose tests spend minutes waiting for other processes. Begun first and side by side, they
# leave the processors to the others, and none of them is left over at the end.
LONG = ("kafka", "spark", "cluster", "browser")


class FileScheduling(LoadGroupScheduling):  # type: ignore[misc]  # it has no types
    """A worker gets a whole group, or a whole file of tests without a group, in the order in which
    they were collected."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by the number of tests

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if group == nodeid else group


def long_ones_first(items: list[pytest.Item], tests: Path) -> None:
    """Sort tests by their folders, and keep the order in each."""

    def rank(item: pytest.Item) -> int:
        inside = item.path.is_relative_to(tests)
        folder = item.path.relative_to(tests).parts[0] if inside else ""
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=rank)
