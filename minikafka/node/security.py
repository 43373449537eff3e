"""The routes of the security APIs: ACLs, SASL, delegation tokens, quotas, SCRAM credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from minikafka.broker.admin.delegation_tokens import DelegationTokens
from minikafka.broker.requests.routes import Route
from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.ports import Network
from minikafka.node.late_handler import LateHandler
from minikafka.protocol.api_keys import ApiKey
from minikafka.zookeeper.store import ZkStore

if TYPE_CHECKING:
    from minikafka.broker.requests.authorization.authorization import Authorization
    from minikafka.broker.requests.security import (
        acls,
        client_quotas,
        delegation_tokens,
        refusals,
        scram_credentials,
    )
else:
    acls = LazyModule("minikafka.broker.requests.security.acls")
    client_quotas = LazyModule("minikafka.broker.requests.security.client_quotas")
    delegation_tokens = LazyModule("minikafka.broker.requests.security.delegation_tokens")
    refusals = LazyModule("minikafka.broker.requests.security.refusals")
    scram_credentials = LazyModule("minikafka.broker.requests.security.scram_credentials")


def security_routes(
    store: Callable[[], ZkStore],
    is_controller: Callable[[], bool],
    network: Network,
    authorization: Authorization | None,
    tokens: DelegationTokens,
    protocols: Mapping[str, str],
) -> list[Route]:
    """Return the routes. Without an authorizer, or a key of tokens, some refuse all requests.
    ``protocols`` are the security protocols by listener."""
    handshake = LateHandler(lambda: refusals.refuse_sasl_handshake)
    authenticate = LateHandler(lambda: refusals.refuse_sasl_authentication)
    describe_quotas = LateHandler(lambda: client_quotas.DescribeClientQuotasHandler(store))
    alter_quotas = LateHandler(lambda: client_quotas.AlterClientQuotasHandler(store, network))
    describe_scram = LateHandler(
        lambda: scram_credentials.DescribeUserScramCredentialsHandler(store)
    )
    alter_scram = LateHandler(
        lambda: scram_credentials.AlterUserScramCredentialsHandler(is_controller, store)
    )
    return [
        Route(ApiKey.SASL_HANDSHAKE, handshake, changes_state=False),
        Route(ApiKey.SASL_AUTHENTICATE, authenticate, changes_state=False),
        *acl_routes(authorization),
        *token_routes(tokens, authorization, protocols),
        Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, describe_quotas, task=True, changes_state=False),
        Route(ApiKey.ALTER_CLIENT_QUOTAS, alter_quotas, task=True, changes_state=False),
        Route(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, describe_scram, task=True, changes_state=False
        ),
        Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, alter_scram, task=True, changes_state=False),
    ]


def acl_routes(authorization: Authorization | None) -> list[Route]:
    """Return the routes of the ACL APIs, which are refused without an authorizer."""
    if authorization is None:
        return [
            Route(
                ApiKey.DESCRIBE_ACLS,
                LateHandler(lambda: refusals.refuse_acl_description),
                changes_state=False,
            ),
            Route(
                ApiKey.CREATE_ACLS,
                LateHandler(lambda: refusals.refuse_acl_creation),
                changes_state=False,
            ),
            Route(
                ApiKey.DELETE_ACLS,
                LateHandler(lambda: refusals.refuse_acl_deletion),
                changes_state=False,
            ),
        ]
    handlers = acls.AclHandlers(authorization)
    return [
        Route(ApiKey.DESCRIBE_ACLS, handlers.describe, changes_state=False),
        Route(ApiKey.CREATE_ACLS, handlers.create, changes_state=False),
        Route(ApiKey.DELETE_ACLS, handlers.delete, changes_state=False),
    ]


def token_routes(
    tokens: DelegationTokens, authorization: Authorization | None, protocols: Mapping[str, str]
) -> list[Route]:
    """Return the routes of the delegation token APIs, whose handlers share one object."""

    @cache
    def handlers() -> delegation_tokens.DelegationTokenHandlers:
        return delegation_tokens.DelegationTokenHandlers(tokens, authorization, protocols)

    create = LateHandler(lambda: handlers().create)
    renew = LateHandler(lambda: handlers().renew)
    expire = LateHandler(lambda: handlers().expire)
    describe = LateHandler(lambda: handlers().describe)
    return [
        Route(ApiKey.CREATE_DELEGATION_TOKEN, create, task=True, changes_state=False),
        Route(ApiKey.RENEW_DELEGATION_TOKEN, renew, task=True, changes_state=False),
        Route(ApiKey.EXPIRE_DELEGATION_TOKEN, expire, task=True, changes_state=False),
        Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, describe, task=True, changes_state=False),
    ]
