"""The ACLs of Kafka's znodes with ``zookeeper.set.acl`` (Kafka's ``ZkData.defaultAcls``).

``replace_acls`` replaces those of all of Kafka's znodes (Kafka's ``ZkSecurityMigrator``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from minikafka.kernel.ports import CoordinationSession, CreateOp, NoNode
from minikafka.kernel.zookeeper_security import ANYONE_ALL, ANYONE_READ, CREATOR_ALL, ZnodeAcl
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import Requests, in_chunks

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


async def missing_roots(session: CoordinationSession) -> list[str]:
    """Return the roots of Kafka's znodes that do not exist."""
    requests = Requests(session)
    found = await in_chunks([partial(requests.exists, path) for path in SECURE_ROOTS])
    return [path for path, stat in zip(SECURE_ROOTS, found, strict=True) if stat is None]


async def replace_acls(session: CoordinationSession, acl_of: Callable[[str], ZnodeAcl]) -> int:
    """Give the chroot, and every znode below Kafka's roots, its ACL; return how many there were.

    Roots that are missing are created, except /controller. It can be repeated after an error.
    Raises NoAuth for a znode of another identity."""
    requests = Requests(session)
    replaced = 0
    level = ["/"]
    for root in SECURE_ROOTS:
        if root == paths.CONTROLLER and await requests.exists(root) is None:
            continue
        for path in (*paths.parents(root), root):
            await requests.create(CreateOp(path, b""))
        if not set(paths.parents(root)) & set(SECURE_ROOTS):
            level.append(root)
    while level:
        results = await in_chunks([partial(_replace, requests, path, acl_of) for path in level])
        replaced += sum(result is not None for result in results)
        # Nothing but the roots is Kafka's in the chroot, which may be that of the ensemble.
        level = [path for found in results if found is not None for path in found]
    return replaced


async def _replace(
    requests: Requests, path: str, acl_of: Callable[[str], ZnodeAcl]
) -> list[str] | None:
    """Return the paths of the children below a root; None if the znode is gone."""
    try:
        await requests.until_response(lambda: requests.session.set_acl(path, acl_of(path)))
    except NoNode:
        return None
    if path == "/":
        return []
    return [f"{path}/{name}" for name in await requests.children(path)]
