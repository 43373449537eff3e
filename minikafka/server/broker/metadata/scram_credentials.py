"""The cache of SCRAM credentials in ZooKeeper, which the logins of this broker use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from minikafka.core.security.client_quotas import desanitized
from minikafka.core.security.scram_credentials import (
    MECHANISMS,
    Mechanism,
    ScramCredential,
    parse_credential,
)
from minikafka.kernel.events import EventLog, event_log
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore


class ScramCredentialCache:
    """The credentials of all users (Kafka's ``CredentialProvider``).

    ``refresh_all`` reads them before the first listener opens, and ``refresh`` when a notification
    names users: a changed credential counts for logins that begin afterwards. A credential that
    cannot be decoded is logged, and counts as none.
    """

    def __init__(self, store: Callable[[], ZkStore], log: EventLog | None = None) -> None:
        self._store = store
        self._credentials: dict[str, Mapping[str, ScramCredential]] = {}
        self._log = log or event_log("scram-credentials")

    def credential(self, mechanism: Mechanism, user: str) -> ScramCredential | None:
        """Return the credential of a user for a mechanism, None if there is none."""
        of_user = self._credentials.get(user)
        return None if of_user is None else of_user.get(mechanism.kafka_name)

    async def refresh_all(self) -> None:
        """Read the credentials of all users. Raises CoordinationError."""
        znodes = await self._store().configured_entities(paths.USER_CONFIGS)
        credentials = self._decoded(await self._configs(znodes))
        self._credentials = {user: found for user, found in credentials.items() if found}

    async def refresh(self, znodes: Iterable[str]) -> None:
        """Read the credentials of users again, given by the names of their znodes. Raises
        CoordinationError."""
        names = sorted(znodes)
        if not names:
            return
        for user, found in self._decoded(await self._configs(names)).items():
            if found:
                self._credentials[user] = found
            else:
                self._credentials.pop(user, None)

    async def _configs(self, znodes: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        try:
            return await self._store().entity_configs(paths.USER_CONFIGS, znodes)
        except MalformedZnode:
            found = {}
            for znode in znodes:
                found[znode] = await self._config(znode)
            return found

    async def _config(self, znode: str) -> Mapping[str, str]:
        try:
            return await self._store().entity_config(paths.USER_CONFIGS, znode)
        except MalformedZnode as error:
            self._log.error("user_settings_malformed", user=znode, error=str(error))
            return {}

    def _decoded(
        self, configs: Mapping[str, Mapping[str, str]]
    ) -> dict[str, Mapping[str, ScramCredential]]:
        decoded = {}
        for znode, config in configs.items():
            user = desanitized(znode)
            if user is not None:  # the default user has no credentials
                decoded[user] = self._credentials_of(user, config)
        return decoded

    def _credentials_of(
        self, user: str, config: Mapping[str, str]
    ) -> Mapping[str, ScramCredential]:
        found = {}
        for mechanism in MECHANISMS.values():
            text = config.get(mechanism.kafka_name)
            if text is None:
                continue
            try:
                found[mechanism.kafka_name] = parse_credential(text)
            except ValueError as error:
                self._log.error(
                    "credential_malformed",
                    user=user,
                    mechanism=mechanism.kafka_name,
                    error=str(error),
                )
        return found
