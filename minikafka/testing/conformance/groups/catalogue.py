"""All checks, by the name of their group, in the order in which they are shown."""

from __future__ import annotations

from types import MappingProxyType, ModuleType
from typing import Final

from minikafka.testing.conformance.check import Check
from minikafka.testing.conformance.groups import (
    admin,
    api_versions,
    classic_groups,
    configs,
    consumer_groups,
    fetch,
    fetch_sessions,
    frames,
    idempotence,
    leader_epochs,
    list_offsets,
    metadata,
    offsets,
    produce,
    record_formats,
    share_groups,
    transactions,
)


def checks_of(module: ModuleType) -> tuple[Check, ...]:
    return tuple(each for each in vars(module).values() if isinstance(each, Check))


ALL: Final = MappingProxyType(
    {
        "api-versions": checks_of(api_versions),
        "frames": checks_of(frames),
        "metadata": checks_of(metadata),
        "produce": checks_of(produce),
        "record-formats": checks_of(record_formats),
        "idempotence": checks_of(idempotence),
        "fetch": checks_of(fetch),
        "fetch-sessions": checks_of(fetch_sessions),
        "list-offsets": checks_of(list_offsets),
        "leader-epochs": checks_of(leader_epochs),
        "classic-groups": checks_of(classic_groups),
        "offsets": checks_of(offsets),
        "transactions": checks_of(transactions),
        "admin": checks_of(admin),
        "configs": checks_of(configs),
        "consumer-groups": checks_of(consumer_groups),
        "share-groups": checks_of(share_groups),
    }
)
