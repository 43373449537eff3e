"""Which message classes belong to an API key. A module of messages is imported at its first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.schema import Message

# The messages of these APIs share a module. Any other API has a module of its name.
_SHARED: Mapping[ApiKey, str] = MappingProxyType(
    {
        ApiKey.SASL_HANDSHAKE: "sasl",
        ApiKey.SASL_AUTHENTICATE: "sasl",
        ApiKey.DESCRIBE_ACLS: "acls",
        ApiKey.CREATE_ACLS: "acls",
        ApiKey.DELETE_ACLS: "acls",
        ApiKey.CREATE_DELEGATION_TOKEN: "delegation_tokens",
        ApiKey.RENEW_DELEGATION_TOKEN: "delegation_tokens",
        ApiKey.EXPIRE_DELEGATION_TOKEN: "delegation_tokens",
        ApiKey.DESCRIBE_DELEGATION_TOKEN: "delegation_tokens",
        ApiKey.DESCRIBE_CLIENT_QUOTAS: "client_quotas",
        ApiKey.ALTER_CLIENT_QUOTAS: "client_quotas",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "scram_credentials",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "scram_credentials",
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "share_group_offsets",
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: "share_group_offsets",
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: "share_group_offsets",
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: "share_group_state",
        ApiKey.READ_SHARE_GROUP_STATE: "share_group_state",
        ApiKey.WRITE_SHARE_GROUP_STATE: "share_group_state",
        ApiKey.DELETE_SHARE_GROUP_STATE: "share_group_state",
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "share_group_state",
    }
)


def module_name(api_key: ApiKey) -> str:
    """Return the name of the module of an API's messages in this package: ``offset_delete``."""
    return _SHARED.get(api_key, api_key.name.lower())


class MessageClasses(Mapping[ApiKey, type[Message]]):
    """The request or the response class of each API, by its name: ``kind`` is its end."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._found: dict[ApiKey, type[Message]] = {}

    def __getitem__(self, api_key: ApiKey) -> type[Message]:
        found = self._found.get(api_key)
        if found is None:
            module = import_module(f"{__package__}.{module_name(api_key)}")
            found = getattr(module, f"{api_key.api_name}{self._kind}")
            self._found[api_key] = found
        return found

    def __iter__(self) -> Iterator[ApiKey]:
        return iter(ApiKey)

    def __len__(self) -> int:
        return len(ApiKey)


REQUESTS: Mapping[ApiKey, type[Message]] = MessageClasses("Request")
RESPONSES: Mapping[ApiKey, type[Message]] = MessageClasses("Response")


def version_range(api_key: ApiKey) -> tuple[int, int]:
    """The versions, both ends included, that the codec knows."""
    return api_key.first_version, api_key.max_version


def response_class(request: Message | type[Message]) -> type[Message]:
    """The class that answers ``request``, which may be a class or a message."""
    api_key = request.SPEC.api_key
    assert api_key is not None
    return RESPONSES[api_key]
