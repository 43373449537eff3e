"""Describe- and AlterUserScramCredentials (keys 50 and 51): credentials kept in ZooKeeper.

Any broker describes them, the controller alters them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from minikafka.core.security import scram_credentials as scram
from minikafka.core.security.acls import AclOperation
from minikafka.core.security.client_quotas import USER_KEYS, check_stored, desanitized, sanitized
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import BadVersion, CoordinationError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, ApiGuard, before, knowing, needs_or
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.quotas import Quota
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore

UNEXPECTED = "The server experienced an unexpected error when processing the request."


class DescribeUserScramCredentialsHandler:
    """Serves DescribeUserScramCredentials (a ``TaskHandler``)."""

    def __init__(self, store: Callable[[], ZkStore], log: EventLog | None = None) -> None:
        self._store = store
        self._log = log or event_log("scram-credentials")

    async def __call__(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        try:
            if request.users:
                results = await self._named([row.name for row in request.users])
            else:
                results = await self._all()
        except (CoordinationError, MalformedZnode) as error:
            self._log.warning("credentials_not_described", error=repr(error))
            return DescribeUserScramCredentialsResponse(
                error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=UNEXPECTED
            )
        return DescribeUserScramCredentialsResponse(results=results)

    async def _all(self) -> list[DescribeUserScramCredentialsResult]:
        znodes = await self._store().configured_entities(paths.USER_CONFIGS)
        configs = await self._store().entity_configs(paths.USER_CONFIGS, znodes)
        found = {desanitized(znode) or "": configs[znode] for znode in znodes}
        return [
            _described(user, found[user])
            for user in sorted(found, key=_java_order)
            if _has_credential(found[user])
        ]

    async def _named(self, names: Sequence[str]) -> list[DescribeUserScramCredentialsResult]:
        """Return one result per name, also for a name that the request has twice."""
        times = Counter(names)
        readable = [name for name in times if name and times[name] == 1]
        configs = await self._store().entity_configs(
            paths.USER_CONFIGS, [sanitized(name) for name in readable]
        )
        results = []
        for name, count in times.items():
            refusal = None
            if not name:
                refusal = scram.ScramRefusal(ErrorCode.RESOURCE_NOT_FOUND, scram.NO_USER_NAME)
            elif count > 1:
                refusal = scram.ScramRefusal(
                    ErrorCode.DUPLICATE_RESOURCE,
                    f"Cannot describe SCRAM credentials for the same user twice in a single "
                    f"request: {name}",
                )
            elif not _has_credential(configs[sanitized(name)]):
                refusal = scram.ScramRefusal(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    f"Attempt to describe a user credential that does not exist: {name}",
                )
            if refusal is not None:
                results.append(DescribeUserScramCredentialsResult(name, *refusal))
            else:
                results.append(_described(name, configs[sanitized(name)]))
        return results


def _has_credential(config: Mapping[str, str]) -> bool:
    return any(mechanism.kafka_name in config for mechanism in scram.MECHANISMS.values())


def _described(user: str, config: Mapping[str, str]) -> DescribeUserScramCredentialsResult:
    try:
        infos = [
            CredentialInfo(code, scram.iterations_of(config[mechanism.kafka_name]))
            for code, mechanism in scram.MECHANISMS.items()
            if mechanism.kafka_name in config
        ]
    except ValueError:
        return DescribeUserScramCredentialsResult(user, ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
    return DescribeUserScramCredentialsResult(user, credential_infos=infos)


class AlterUserScramCredentialsHandler:
    """Serves AlterUserScramCredentials (a ``TaskHandler``).

    Requests contain salted passwords that the client has derived, never passwords."""

    def __init__(
        self,
        is_controller: Callable[[], bool],
        store: Callable[[], ZkStore],
        log: EventLog | None = None,
    ) -> None:
        self._is_controller = is_controller
        self._store = store
        self._log = log or event_log("scram-credentials")

    async def __call__(
        self, context: RequestContext, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        deletions = [scram.Deletion(row.name, row.mechanism) for row in request.deletions]
        upsertions = [
            scram.Upsertion(row.name, row.mechanism, row.iterations, row.salt, row.salted_password)
            for row in request.upsertions
        ]
        users = dict.fromkeys([e.user for e in upsertions] + [e.user for e in deletions])
        if not self._is_controller():
            error = ErrorCode.NOT_CONTROLLER
            return _results(dict.fromkeys(sorted(users, key=_java_order), (error, None)))
        results: dict[str, tuple[ErrorCode, str | None]] = dict(
            scram.refusals(deletions, upsertions)
        )
        for user in users:
            if user not in results:
                results[user] = await self._outcome(
                    user,
                    [entry for entry in deletions if entry.user == user],
                    [entry for entry in upsertions if entry.user == user],
                )
        return _results(results)

    async def _outcome(
        self, user: str, deletions: list[scram.Deletion], upsertions: list[scram.Upsertion]
    ) -> tuple[ErrorCode, str | None]:
        name, store = sanitized(user), self._store()
        try:
            while True:
                before, version = await store.entity_config_version(paths.USER_CONFIGS, name)
                after = scram.altered(before, deletions, upsertions)
                if isinstance(after, scram.ScramRefusal):
                    return after
                check_stored(after, USER_KEYS)
                try:
                    await store.change_or_remove_entity(paths.USER_CONFIGS, name, after, version)
                except BadVersion:
                    continue  # altered by another broker since the read
                break
        except (CoordinationError, MalformedZnode, KafkaError) as error:
            self._log.warning("credentials_not_altered", user=user, error=repr(error))
            return ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED
        self._log.info("credentials_altered", user=user)
        return ErrorCode.NONE, ""


def _results(
    results: Mapping[str, tuple[ErrorCode, str | None]],
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, *row) for user, row in results.items()]
    )


def _java_order(text: str) -> bytes:
    """Return the sort key of Java's ``String.compareTo``, which compares UTF-16 code units."""
    return text.encode("utf-16-be", errors="surrogatepass")


def _refused_credentials(
    _: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """As in Kafka the rows do not name the users."""
    row = DescribeUserScramCredentialsResult("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    rows = [row] * len(request.users or ())
    return DescribeUserScramCredentialsResponse(
        0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, rows
    )


def _guard(broker: Services) -> ApiGuard:
    async def admit(
        authorization: Authorization,
        context: RequestContext,
        request: AlterUserScramCredentialsRequest,
    ) -> Admitted:
        if not broker.is_controller() or authorization.on_cluster(context, AclOperation.ALTER):
            return Admitted(request)
        users = {row.name for row in request.deletions} | {row.name for row in request.upsertions}
        rows = [
            AlterUserScramCredentialsResult(user, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
            for user in sorted(users)
        ]
        return Admitted(None, response=AlterUserScramCredentialsResponse(results=rows))

    return before(admit)


DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    handler=lambda broker: DescribeUserScramCredentialsHandler(broker.store),
    task=True,
    authorization=needs_or(AclOperation.DESCRIBE, _refused_credentials),
    quota=Quota.REQUESTS,
    changes_state=False,
)

ALTER_USER_SCRAM_CREDENTIALS = Api(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    handler=lambda broker: AlterUserScramCredentialsHandler(broker.is_controller, broker.store),
    task=True,
    authorization=knowing(_guard),
    quota=Quota.REQUESTS,
    changes_state=False,
    to_controller=True,
)
