"""The ACLs of Kafka's znodes with ``zookeeper.set.acl`` (Kafka's ``ZkData.defaultAcls``)."""

from __future__ import annotations

from typing import Final

from minikafka.kernel.zookeeper_security import (
    ANYONE_ALL,
    ANYONE_READ,
    CREATOR_ALL,
    ZnodeAcl,
)
from minikafka.server.zookeeper import paths

# What lies below may contain secrets. As in Kafka, the path needs only begin so.
SENSITIVE_ROOTS: Final = (
    f"{paths.CONFIG}/{paths.USER_CONFIGS}",
    f"{paths.CONFIG}/{paths.BROKER_CONFIGS}",
    "/delegation_token/tokens",
)
# The znodes below which a conversion replaces all ACLs (Kafka's ``ZkData.SecureRootPaths``).
SECURE_ROOTS: Final = (
    *("/admin", "/brokers", "/cluster", paths.CONFIG, paths.CONTROLLER, paths.CONTROLLER_EPOCH),
    *(paths.ISR_CHANGES, paths.PRODUCER_ID_BLOCK, paths.LOG_DIR_EVENTS, "/delegation_token"),
    *("/kafka-acl-extended", "/migration", paths.FEATURE),
    *(paths.ACLS, paths.ACL_CHANGES, paths.PREFIXED_ACLS, paths.PREFIXED_ACL_CHANGES),
)


def secure_acl(path: str) -> ZnodeAcl:
    """Return the ACL of a znode: its creator may do everything, and the world may read it unless it
    may contain secrets. Old consumers write below /consumers, which is open to all."""
    if path == "/consumers":
        return ANYONE_ALL
    return CREATOR_ALL if path.startswith(SENSITIVE_ROOTS) else CREATOR_ALL + ANYONE_READ
