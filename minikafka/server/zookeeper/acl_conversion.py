"""Replacement of the ACLs of all of Kafka's znodes (Kafka's ``ZkSecurityMigrator``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from minikafka.kernel.ports import CoordinationSession, CreateOp, NoNode
from minikafka.kernel.zookeeper_security import ZnodeAcl
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import Requests, in_chunks
from minikafka.server.zookeeper.znode_acls import SECURE_ROOTS


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
