"""The routes of the security APIs: ACLs, SASL, delegation tokens, quotas, SCRAM credentials."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.broker.requests.apis import Route
from minikafka.broker.requests.authorization.authorization import Authorization
from minikafka.broker.requests.security import refusals
from minikafka.broker.requests.security.acls import AclHandlers
from minikafka.broker.requests.security.client_quotas import (
    AlterClientQuotasHandler,
    DescribeClientQuotasHandler,
)
from minikafka.broker.requests.security.delegation_tokens import DelegationTokenHandlers
from minikafka.broker.requests.security.scram_credentials import (
    AlterUserScramCredentialsHandler,
    DescribeUserScramCredentialsHandler,
)
from minikafka.kernel.ports import Network
from minikafka.protocol.api_keys import ApiKey
from minikafka.zookeeper.store import ZkStore


def acl_routes(authorization: Authorization | None) -> list[Route]:
    """Return the routes of the ACL APIs, which are refused without an authorizer."""
    if authorization is None:
        return [
            Route(ApiKey.DESCRIBE_ACLS, refusals.refuse_acl_description, changes_state=False),
            Route(ApiKey.CREATE_ACLS, refusals.refuse_acl_creation, changes_state=False),
            Route(ApiKey.DELETE_ACLS, refusals.refuse_acl_deletion, changes_state=False),
        ]
    acls = AclHandlers(authorization)
    return [
        Route(ApiKey.DESCRIBE_ACLS, acls.describe, changes_state=False),
        Route(ApiKey.CREATE_ACLS, acls.create, changes_state=False),
        Route(ApiKey.DELETE_ACLS, acls.delete, changes_state=False),
    ]


def security_routes(
    store: Callable[[], ZkStore],
    is_controller: Callable[[], bool],
    network: Network,
    authorization: Authorization | None,
    tokens: DelegationTokenHandlers,
) -> list[Route]:
    """Return the routes. Without an authorizer, or a key of tokens, some refuse all requests."""
    describe_quotas = DescribeClientQuotasHandler(store)
    alter_quotas = AlterClientQuotasHandler(store, network)
    describe_scram = DescribeUserScramCredentialsHandler(store)
    alter_scram = AlterUserScramCredentialsHandler(is_controller, store)
    return [
        Route(ApiKey.SASL_HANDSHAKE, refusals.refuse_sasl_handshake, changes_state=False),
        Route(ApiKey.SASL_AUTHENTICATE, refusals.refuse_sasl_authentication, changes_state=False),
        *acl_routes(authorization),
        Route(ApiKey.CREATE_DELEGATION_TOKEN, tokens.create, task=True, changes_state=False),
        Route(ApiKey.RENEW_DELEGATION_TOKEN, tokens.renew, task=True, changes_state=False),
        Route(ApiKey.EXPIRE_DELEGATION_TOKEN, tokens.expire, task=True, changes_state=False),
        Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, tokens.describe, task=True, changes_state=False),
        Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, describe_quotas, task=True, changes_state=False),
        Route(ApiKey.ALTER_CLIENT_QUOTAS, alter_quotas, task=True, changes_state=False),
        Route(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, describe_scram, task=True, changes_state=False
        ),
        Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, alter_scram, task=True, changes_state=False),
    ]
