"""A Network whose connections to other nodes begin with a login by Kerberos (GSSAPI)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from minikafka.core.security.kerberos_login import ServiceLogin
from minikafka.core.security.sasl.exchange import ClientExchange
from minikafka.core.security.sasl.gssapi import GssapiClient
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.kerberos import Initiation, Kerberos, KerberosError
from minikafka.kernel.ports import Clock, Entropy, Network, OutgoingLogin
from minikafka.network.sasl_network import ChannelLogin, SaslNetwork


class KerberosChannelLogin(ChannelLogin):
    """A ``ChannelLogin`` that has a ticket before it begins."""

    def __init__(
        self, login: ServiceLogin, kerberos: Kerberos, clock: Clock, entropy: Entropy
    ) -> None:
        super().__init__(self._exchange, clock, entropy)
        self._service_login = login
        self._kerberos = kerberos
        self._begun: Initiation | None = None

    def preparation(self, host: str) -> Coroutine[Any, Any, None] | None:
        return self._prepare(host)

    async def _prepare(self, host: str) -> None:
        login = self._service_login
        try:
            self._begun = await self._kerberos.initiate(login.identity, login.service, host)
        except KerberosError as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error

    def _exchange(self, nonce: str, wall_ms: int) -> ClientExchange:
        begun, self._begun = self._begun, None
        assert begun is not None, "a login begins after its preparation"
        return GssapiClient(begun)


class KerberosNetwork(SaslNetwork):
    def __init__(
        self,
        network: Network,
        login: ServiceLogin,
        kerberos: Kerberos,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        super().__init__(network, _without_ticket, clock, entropy)
        self._service_login = login
        self._kerberos = kerberos

    def new_login(self) -> OutgoingLogin:
        return KerberosChannelLogin(self._service_login, self._kerberos, self._clock, self._entropy)


def _without_ticket(nonce: str, wall_ms: int) -> ClientExchange:
    raise AssertionError("an exchange of GSSAPI needs a ticket")
