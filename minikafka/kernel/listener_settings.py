"""The configuration keys of a single listener that may change while it is open."""

from __future__ import annotations

from typing import Final

from minikafka.kernel.config import ConfigType, Setting, at_least, row_of

_MAX_INT = 2**31 - 1
_int = row_of(ConfigType.INT)

# Limits of one listener, with its prefix. Without the prefix they count for each listener, and for
# all together.
LIMITS_OF_LISTENERS: tuple[Setting, ...] = (
    _int("max.connections", _MAX_INT, "Most connections of the listener at a time.", at_least(1)),
    _int("max.connection.creation.rate", _MAX_INT, "Most new connections a second.", at_least(1)),
)
# The stores of TLS (Kafka's ``SslConfigs.RECONFIGURABLE_CONFIGS``). They may be altered for one
# listener, at one broker.
_KEY_STORE = "type location password key certificate.chain"
TLS_STORES: Final = frozenset(
    (
        "ssl.key.password",
        *(f"ssl.keystore.{name}" for name in _KEY_STORE.split()),
        *(f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates")),
    )
)
# Keys that may have the prefix of a listener in the settings of all brokers.
LIMITS_OF_A_LISTENER: Final = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)
CHANGED_WHILE_OPEN: Final = TLS_STORES | LIMITS_OF_A_LISTENER
