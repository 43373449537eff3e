"""DescribeClientQuotas and AlterClientQuotas (keys 48 and 49): limits kept in ZooKeeper.

Any broker serves them. ``broker/admin/quota_znodes`` makes every broker apply the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minikafka.core.security.acls import AclOperation
from minikafka.core.security.client_quotas import (
    CLIENT_ID,
    CLIENT_KEYS,
    DEFAULT_NAME,
    IP,
    IP_KEYS,
    USER,
    Entity,
    QuotaFilter,
    QuotaOp,
    altered,
    check_stored,
    desanitized,
    limits_of,
    place_of,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import BadVersion, CoordinationError, Network
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotas,
    AlteredQuotasResult,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuotas,
    QuotaEntity,
    QuotaValue,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES
from minikafka.server.broker.apis.guards import needs_or
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore


class DescribeClientQuotasHandler:
    """Serves DescribeClientQuotas (a ``TaskHandler``)."""

    def __init__(self, store: Callable[[], ZkStore], log: EventLog | None = None) -> None:
        self._store = store
        self._log = log or event_log("client-quotas")

    async def __call__(
        self, context: RequestContext, request: DescribeClientQuotasRequest
    ) -> DescribeClientQuotasResponse:
        try:
            quota_filter = QuotaFilter.of(
                [(row.entity_type, row.match_type, row.match) for row in request.components],
                request.strict,
            )
            found = [*await self._users_and_clients(quota_filter), *await self._ips(quota_filter)]
        except KafkaError as error:
            return DescribeClientQuotasResponse(
                error_code=error.code, error_message=error.message, entries=None
            )
        except (CoordinationError, MalformedZnode) as error:
            self._log.warning("quotas_not_described", error=repr(error))
            return DescribeClientQuotasResponse(
                error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None, entries=None
            )
        return DescribeClientQuotasResponse(
            entries=[
                DescribedQuotas(_entity_rows(entity), [QuotaValue(*row) for row in limits.items()])
                for entity, limits in found
                if limits and quota_filter.matches(entity)
            ]
        )

    async def _users_and_clients(
        self, quota_filter: QuotaFilter
    ) -> list[tuple[Entity, dict[str, float]]]:
        """Return the limits of matching users and clients. Raises KafkaError, CoordinationError,
        MalformedZnode."""
        found: list[tuple[Entity, dict[str, float]]] = []
        users: list[str] = []
        if quota_filter.may_match(USER) or quota_filter.may_match(USER, CLIENT_ID):
            users = await self._names(paths.USER_CONFIGS, quota_filter.only(USER))
        if quota_filter.may_match(USER):
            for user, config in (await self._configs(paths.USER_CONFIGS, users)).items():
                found.append(({USER: desanitized(user)}, limits_of(config, CLIENT_KEYS)))
        if quota_filter.may_match(CLIENT_ID):
            clients = await self._names(paths.CLIENT_CONFIGS, quota_filter.only(CLIENT_ID))
            for client, config in (await self._configs(paths.CLIENT_CONFIGS, clients)).items():
                found.append(({CLIENT_ID: desanitized(client)}, limits_of(config, CLIENT_KEYS)))
        if quota_filter.may_match(USER, CLIENT_ID):
            pairs = await self._pairs(users, quota_filter.only(CLIENT_ID))
            for pair, config in (await self._configs(paths.USER_CONFIGS, pairs)).items():
                user, _, client = pair.split("/")
                entity = {USER: desanitized(user), CLIENT_ID: desanitized(client)}
                found.append((entity, limits_of(config, CLIENT_KEYS)))
        return found

    async def _ips(self, quota_filter: QuotaFilter) -> list[tuple[Entity, dict[str, float]]]:
        if not quota_filter.may_match(IP):
            return []
        ips = await self._names(paths.IP_CONFIGS, quota_filter.only(IP))
        configs = await self._configs(paths.IP_CONFIGS, ips)
        return [({IP: desanitized(ip)}, limits_of(c, IP_KEYS)) for ip, c in configs.items()]

    async def _names(self, root: str, only: str | None) -> list[str]:
        if only is None:
            return await self._store().configured_entities(root)
        return [only] if only else []  # no znode has an empty name

    async def _pairs(self, users: list[str], only_client: str | None) -> list[str]:
        if only_client is not None:
            clients = [[only_client] if only_client else []] * len(users)
        else:
            clients = await self._store().configured_children(
                paths.USER_CONFIGS, users, paths.CLIENT_CONFIGS
            )
        return [
            f"{user}/{paths.CLIENT_CONFIGS}/{client}"
            for user, names in zip(users, clients, strict=True)
            for client in names
        ]

    async def _configs(self, root: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
        return await self._store().entity_configs(root, names)


class AlterClientQuotasHandler:
    """Serves AlterClientQuotas (a ``TaskHandler``).

    An entity that fails does not stop the others."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        network: Network,
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._network = network
        self._log = log or event_log("client-quotas")

    async def __call__(
        self, context: RequestContext, request: AlterClientQuotasRequest
    ) -> AlterClientQuotasResponse:
        """Alter the quotas. One result per entity; an entity that is named twice has the last."""
        results: dict[tuple[tuple[str, str | None], ...], AlteredQuotasResult] = {}
        for row in request.entries:
            entity = {part.entity_type: part.entity_name for part in row.entity}
            code, message = await self._outcome(entity, row, request.validate_only)
            parts = tuple(sorted(entity.items(), key=lambda part: _kafka_order(part[0])))
            results[parts] = AlteredQuotasResult(code, message, _entity_rows(dict(parts)))
        return AlterClientQuotasResponse(entries=list(results.values()))

    async def _outcome(
        self, entity: Entity, row: AlteredQuotas, validate_only: bool
    ) -> tuple[ErrorCode, str | None]:
        try:
            await self._alter(
                entity,
                [QuotaOp(op.key, None if op.remove else op.value) for op in row.ops],
                validate_only,
            )
        except KafkaError as error:
            return error.code, error.message
        except (CoordinationError, MalformedZnode) as error:
            self._log.warning("quotas_not_altered", entity=dict(entity), error=repr(error))
            return ErrorCode.UNKNOWN_SERVER_ERROR, None
        return ErrorCode.NONE, None

    async def _alter(self, entity: Entity, ops: Sequence[QuotaOp], validate_only: bool) -> None:
        """Raises KafkaError, CoordinationError, MalformedZnode."""
        place = place_of(entity)
        if IP in entity and not await self._is_ip(place.name):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{place.name} is not a valid IP or resolvable host."
            )
        store = self._store()
        while True:
            before, version = await store.entity_config_version(place.root, place.name)
            after = altered(before, ops, place)
            if validate_only:
                return
            check_stored(after, place.stored)
            try:
                await store.change_or_remove_entity(place.root, place.name, after, version)
            except BadVersion:
                continue  # altered by another broker since the read
            self._log.info("quotas_altered", entity=dict(entity), keys=sorted(after))
            return

    async def _is_ip(self, znode: str) -> bool:
        """Whether the znode's name is the default entity, an IP address or a resolvable host name.
        Like Kafka, this resolves the encoded name, so that IPv6 addresses are refused."""
        return znode == DEFAULT_NAME or await self._network.resolves(znode)


def _kafka_order(entity_type: str) -> tuple[int, str]:
    """Return the sort key by which the entity types have the order of Kafka's hash map."""
    known = (CLIENT_ID, USER, IP)
    return known.index(entity_type) if entity_type in known else len(known), entity_type


def _entity_rows(entity: Entity) -> list[QuotaEntity]:
    return [QuotaEntity(kind, name) for kind, name in entity.items()]


def _refused_quotas(
    _: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    rows = [
        AlteredQuotasResult(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            MESSAGES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED],
            row.entity,
        )
        for row in request.entries
    ]
    return AlterClientQuotasResponse(entries=rows)


DESCRIBE_CLIENT_QUOTAS = Api(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    handler=lambda broker: DescribeClientQuotasHandler(broker.store),
    task=True,
    authorization=needs_or(
        AclOperation.DESCRIBE_CONFIGS,
        lambda _, __: DescribeClientQuotasResponse(
            0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, None
        ),
    ),
    quota=Quota.REQUESTS,
    changes_state=False,
)

ALTER_CLIENT_QUOTAS = Api(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    handler=lambda broker: AlterClientQuotasHandler(broker.store, broker.world.network),
    task=True,
    authorization=needs_or(AclOperation.ALTER_CONFIGS, _refused_quotas),
    quota=Quota.REQUESTS,
    changes_state=False,
)
