"""Create-, Renew-, Expire- and DescribeDelegationToken (keys 38 to 41, KIP-48)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    LOOK_UPS,
    ORDINARY,
    Bytes,
    In,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class CreatableRenewers:
    """A principal that may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@dataclass(slots=True)
class CreateDelegationTokenRequest(Message):
    """The requester becomes the owner unless version 3 names another. ``max_lifetime_ms`` -1 means
    the broker's maximum."""

    SPEC = request(ApiKey.CREATE_DELEGATION_TOKEN, WHOLE, max_elements=LOOK_UPS)

    owner_principal_type: Annotated[String | None, In("3+")] = ""
    owner_principal_name: Annotated[String | None, In("3+")] = ""
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: Int64 = 0


@dataclass(slots=True)
class CreateDelegationTokenResponse(Message):
    """The new token. After an error the timestamps are -1."""

    SPEC = response(ApiKey.CREATE_DELEGATION_TOKEN)

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, In("3+")] = ""
    token_requester_principal_name: Annotated[String, In("3+")] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0


@dataclass(slots=True)
class RenewDelegationTokenRequest(Message):
    """A negative period means the broker's default."""

    SPEC = request(ApiKey.RENEW_DELEGATION_TOKEN, WHOLE, max_elements=ORDINARY)

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@dataclass(slots=True)
class RenewDelegationTokenResponse(Message):
    """The new expiry time, -1 after an error."""

    SPEC = response(ApiKey.RENEW_DELEGATION_TOKEN)

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@dataclass(slots=True)
class ExpireDelegationTokenRequest(Message):
    """A negative period removes the token at once."""

    SPEC = request(ApiKey.EXPIRE_DELEGATION_TOKEN, WHOLE, max_elements=ORDINARY)

    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@dataclass(slots=True)
class ExpireDelegationTokenResponse(Message):
    """The new expiry time, -1 after an error."""

    SPEC = response(ApiKey.EXPIRE_DELEGATION_TOKEN)

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@dataclass(slots=True)
class DescribeDelegationTokenOwner:
    """A principal whose tokens are listed."""

    principal_type: String = ""
    principal_name: String = ""


@dataclass(slots=True)
class DescribeDelegationTokenRequest(Message):
    """Null lists the tokens of every owner, an empty list none."""

    SPEC = request(ApiKey.DESCRIBE_DELEGATION_TOKEN, WHOLE, max_elements=LOOK_UPS)

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribedDelegationTokenRenewer:
    """A principal that may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@dataclass(slots=True)
class DescribedDelegationToken:
    """One token, with its secret."""

    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, In("3+")] = ""
    token_requester_principal_name: Annotated[String, In("3+")] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


@dataclass(slots=True)
class DescribeDelegationTokenResponse(Message):
    """The tokens that the requester may see."""

    SPEC = response(ApiKey.DESCRIBE_DELEGATION_TOKEN)

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
