"""Two concepts never share a name: public classes of the package are named apart."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.support.sources import PACKAGE, SOURCES, nodes_of

pytestmark = pytest.mark.xdist_group("house")  # one process reads all sources

# Names with several classes that stay, and why.
ALLOWED = {
    # Kafka's names: schemas name their structures per message, and events are named as messages.
    "Assignment": "protocol/messages",
    "DescribedGroup": "protocol/messages",
    "EpochEndOffset": "protocol/messages",
    "FetchPartition": "protocol/messages",
    "FetchTopic": "protocol/messages",
    "ForgottenTopic": "protocol/messages",
    "LeaderIdAndEpoch": "protocol/messages",
    "Member": "protocol/messages",
    "MemberState": "AbstractCoordinator.MemberState, coordinator.group.modern.MemberState",
    "NodeEndpoint": "protocol/messages",
    "PartitionData": "protocol/messages",
    "PartitionMetadata": "protocol/messages, core.metadata_image",
    "ReplicaState": "protocol/messages, kafka.controller.ReplicaState",
    "TopicInfo": "protocol/messages",
    "TopicPartitions": "protocol/messages",
    "TransactionState": "protocol/messages, kafka.coordinator.transaction.TransactionState",
    # The same concept with another way to wait: aio is the client for applications.
    "Admin": "aio, client",
    "Consumer": "aio, client",
    "Producer": "aio, client",
    "ShareConsumer": "aio, client",
}


def public_classes() -> dict[str, list[str]]:
    """The modules that define each public class."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(PACKAGE)))
    return found


def test_public_classes_are_named_apart() -> None:
    shared = {name: paths for name, paths in public_classes().items() if len(paths) > 1}
    assert {name: paths for name, paths in shared.items() if name not in ALLOWED} == {}


def test_the_list_of_shared_names_is_not_longer_than_needed() -> None:
    found = public_classes()
    assert [name for name in ALLOWED if len(found[name]) < 2] == []
