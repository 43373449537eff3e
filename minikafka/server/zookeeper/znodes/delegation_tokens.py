"""Znodes of delegation tokens. The secret of a token is not in its znode."""

from __future__ import annotations

from typing import Final

from minikafka.core.security.client_quotas import desanitized, sanitized
from minikafka.core.security.delegation_tokens import DelegationToken
from minikafka.kernel.principals import Principal, parse_principal
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.znodes.acls import name_is_storable
from minikafka.server.zookeeper.znodes.json_form import Fields, encode_json

TOKEN_VERSION: Final = 3
FIRST_VERSION_WITH_REQUESTER: Final = 3


def token_path(token_id: str) -> str:
    return f"{paths.DELEGATION_TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """Encode a token, with the keys in the order of Kafka's map."""
    return encode_json(
        {
            "issueTimestamp": token.issue_ms,
            "renewers": [sanitized(str(renewer)) for renewer in token.renewers],
            "tokenRequester": sanitized(str(token.requester)),
            "tokenId": token.token_id,
            "owner": sanitized(str(token.owner)),
            "expiryTimestamp": token.expiry_ms,
            "maxTimestamp": token.max_ms,
            "version": TOKEN_VERSION,
        }
    )


def decode_token(path: str, data: bytes) -> DelegationToken:
    """Decode a token of version 1 to 3. Before version 3 the owner was the requester. Raises
    ``MalformedZnode``."""
    fields = Fields(path, data)
    version = fields.integer("version")
    if not 1 <= version <= TOKEN_VERSION:
        raise fields.broken(f"version {version} is not supported")
    owner = _principal(fields, fields.text("owner"))
    requester = owner
    if version >= FIRST_VERSION_WITH_REQUESTER:
        requester = _principal(fields, fields.text("tokenRequester"))
    return DelegationToken(
        fields.text("tokenId"),
        owner,
        requester,
        tuple(_principal(fields, text) for text in fields.texts("renewers")),
        fields.long("issueTimestamp"),
        fields.long("maxTimestamp"),
        fields.long("expiryTimestamp"),
    )


def _principal(fields: Fields, text: str) -> Principal:
    try:
        return parse_principal(desanitized(text) or "")
    except ValueError as error:
        raise fields.broken(str(error)) from error


def decode_token_notice(path: str, data: bytes) -> str:
    """Return the id of the token that has changed. Raises ``MalformedZnode``."""
    try:
        token_id = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedZnode(path, data, "not UTF-8") from error
    if not name_is_storable(token_id):
        raise MalformedZnode(path, data, "no id of a token")
    return token_id
