"""Create-, Renew-, Expire- and DescribeDelegationToken (keys 38 to 41). Any broker serves them.

As in Kafka, tokens may be requested over an authenticated connection only, and not by one that has
logged in with a token itself. This is checked first, and then whether there are tokens at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.security.delegation_tokens import DelegationToken, renewers_error
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import CoordinationError
from minikafka.kernel.principals import ANONYMOUS, Principal
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from minikafka.server.broker.admin.delegation_tokens import DelegationTokens
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.quotas import Quota

NO_TIMESTAMP: Final = -1
FIRST_VERSION_WITH_REQUESTER: Final = 3


class DelegationTokenHandlers:
    """The handlers of the four APIs, each a ``TaskHandler``. ``protocols`` are the security
    protocols by listener."""

    def __init__(
        self,
        tokens: DelegationTokens,
        authorization: Authorization | None,
        protocols: Mapping[str, str],
        log: EventLog | None = None,
    ) -> None:
        self._tokens = tokens
        self._authorization = authorization
        self._protocols = protocols
        self._log = log or event_log("delegation-tokens")

    # -------------------------------------------------------------------------------------- create

    async def create(
        self, context: RequestContext, request: CreateDelegationTokenRequest
    ) -> CreateDelegationTokenResponse:
        requester = owner = context.principal
        if request.owner_principal_name:
            if request.owner_principal_type is None:  # a principal needs a type
                return _created(context, ErrorCode.UNKNOWN_SERVER_ERROR, ANONYMOUS, ANONYMOUS)
            owner = Principal(request.owner_principal_name, request.owner_principal_type)
        renewers = [Principal(row.principal_name, row.principal_type) for row in request.renewers]
        error = self._refusal(context)
        if error is ErrorCode.NONE and owner != requester:
            error = self._refusal_of_other_owner(context, owner)
        if error is ErrorCode.NONE:
            error = renewers_error(renewers)
        if error is ErrorCode.NONE and not self._tokens.enabled:
            error = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        if error is not ErrorCode.NONE:
            return _created(context, error, owner, requester)
        try:
            token = await self._tokens.create(owner, requester, renewers, request.max_lifetime_ms)
        except CoordinationError as failure:
            return _created(context, self._failed(failure), ANONYMOUS, ANONYMOUS)
        response = _created(context, ErrorCode.NONE, owner, requester)
        response.issue_timestamp_ms = token.issue_ms
        response.expiry_timestamp_ms = token.expiry_ms
        response.max_timestamp_ms = token.max_ms
        response.token_id = token.token_id
        response.hmac = self._tokens.hmac_of(token)
        return response

    def _refusal_of_other_owner(self, context: RequestContext, owner: Principal) -> ErrorCode:
        if self._is_allowed(context, AclOperation.CREATE_TOKENS, AclResourceType.USER, str(owner)):
            return ErrorCode.NONE
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

    # ----------------------------------------------------------------------------- renew and expire

    async def renew(
        self, context: RequestContext, request: RenewDelegationTokenRequest
    ) -> RenewDelegationTokenResponse:
        error, expiry_ms = self._refusal_if_disabled(context), NO_TIMESTAMP
        if error is ErrorCode.NONE:
            try:
                expiry_ms = await self._tokens.renew(
                    context.principal, bytes(request.hmac), request.renew_period_ms
                )
            except (KafkaError, CoordinationError) as failure:
                error = self._failed(failure)
        return RenewDelegationTokenResponse(error, expiry_ms)

    async def expire(
        self, context: RequestContext, request: ExpireDelegationTokenRequest
    ) -> ExpireDelegationTokenResponse:
        error, expiry_ms = self._refusal_if_disabled(context), NO_TIMESTAMP
        if error is ErrorCode.NONE:
            try:
                expiry_ms = await self._tokens.expire(
                    context.principal, bytes(request.hmac), request.expiry_time_period_ms
                )
            except (KafkaError, CoordinationError) as failure:
                error = self._failed(failure)
        return ExpireDelegationTokenResponse(error, expiry_ms)

    # ------------------------------------------------------------------------------------ describe

    async def describe(
        self, context: RequestContext, request: DescribeDelegationTokenRequest
    ) -> DescribeDelegationTokenResponse:
        """Describe the tokens of the owners in the request, of everybody without owners, as far as
        the requester may see them."""
        error = self._refusal_if_disabled(context)
        if error is not ErrorCode.NONE:
            return DescribeDelegationTokenResponse(error)
        owners = None
        if request.owners is not None:
            owners = {Principal(row.principal_name, row.principal_type) for row in request.owners}
        rows = []
        tokens = self._tokens.tokens() if owners is None or owners else []
        async for token in in_slices(tokens):
            if owners is not None and not token.concerns(owners):
                continue
            if self._may_see(context, token):
                rows.append(self._described(context, token))
        return DescribeDelegationTokenResponse(tokens=rows)

    def _may_see(self, context: RequestContext, token: DelegationToken) -> bool:
        return (
            token.concerns((context.principal,))
            or self._is_allowed(
                context, AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id
            )
            or self._is_allowed(
                context, AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, str(token.owner)
            )
        )

    def _described(
        self, context: RequestContext, token: DelegationToken
    ) -> DescribedDelegationToken:
        row = DescribedDelegationToken(
            token.owner.type,
            token.owner.name,
            issue_timestamp=token.issue_ms,
            expiry_timestamp=token.expiry_ms,
            max_timestamp=token.max_ms,
            token_id=token.token_id,
            hmac=self._tokens.hmac_of(token),
            renewers=[
                DescribedDelegationTokenRenewer(renewer.type, renewer.name)
                for renewer in token.renewers
            ],
        )
        if context.version >= FIRST_VERSION_WITH_REQUESTER:
            row.token_requester_principal_type = token.requester.type
            row.token_requester_principal_name = token.requester.name
        return row

    # -------------------------------------------------------------------------------------- checks

    def _refusal(self, context: RequestContext) -> ErrorCode:
        """Return why this connection may not request tokens; NONE if it may."""
        protocol = self._protocols[context.listener]
        is_anonymous = protocol == "SSL" and context.principal == ANONYMOUS
        if context.principal.by_token or protocol == "PLAINTEXT" or is_anonymous:
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ErrorCode.NONE

    def _refusal_if_disabled(self, context: RequestContext) -> ErrorCode:
        error = self._refusal(context)
        if error is ErrorCode.NONE and not self._tokens.enabled:
            return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return error

    def _is_allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        """As in Kafka, everything is allowed without an authorizer."""
        if self._authorization is None:
            return True
        return self._authorization.is_allowed(context, operation, resource_type, name)

    def _failed(self, failure: KafkaError | CoordinationError) -> ErrorCode:
        if isinstance(failure, KafkaError):
            return failure.code
        self._log.warning("tokens_not_changed", error=repr(failure))
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _created(
    context: RequestContext, error: ErrorCode, owner: Principal, requester: Principal
) -> CreateDelegationTokenResponse:
    """Return a response without a token."""
    response = CreateDelegationTokenResponse(
        error,
        owner.type,
        owner.name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
    if context.version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = requester.type
        response.token_requester_principal_name = requester.name
    return response


def _handlers(broker: Services) -> DelegationTokenHandlers:
    return DelegationTokenHandlers(broker.tokens, broker.authorization, broker.protocols)


CREATE_DELEGATION_TOKEN = Api(
    key=ApiKey.CREATE_DELEGATION_TOKEN,
    handler=lambda broker: _handlers(broker).create,
    task=True,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=False,
)

RENEW_DELEGATION_TOKEN = Api(
    key=ApiKey.RENEW_DELEGATION_TOKEN,
    handler=lambda broker: _handlers(broker).renew,
    task=True,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=False,
)

EXPIRE_DELEGATION_TOKEN = Api(
    key=ApiKey.EXPIRE_DELEGATION_TOKEN,
    handler=lambda broker: _handlers(broker).expire,
    task=True,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=False,
)

DESCRIBE_DELEGATION_TOKEN = Api(
    key=ApiKey.DESCRIBE_DELEGATION_TOKEN,
    handler=lambda broker: _handlers(broker).describe,
    task=True,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=False,
)
