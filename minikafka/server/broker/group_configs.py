"""The settings of groups, as this broker has read them from ZooKeeper (``/config/groups``)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from minikafka.core.group.settings import GroupSettings
from minikafka.core.security.client_quotas import desanitized, sanitized
from minikafka.kernel.config import Config, ConfigError, view_of
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.group_limits import check_group, group_values
from minikafka.kernel.ports import SessionExpired
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore

_KIND: Final = paths.GROUP_CONFIGS


class GroupConfigs:
    """The settings of the groups for which any is set (Kafka's ``GroupConfigManager``).

    It is one of the ``NamedConfigs``: notifications of changes end in ``refresh``. ``broker``
    returns the broker's current settings."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        broker: Callable[[], Config],
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._broker = broker
        self._log = log or event_log("group-configs")
        self._settings: dict[str, GroupSettings] = {}

    def settings(self, group_id: str) -> GroupSettings | None:
        """Return the settings of a group; None if none is set."""
        return self._settings.get(group_id)

    async def read(self, group_id: str) -> None:
        """Read the settings of a group now: the notification of a change may be on its way. If the
        ZooKeeper session ends they stay as they are, until those of all groups are read in the
        next one."""
        with suppress(SessionExpired):
            await self.refresh([sanitized(group_id)])

    async def refresh_all(self) -> None:
        znodes = await self._store().configured_entities(_KIND)
        await self.refresh({*znodes, *map(sanitized, self._settings)})

    async def refresh(self, znodes: Collection[str]) -> None:
        """Read the settings of these groups again. What is malformed, or beyond the limits of this
        broker, leaves a group as it was."""
        for znode in sorted(znodes):
            name = desanitized(znode)
            if name is None:
                continue
            try:
                given = await self._store().entity_config(_KIND, znode)
                check_group(given, self._broker())
                values = group_values(given, self._broker())
            except (MalformedZnode, ConfigError) as error:
                self._log.error("group_settings_malformed", group=name, error=str(error))
                continue
            if given:
                self._settings[name] = view_of(GroupSettings, values)
            else:
                self._settings.pop(name, None)
