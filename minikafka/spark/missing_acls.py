"""The ACL whose lack an error means, in words for the user of a job."""

from __future__ import annotations

from typing import Final

from minikafka.kernel.errors import ErrorCode

READ: Final = "Read"
WRITE: Final = "Write"
SEEN: Final = "Read, or for a sink Write,"  # each of them lets a client see the topic


def missing_acl(code: ErrorCode, on_topics: str) -> str:
    """Return what to append to the message of an error: the ACL that the principal lacks.

    ``on_topics`` is the operation that the failed request needs on its topics. The result is empty
    if the error does not mean that an ACL is missing."""
    needed = {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: f"{on_topics} on the topic",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "Read on the group",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on the transactional id",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Write on a topic, or IdempotentWrite on the "
        "cluster",
    }.get(code)
    return f" (missing ACL: {needed})" if needed else ""
