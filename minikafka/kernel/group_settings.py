"""The keys of the config resource GROUP. Each overrides a key of the broker for one group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from minikafka.kernel.config import (
    ConfigDef,
    ConfigType,
    at_least,
    one_of,
    row_of,
)

_BY_DURATION: Final = re.compile(
    r"by_duration:P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE
)
_int = row_of(ConfigType.INT)
_string = row_of(ConfigType.STRING)


def _reset_strategy(value: str) -> str | None:
    if value in ("earliest", "latest") or _BY_DURATION.fullmatch(value):
        return None
    return "Value must be earliest, latest or by_duration:PnDTnHnMnS"


# fmt: off
GROUP_CONFIG: Final = ConfigDef.of((
    _int("consumer.heartbeat.interval.ms", 5000, "Heartbeat interval of the members of this consumer group.", at_least(1)),
    _int("consumer.session.timeout.ms", 45000, "Session time-out of the members of this consumer group.", at_least(1)),
    _string("share.auto.offset.reset", "latest", "Where a share-partition without a state starts: earliest, latest, or by_duration: and an ISO 8601 duration before the present.", _reset_strategy),
    _int("share.heartbeat.interval.ms", 5000, "Heartbeat interval of the members of this share group.", at_least(1)),
    _string("share.isolation.level", "read_uncommitted", "Whether this share group gets records of transactions that are not committed.", one_of("read_committed", "read_uncommitted")),
    _int("share.record.lock.duration.ms", 30000, "How long this share group acquires records.", at_least(1000)),
    _int("share.session.timeout.ms", 45000, "Session time-out of the members of this share group.", at_least(1)),
    _int("streams.heartbeat.interval.ms", 5000, "Heartbeat interval of the members of this streams group.", at_least(1)),
    _int("streams.initial.rebalance.delay.ms", 3000, "How long this streams group waits for more members after the first, when it is empty.", at_least(0)),
    _int("streams.num.standby.replicas", 0, "Standby tasks for each task with state of this streams group.", at_least(0)),
    _int("streams.session.timeout.ms", 45000, "Session time-out of the members of this streams group.", at_least(1)),
))
# fmt: on

# The keys without a default at the broker.
_WITHOUT_BROKER_KEY: Final = frozenset({"share.auto.offset.reset", "share.isolation.level"})
# The broker's key that applies to groups for which a key is not set.
BROKER_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {key: f"group.{key}" for key in GROUP_CONFIG.settings if key not in _WITHOUT_BROKER_KEY}
)
