"""GET requests of a broker: the body, or an error that says what is wrong."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import (
    MAX_BODY_BYTES,
    HttpGetConnection,
    HttpUrl,
    file_of_url,
    http_get,
)
from minikafka.world.real.network import RealNetwork
from tests.support.network.http_end import HttpEnd, response
from tests.support.security.certificates import Authority

NO_TLS = TlsSettings()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[bytes], HttpEnd]]:
    ends: list[HttpEnd] = []

    def make(reply: bytes) -> HttpEnd:
        ends.append(HttpEnd(reply))
        return ends[-1]

    yield make
    for end in ends:
        end.stop()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://h", HttpUrl("http", "h", 80, "/")),
        ("HTTPS://H/a?b=c#d", HttpUrl("https", "h", 443, "/a?b=c")),
        ("http://[::1]:8080/x", HttpUrl("http", "::1", 8080, "/x")),
    ],
)
def test_an_address(text: str, url: HttpUrl) -> None:
    assert HttpUrl.parse(text) == url
    assert file_of_url(text) is None
    assert file_of_url("file:///a%20b/keys") == "/a b/keys"


@pytest.mark.parametrize(
    "text", ["", "h/keys", "ftp://h/", "http://", "http://u:p@h/", "http://h:99999/", "http://h/ü"]
)
def test_addresses_that_cannot_be_requested(text: str) -> None:
    with pytest.raises(ValueError):
        HttpUrl.parse(text)


@pytest.mark.parametrize(
    "reply",
    [
        response(b"keys"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nke\r\n2\r\nys\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nkeys",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + response(b"keys"),
    ],
    ids=["length", "chunks", "until the end", "after hints"],
)
async def test_the_body_of_a_response(serve: Callable[[bytes], HttpEnd], reply: bytes) -> None:
    end = serve(reply)
    url = HttpUrl("http", "127.0.0.1", await end.start(), "/keys?x=1")
    assert await http_get(RealNetwork(), url, NO_TLS) == b"keys"
    (request,) = end.requests
    assert request.startswith("GET /keys?x=1 HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{url.port}\r\n" in request


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (response(b"", "404 Not Found"), "status 404"),
        (response(b"", "302 Found", "Location: /x\r\n"), "status 302"),
        (response(b"x" * (MAX_BODY_BYTES + 1)), "more than"),
        (response(b"keys")[:-1], "malformed"),
        (b"SSH-2.0\r\n\r\n", "malformed"),
        (b"", "malformed|closed"),
    ],
    ids=["status", "redirection", "size", "cut off", "protocol", "nothing"],
)
async def test_responses_that_are_errors(
    serve: Callable[[bytes], HttpEnd], reply: bytes, reason: str
) -> None:
    end = serve(reply)
    url = HttpUrl("http", "127.0.0.1", await end.start(), "/")
    with pytest.raises(OSError, match=reason):
        await http_get(RealNetwork(), url, NO_TLS)
    end.stop()
    with pytest.raises(OSError):
        await http_get(RealNetwork(), url._replace(port=1), NO_TLS)


async def test_a_kept_connection_serves_many_requests(serve: Callable[[bytes], HttpEnd]) -> None:
    end = serve(response(b"keys"))
    end.closes_after = 3
    url = HttpUrl("http", "127.0.0.1", await end.start(), "/")
    connection = HttpGetConnection(RealNetwork, url, NO_TLS)
    for number in range(3):
        assert await connection.get(f"/{number}") == b"keys"
    assert end.connections == 1
    assert [request.split()[1] for request in end.requests] == ["/0", "/1", "/2"]
    while not connection.is_closed:  # by the server  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert await connection.get("/3") == b"keys"
    assert end.connections == 2
    connection.close()


async def test_a_kept_connection_is_opened_again_after_an_error(
    serve: Callable[[bytes], HttpEnd],
) -> None:
    end = serve(response(b"", "404 Not Found"))
    end.closes_after = 3
    url = HttpUrl("http", "127.0.0.1", await end.start(), "/")
    connection = HttpGetConnection(RealNetwork, url, NO_TLS)
    with pytest.raises(OSError, match="status 404"):
        await connection.get("/")
    end.reply = response(b"keys")
    assert await connection.get("/") == b"keys"
    assert end.connections == 2
    connection.close()


async def test_https_needs_a_trusted_certificate(
    serve: Callable[[bytes], HttpEnd], tmp_path: Path
) -> None:
    authority = Authority()
    identity = authority.issue("idp", ("127.0.0.1",))
    (tmp_path / "chain").write_bytes(identity.chain_pem)
    (tmp_path / "key").write_bytes(identity.key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain", tmp_path / "key")
    end = serve(response(b"keys"))
    url = HttpUrl("https", "127.0.0.1", await end.start(context), "/")
    assert await http_get(RealNetwork(), url, TlsSettings(trusted=authority.pem)) == b"keys"
    with pytest.raises(OSError):
        await http_get(RealNetwork(), url, TlsSettings(trusted=Authority().pem))
