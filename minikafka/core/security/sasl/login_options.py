"""With what a client, or a broker at another one, logs in: a mechanism and its JAAS options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from minikafka.core.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from minikafka.core.security.sasl import oauthbearer, plain
from minikafka.core.security.sasl.exchange import ClientExchange
from minikafka.core.security.sasl.oauthbearer import OAuthBearerClient, unsecured_token
from minikafka.core.security.sasl.plain import PlainClient
from minikafka.core.security.sasl.scram import ScramClient
from minikafka.core.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, Mechanism
from minikafka.kernel.lazy_dataclass import dataclass

SCRAM_MECHANISMS: Final[Mapping[str, Mechanism]] = MappingProxyType(
    {mechanism.kafka_name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
)
# The login module of each supported mechanism.
MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        plain.MECHANISM: PLAIN_MODULE,
        **dict.fromkeys(SCRAM_MECHANISMS, SCRAM_MODULE),
        oauthbearer.MECHANISM: OAUTHBEARER_MODULE,
    }
)


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """A mechanism of ``MODULES``, and the options of its JAAS entry."""

    mechanism: str
    options: Mapping[str, str] = field(repr=False)

    def problem(self) -> str | None:
        """Return what is wrong with the options, without a secret; None if they can be used."""
        if self.mechanism == oauthbearer.MECHANISM:
            try:
                usable = unsecured_token(self.options, 0) is not None
            except ValueError as error:
                return f"cannot be used: {error}"
            return None if usable else "has no unsecuredLogin options to log in with"
        missing = [name for name in ("username", "password") if not self.options.get(name)]
        return f"has no {missing[0]} to log in with" if missing else None

    def exchange(self, nonce: str, wall_ms: int) -> ClientExchange:
        """Begin a login. ``nonce`` is of ``scram_nonce``, and never used twice."""
        if self.mechanism == oauthbearer.MECHANISM:
            return OAuthBearerClient(unsecured_token(self.options, wall_ms) or "")
        user, password = self.options["username"], self.options["password"]
        if self.mechanism == plain.MECHANISM:
            return PlainClient(user, password)
        by_token = self.options.get("tokenauth", "").lower() == "true"
        return ScramClient(SCRAM_MECHANISMS[self.mechanism], user, password, nonce, by_token)
