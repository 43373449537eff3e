"""The users of a secured cluster, written into ZooKeeper before brokers start.

Brokers log in at each other with SCRAM, so their user must exist before the first broker does. As
``kafka-configs --zookeeper`` does, this writes the credentials into ``/config/users``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from minikafka.core.security.acls import (
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.core.security.client_quotas import sanitized
from minikafka.core.security.scram_credentials import (
    MIN_ITERATIONS,
    SCRAM_SHA_512,
    credential_of,
    credential_text,
    parse_credential,
    salted_password,
)
from minikafka.kernel.ports import BadVersion, World
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore

BROKER_USER: Final = "broker"
ADMIN_USER: Final = "admin"
APP_USER: Final = "app"
# The broker's credential is written last: it shows that the set-up was finished.
USERS: Final = (APP_USER, ADMIN_USER, BROKER_USER)
SUPER_USERS: Final = (BROKER_USER, ADMIN_USER)
APP_PREFIX: Final = "app-"
# All resources whose names begin so. The last three are those of minikafka.spark: what a sink that
# writes exactly once uses, and the group of a ProgressListener.
APP_RESOURCES: Final = (
    (AclResourceType.TOPIC, APP_PREFIX),
    (AclResourceType.GROUP, APP_PREFIX),
    (AclResourceType.TRANSACTIONAL_ID, APP_PREFIX),
    (AclResourceType.GROUP, "mk-"),
    (AclResourceType.TRANSACTIONAL_ID, "mk-"),
    (AclResourceType.GROUP, "spark-"),
)

_SALT_BYTES: Final = 16
_SESSION_TIMEOUT_MS: Final = 6_000
_CONNECTION_TIMEOUT_MS: Final = 30_000


async def set_up_users(world: World, connect: str, passwords: Mapping[str, str]) -> bool:
    """Create the users with these passwords, and the ACLs of ``app``, unless the ZooKeeper at
    ``connect`` has them from an earlier start. Later changes of an administrator are kept: users
    and ACLs are written again only if the broker could not log in.

    Returns whether they were written. Raises CoordinationError.
    """
    session = await world.coordination.open(connect, _SESSION_TIMEOUT_MS, _CONNECTION_TIMEOUT_MS)
    try:
        store = ZkStore(session)
        if await _has_password(store, BROKER_USER, passwords[BROKER_USER]):
            return False
        for kind, prefix in APP_RESOURCES:
            await _allow_all(store, ResourcePattern(kind, prefix, PatternType.PREFIXED))
        for user in USERS:
            salt = world.entropy.random_bytes(_SALT_BYTES)
            await _set_password(store, user, passwords[user], salt)
        return True
    finally:
        await session.close()


async def _has_password(store: ZkStore, user: str, password: str) -> bool:
    config = await store.entity_config(paths.USER_CONFIGS, sanitized(user))
    text = config.get(SCRAM_SHA_512.kafka_name)
    if text is None:
        return False
    try:
        stored = parse_credential(text)
    except ValueError:
        return False
    salted = salted_password(SCRAM_SHA_512, password, stored.salt, stored.iterations)
    expected = credential_of(SCRAM_SHA_512, stored.salt, salted, stored.iterations)
    return hmac.compare_digest(expected.stored_key, stored.stored_key)


async def _set_password(store: ZkStore, user: str, password: str, salt: bytes) -> None:
    """Write the credential beside the user's quotas and other mechanisms."""
    salted = salted_password(SCRAM_SHA_512, password, salt, MIN_ITERATIONS)
    text = credential_text(SCRAM_SHA_512, salt, salted, MIN_ITERATIONS)
    while True:
        name = sanitized(user)
        config, version = await store.entity_config_version(paths.USER_CONFIGS, name)
        config[SCRAM_SHA_512.kafka_name] = text
        try:
            await store.change_entity_config(paths.USER_CONFIGS, name, config, version)
        except BadVersion:
            continue  # another program has changed the user meanwhile
        return


async def _allow_all(store: ZkStore, pattern: ResourcePattern) -> None:
    entry = AclEntry(f"User:{APP_USER}", "*", AclOperation.ALL, PermissionType.ALLOW)
    while True:
        (found,) = await store.acls([pattern])
        if found is None or entry in found.entries:
            return  # None: an entry that cannot be read, which brokers log
        after = found._replace(entries=found.entries | {entry})
        try:
            await store.change_acls(pattern, after, is_change=True)
        except BadVersion:
            continue
        return
