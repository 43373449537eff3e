"""The real Kerberos library beside a real KDC: our two sides of GSSAPI, tickets and their ends."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.core.security.kerberos_names import KerberosShortNamer
from minikafka.core.security.sasl.exchange import (
    Challenge,
    Disconnect,
    Failure,
    ServerOutcome,
    Success,
)
from minikafka.core.security.sasl.gssapi import GssapiClient, GssapiServer
from minikafka.kernel.kerberos import HOW_TO_GET, Initiation, KerberosError, KerberosIdentity
from minikafka.kernel.principals import Principal
from minikafka.world.real.kerberos import RealKerberos
from tests.support.security.kdc import REALM, Kdc, why_there_is_no_kdc

MISSING = why_there_is_no_kdc()
needs_kdc = [
    pytest.mark.kerberos,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.xdist_group("kdc"),
    pytest.mark.mission("SEC-160"),
]
SERVICE = "kafka/localhost"
BRIEF_S = 2


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    principals = ["alice", "brief", "kafka/other", SERVICE]
    home = tmp_path_factory.mktemp("kdc")
    with Kdc(home, principals, {"brief": BRIEF_S}) as kdc:
        yield kdc


@pytest.fixture
def kdc(realm: Kdc, monkeypatch: pytest.MonkeyPatch) -> Kdc:
    for name, text in realm.environment.items():
        monkeypatch.setenv(name, text)
    return realm


def identity(kdc: Kdc, principal: str) -> KerberosIdentity:
    return KerberosIdentity(f"{principal}@{REALM}", str(kdc.keytab(principal)))


def server(kdc: Kdc, principal: str = SERVICE) -> GssapiServer:
    kerberos = RealKerberos()
    accept = kerberos.acceptor(f"{principal}@{REALM}", str(kdc.keytab(principal)))
    namer = KerberosShortNamer(["DEFAULT"], kerberos.default_realm())
    return GssapiServer(accept(), namer.short_name)


async def begin(who: KerberosIdentity, host: str = "localhost") -> Initiation:
    return await RealKerberos().initiate(who, "kafka", host)


def log_in(begun: Initiation, service: GssapiServer) -> ServerOutcome:
    client = GssapiClient(begun)
    token = client.initial_response()
    while True:
        outcome = service.respond(token, 0)
        if not isinstance(outcome, Challenge):
            return outcome
        answer = client.respond(outcome.token)
        assert answer is not None
        token = answer


@pytest.mark.usefixtures("kdc")
class TestWithKdc:
    pytestmark = needs_kdc

    async def test_the_principal_is_that_of_the_ticket(self, kdc: Kdc) -> None:
        for principal, name in (("alice", "alice"), ("kafka/other", "kafka")):
            outcome = log_in(await begin(identity(kdc, principal)), server(kdc))
            assert outcome == Success(None, Principal(name))

    async def test_a_ticket_is_kept_and_replaced_when_it_ends(self, kdc: Kdc) -> None:
        assert isinstance(log_in(await begin(identity(kdc, "alice")), server(kdc)), Success)
        before = kdc.tickets_of("alice")
        assert isinstance(log_in(await begin(identity(kdc, "alice")), server(kdc)), Success)
        assert kdc.tickets_of("alice") == before > 0
        assert isinstance(log_in(await begin(identity(kdc, "brief")), server(kdc)), Success)
        before = kdc.tickets_of("brief")
        await asyncio.sleep(BRIEF_S)
        assert isinstance(log_in(await begin(identity(kdc, "brief")), server(kdc)), Success)
        assert kdc.tickets_of("brief") > before

    async def test_the_tickets_of_a_cache_are_used(self, kdc: Kdc, tmp_path: Path) -> None:
        import gssapi

        cache = f"FILE:{tmp_path / 'cache'}"
        gssapi.Credentials(
            name=gssapi.Name(f"alice@{REALM}", gssapi.NameType.kerberos_principal),
            usage="initiate",
            store={"client_keytab": str(kdc.keytab("alice")), "ccache": cache},
        )
        before = kdc.tickets_of("alice")
        begun = await begin(KerberosIdentity(None, ticket_cache=cache))
        assert log_in(begun, server(kdc)) == Success(None, Principal("alice"))
        assert kdc.tickets_of("alice") == before
        for wrong in (
            KerberosIdentity(None, ticket_cache=f"FILE:{tmp_path / 'none'}"),
            KerberosIdentity(f"brief@{REALM}", ticket_cache=cache),
        ):
            with pytest.raises(KerberosError):
                await begin(wrong)

    async def test_a_replayed_token_closes_the_connection(self, kdc: Kdc) -> None:
        token = (await begin(identity(kdc, "alice"))).token
        assert isinstance(server(kdc).respond(token, 0), Challenge)
        again = server(kdc).respond(token, 0)
        assert isinstance(again, Disconnect)
        assert "replay" in again.detail

    async def test_a_ticket_for_another_service_is_refused(self, kdc: Kdc) -> None:
        outcome = log_in(await begin(identity(kdc, "alice"), "other"), server(kdc))
        assert isinstance(outcome, Failure)
        assert outcome.message is None
        for rubbish in (b"", b"x", b"\x60\x82\x02\x00", bytes(70_000)):
            assert isinstance(server(kdc).respond(rubbish, 0), Failure)

    async def test_a_client_without_a_ticket_names_the_reason(self, kdc: Kdc) -> None:
        with pytest.raises(KerberosError, match=r"kafka/nobody@EXAMPLE\.COM not found"):
            await begin(identity(kdc, "alice"), "nobody")
        mallory = KerberosIdentity(f"mallory@{REALM}", str(kdc.keytab("alice")))
        with pytest.raises(KerberosError, match=r"no ticket of mallory@EXAMPLE\.COM by .*keytab: "):
            await begin(mallory)

    def test_a_service_needs_its_key(self, kdc: Kdc) -> None:
        kerberos = RealKerberos()
        assert kerberos.default_realm() == REALM
        with pytest.raises(KerberosError, match="No key table entry found for kafka/other"):
            kerberos.acceptor(f"kafka/other@{REALM}", str(kdc.keytab(SERVICE)))
        with pytest.raises(KerberosError, match="not found"):
            kerberos.acceptor(f"{SERVICE}@{REALM}", "/no/such/keytab")

    async def test_a_kdc_that_is_down_is_named(
        self, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = tmp_path / "krb5.conf"
        text = kdc.config.read_text()
        config.write_text(re.sub(r" kdc = \S+", " kdc = 127.0.0.1:1", text))
        monkeypatch.setenv("KRB5_CONFIG", str(config))
        with pytest.raises(KerberosError, match="Cannot contact any KDC"):
            await begin(identity(kdc, "kafka/other"), "other")

    def test_there_may_be_no_default_realm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KRB5_CONFIG", "/no/such/file")
        assert RealKerberos().default_realm() == ""


@pytest.mark.mission("SEC-160")
async def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    kerberos = RealKerberos()
    with pytest.raises(KerberosError) as caught:
        kerberos.require()
    assert str(caught.value) == HOW_TO_GET
    with pytest.raises(KerberosError):
        await kerberos.initiate(KerberosIdentity("alice"), "kafka", "localhost")
    with pytest.raises(KerberosError):
        kerberos.acceptor("kafka", "/keytab")
    with pytest.raises(KerberosError):
        kerberos.default_realm()
