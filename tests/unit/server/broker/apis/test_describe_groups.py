"""DescribeGroups: unknown groups, with and without an error."""

from __future__ import annotations

from typing import Any, cast

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from minikafka.server.broker.apis.authorization import GROUP_OPERATIONS
from minikafka.server.broker.apis.groups.describe_groups import DescribeGroupsHandler
from minikafka.server.broker.apis.request import RequestContext
from tests.support.coordinator.group_lab import GROUP, GroupLab


def describe(groups: Any, version: int, *group_ids: str) -> list[DescribedGroup]:
    """Return the rows for groups, with the authorized operations if they are found."""
    responses: list[Any] = []
    context = RequestContext(RequestHeader(15, version, 1), "L", "h")
    request = DescribeGroupsRequest([*group_ids], include_authorized_operations=True)
    DescribeGroupsHandler(groups)(context, request, responses.append)
    return cast(list[DescribedGroup], responses[0].groups)


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead_and_an_error_from_version_6(version: int) -> None:
    lab = GroupLab()
    lab.stable("a")
    stable, unknown = describe(lab.coordinator, version, GROUP, "nobody")
    assert (stable.error_code, stable.group_state) == (ErrorCode.NONE, "Stable")
    assert stable.authorized_operations == GROUP_OPERATIONS
    assert (unknown.group_id, unknown.group_state) == ("nobody", "Dead")
    if version < 6:
        assert (unknown.error_code, unknown.error_message) == (ErrorCode.NONE, None)
        assert unknown.authorized_operations == GROUP_OPERATIONS
    else:
        assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert unknown.error_message == "Group nobody not found."
        assert unknown.authorized_operations == DescribedGroup().authorized_operations


@pytest.mark.parametrize("version", [5, 6])
def test_errors_of_the_coordinator_stay(version: int) -> None:
    lab = GroupLab()
    lab.resign()
    (row,) = describe(lab.coordinator, version, GROUP)
    assert row == DescribedGroup(ErrorCode.NOT_COORDINATOR, group_id=GROUP)
