"""The authorizer of a node: none, the built-in one, or a Python class of the user's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.ports import World
from minikafka.kernel.principals import parse_principal
from minikafka.kernel.settings import ACL_AUTHORIZERS, ALLOW_EVERYONE, SUPER_USERS
from minikafka.server.node.plugins import made_plugin
from minikafka.server.zookeeper.store import ZkStore

if TYPE_CHECKING:
    from minikafka.core.security.acl_cache import AclRules
    from minikafka.core.security.authorizer import Authorizer
    from minikafka.server.broker.apis.authorization import Authorization
    from minikafka.server.zookeeper.acl_authorizer import AclAuthorizer

CLASS_NAME = "authorizer.class.name"


class NodeAuthorizer:
    """Makes the authorizer that ``authorizer.class.name`` names, and starts and stops it.
    ``authorization`` is None if there is none. Raises ConfigError."""

    def __init__(
        self, world: World, config: Config, broker_id: int, store: Callable[[], ZkStore]
    ) -> None:
        self._built_in: AclAuthorizer | None = None
        self.authorization: Authorization | None = None
        name = config.string(CLASS_NAME)
        if not name:
            return
        from minikafka.server.broker.apis.authorization import Authorization

        authorizer: Authorizer
        if name in ACL_AUTHORIZERS:
            from minikafka.server.zookeeper.acl_authorizer import AclAuthorizer

            _require_no_plugin_keys(config.given)
            rules = acl_rules(config.given)
            authorizer = self._built_in = AclAuthorizer(
                store, world.clock, world.entropy, broker_id, rules
            )
        else:
            authorizer = made_plugin(CLASS_NAME, name, config.given, AUTHORIZER_METHODS)
        self.authorization = Authorization(authorizer)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Returns when all ACLs are known. Raises ConfigError and CoordinationError."""
        if self._built_in is not None:
            await self._built_in.start(tasks)

    async def on_new_session(self, store: ZkStore) -> None:
        if self._built_in is not None:
            await self._built_in.on_new_session(store)

    async def read_again(self) -> None:
        """Read all ACLs although no change was announced."""
        if self._built_in is not None:
            await self._built_in.read_again()

    async def stop(self) -> None:
        if self._built_in is not None:
            await self._built_in.stop()


def acl_rules(given: Mapping[str, str]) -> AclRules:
    """Return the rules beside the ACLs. Raises ConfigError."""
    from minikafka.core.security.acl_cache import AclRules

    users = [text.strip() for text in given.get(SUPER_USERS, "").split(";")]
    for user in filter(None, users):
        try:
            parse_principal(user)
        except ValueError as error:
            raise ConfigError(f"Invalid value for configuration {SUPER_USERS}: {error}") from error
    everyone = given.get(ALLOW_EVERYONE, "false").strip().lower()
    if everyone not in ("true", "false"):
        raise ConfigError(
            f"Invalid value {everyone} for configuration {ALLOW_EVERYONE}: "
            "Expected value to be either true or false"
        )
    return AclRules(frozenset(filter(None, users)), everyone == "true")


def _require_no_plugin_keys(given: Mapping[str, str]) -> None:
    """Raise ConfigError for a key that the built-in authorizer does not read."""
    for name in given:
        if name.startswith("authorizer.") and name != CLASS_NAME:
            raise ConfigError(f"Unknown configuration key {name}: AclAuthorizer does not read it")


AUTHORIZER_METHODS = (
    "authorize", "authorize_by_type", "acl_patterns", "acls", "create_acls", "delete_acls",
)  # fmt: skip
