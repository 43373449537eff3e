"""Share groups and streams groups while coordinators are killed, links are cut, and members come,
stand still and die."""

from __future__ import annotations

import pytest

from tests.support.simulated import share_campaign, streams_campaign


@pytest.mark.parametrize("seed", range(2))
def test_records_of_a_share_group_are_accepted_once_or_delivered_again(seed: int) -> None:
    assert share_campaign.play(seed)["records_done"] > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_streams_task_has_one_owner_and_fenced_members_commit_nothing(seed: int) -> None:
    assert streams_campaign.play(seed)["commits"] > streams_campaign.MORE_COMMITS
