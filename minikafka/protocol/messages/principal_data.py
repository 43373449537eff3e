"""The principal of a forwarded request, as Kafka's default principal builder serializes it."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import Bool, Message, String, data


@dataclass(slots=True)
class DefaultPrincipalData(Message):
    """Has its version in front (``protocol.versioned``). ``token_authenticated``: the client logged
    in with a delegation token."""

    SPEC = data("0", flexible="0+")

    type: String = ""
    name: String = ""
    token_authenticated: Bool = False
