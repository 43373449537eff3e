"""The HTTP server in a simulated world: good and bad requests, and peers that misbehave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.server.listeners.http_server import (
    BadQuery,
    HttpConfig,
    HttpText,
    Query,
    Route,
    names_loopback,
)
from minikafka.world.sim.links import LinkProfile
from tests.support.network.http_lab import PORT, HttpLab, get, responses


def echo(query: Query) -> Any:
    if "bad" in query:
        raise BadQuery("bad is bad")
    return dict(query)


ROUTES: dict[str, Route] = {"/echo.json": echo, "/big.json": lambda query: "x" * 300_000}
SMALL = HttpConfig(max_connections=3, max_request_bytes=2_000, request_timeout_ms=5_000)


def exchange(data: bytes, seed: int = 1) -> bytes:
    """What comes back when all that is sent is ``data``."""
    lab = HttpLab(ROUTES, SMALL, seed)

    async def play(lab: HttpLab) -> bytes:
        answer = await lab.ask(data)
        assert lab.seconds() < 1, "nothing had to time out"
        await asyncio.sleep(1)
        assert lab.server.connection_count == 0
        return answer

    return bytes(lab.run(play))


def test_a_known_path_returns_json() -> None:
    (response,) = responses(exchange(get("/echo.json?limit=5&empty=&a=1&a=%C3%A9")))
    assert response.status == 200
    assert response.json == {"limit": "5", "empty": "", "a": "é"}
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"


def test_head_says_how_much_it_would_be() -> None:
    with_body = responses(exchange(get("/echo.json?a=1")))[0]
    (without,) = responses(exchange(get("/echo.json?a=1", method="HEAD")), without_body=True)
    assert (without.status, without.headers, without.body) == (200, with_body.headers, b"")


@pytest.mark.parametrize(
    ("request_bytes", "status", "words"),
    [
        (get("/nothing"), 404, "no such path"),
        (get("/"), 404, "no such path"),
        (get("//[x"), 404, "no such path"),
        (get("/echo.json", method="DELETE"), 405, "GET and HEAD only"),
        (get("/echo.json", "Content-Length: 0", method="POST"), 405, "GET and HEAD only"),
        (get("/echo.json", "Content-Length: 5", method="POST") + b"hello", 413, "bodies"),
        (get("/echo.json", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 413, "bodies"),
        (get("/echo.json", "Content-Length: 5, 6"), 400, "Content-Length"),
        (get("/echo.json?bad=1"), 400, "bad is bad"),
        (get("/echo.json?" + "&".join(f"p{i}=" for i in range(21))), 400, "parameters"),
        (get("/echo.json", "X: " + "y" * 20_000), 431, "too long"),
        (get("/" + "y" * 20_000), 431, "too long"),
        (b"GET /echo.json HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET /echo.json HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "loopback"),
        (b"nonsense\r\n\r\n", 400, "illegal request line"),
        (b"\x00\x01\x02\r\n\r\n", 400, "illegal request line"),
        (get("/echo.json", "broken header"), 400, "illegal header line"),
        (get("/\x80"), 400, "illegal request line"),
        (get("example.com:443", method="CONNECT"), 404, "no such path"),
    ],
)
def test_invalid_requests_return_their_error_status(
    request_bytes: bytes, status: int, words: str
) -> None:
    (response,) = responses(exchange(request_bytes))
    assert response.status == status
    assert words in response.json["error"]
    assert ("allow" in response.headers) == (status == 405)


def test_an_unknown_path_lists_the_known_paths() -> None:
    assert responses(exchange(get("/")))[0].json["paths"] == list(ROUTES)


def test_pipelined_requests_get_responses_in_order() -> None:
    asked = b"".join(get(f"/echo.json?n={n}") for n in range(50))
    assert [r.json["n"] for r in responses(exchange(asked))] == [str(n) for n in range(50)]


def test_a_bad_request_ends_the_pipeline_after_earlier_responses() -> None:
    asked = get("/echo.json?n=1") + get("/nothing") + b"bad\r\n\r\n" + get("/echo.json?n=2")
    assert [r.status for r in responses(exchange(asked))] == [200, 404, 400]


@pytest.mark.parametrize(
    "last",
    [get("/echo.json", "Connection: close"), get("/echo.json", version="1.0")],
)
def test_the_last_request_of_a_connection(last: bytes) -> None:
    (response,) = responses(exchange(last + get("/echo.json")))
    assert (response.status, response.headers["connection"]) == (200, "close")


def test_one_connection_serves_many_requests() -> None:
    async def play(lab: HttpLab) -> None:
        end = await lab.connect()
        for number in range(1, 20):
            end.transport.write(get(f"/echo.json?n={number:02}"))
            await asyncio.sleep(1)
            assert len(responses(end.seen)) == number
        end.transport.close()

    HttpLab(ROUTES, SMALL).run(play)


def test_a_refusal_reaches_a_peer_that_is_still_sending() -> None:
    async def play(lab: HttpLab) -> None:
        end = await lab.connect()
        for _ in range(100):
            end.transport.write(b"y" * 5_000)
        answer = await lab.until_end(end)
        assert [r.status for r in responses(answer)] == [431]

    HttpLab(ROUTES, SMALL, profile=LinkProfile(window_bytes=10_000)).run(play)


def test_a_peer_that_never_stops_sending_is_cut_off() -> None:
    async def play(lab: HttpLab) -> None:
        end = await lab.connect()
        for _ in range(400):
            end.transport.write(b"y" * 5_000)
        assert isinstance(await end.lost(), ConnectionResetError)

    HttpLab(ROUTES, SMALL).run(play)


class TestPeersThatTakeTheirTime:
    @pytest.mark.mission("SAFE-25")
    def test_a_silent_one_is_disconnected_before_one_that_has_begun_a_request(self) -> None:
        async def play(lab: HttpLab) -> None:
            begun = await lab.connect()
            begun.transport.write(b"GET /echo.json")
            await asyncio.sleep(1)
            silent = await lab.connect()
            await silent.lost()
            assert not begun.eof.is_set()
            assert lab.server.connection_count == 1
            begun.transport.write(b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            (response,) = responses(await lab.until_end(begun))
            assert response.status == 200

        config = HttpConfig(first_byte_timeout_ms=1_000, request_timeout_ms=5_000)
        HttpLab(ROUTES, config).run(play)

    @pytest.mark.mission("SAFE-25")
    def test_one_that_says_nothing(self) -> None:
        async def play(lab: HttpLab) -> None:
            end = await lab.connect()
            await end.lost()
            assert 5 <= lab.seconds() < 5.1

        HttpLab(ROUTES, SMALL).run(play)

    def test_one_that_sends_byte_by_byte(self) -> None:
        async def play(lab: HttpLab) -> None:
            end = await lab.connect()
            for byte in get("/echo.json", "X: " + "y" * 1_000):
                end.transport.write(bytes([byte]))
                await asyncio.sleep(0.01)
                if lab.seconds() > 5.1:
                    break
            await end.lost()
            assert end.seen == b""
            assert lab.server.connection_count == 0

        HttpLab(ROUTES, SMALL).run(play)

    def test_one_that_reads_nothing_gets_no_further_request_served(self) -> None:
        served = 0

        def count(query: Query) -> str:
            nonlocal served
            served += 1
            return "x" * 300_000

        async def play(lab: HttpLab) -> None:
            end = await lab.connect()
            end.transport.pause_reading()
            end.transport.write(get("/big.json") * 100)
            await asyncio.sleep(4)
            assert served < 4
            await asyncio.sleep(2)
            assert lab.server.connection_count == 0
            end.transport.abort()

        HttpLab({"/big.json": count}, SMALL, profile=LinkProfile(window_bytes=10_000)).run(play)

    def test_one_that_reads_slowly_gets_it_all(self) -> None:
        async def play(lab: HttpLab) -> None:
            end = await lab.connect(buffer_bytes=1_000)
            end.transport.write(get("/big.json") * 3)
            end.transport.write_eof()
            answers = responses(await lab.until_end(end))
            assert [len(r.json) for r in answers] == [300_000] * 3

        HttpLab(ROUTES, SMALL, profile=LinkProfile(window_bytes=10_000)).run(play)

    def test_a_client_that_does_not_close_after_the_response_is_disconnected(self) -> None:
        async def play(lab: HttpLab) -> None:
            end = await lab.connect()
            end.transport.write(get("/echo.json", "Connection: close"))
            await end.eof.wait()
            await end.lost()
            assert lab.seconds() < 5.1

        HttpLab(ROUTES, SMALL).run(play)


@pytest.mark.mission("SAFE-25")
def test_connections_beyond_the_limit_are_hung_up_on() -> None:
    async def play(lab: HttpLab) -> None:
        ends = [await lab.connect() for _ in range(5)]
        await asyncio.sleep(1)
        assert lab.server.connection_count == 3
        for end in ends:
            end.transport.close()
        await asyncio.sleep(1)
        assert [r.status for r in responses(await lab.ask(get("/echo.json")))] == [200]

    HttpLab(ROUTES, SMALL).run(play)


def test_closing_hangs_up_on_all() -> None:
    async def play(lab: HttpLab) -> None:
        end = await lab.connect()
        lab.server.close()
        await end.lost()
        with pytest.raises(ConnectionRefusedError):
            await lab.connect()

    HttpLab(ROUTES, SMALL).run(play)


def test_other_hosts_are_not_listened_to() -> None:
    async def play(lab: HttpLab) -> None:
        other = lab.simulation.host("other").world
        with pytest.raises(ConnectionRefusedError):
            await other.network.connect(asyncio.BufferedProtocol, "broker", PORT)

    HttpLab(ROUTES, SMALL).run(play)


PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            *(get("/echo.json"), get("/nothing"), get("/echo.json", method="HEAD")),
            *(b"\r\n", b"\r\n\r\n", b"GET ", b" HTTP/1.1\r\n", b"Host: localhost\r\n"),
            *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close"),
            *(b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"CONNECT a:1 HTTP/1.1\r\n"),
        ]
    ),
)


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECES, max_size=12), seed=st.integers(0, 1000))
def test_whatever_comes_in_it_neither_raises_nor_hangs(pieces: list[bytes], seed: int) -> None:
    async def play(lab: HttpLab) -> None:
        noise = await lab.connect()
        for piece in pieces:
            noise.transport.write(piece)
        noise.transport.write_eof()
        await lab.until_end(noise)
        assert lab.seconds() < 1
        await asyncio.sleep(1)
        assert lab.server.connection_count == 0
        assert [r.status for r in responses(await lab.ask(get("/echo.json")))] == [200]

    HttpLab(ROUTES, SMALL, seed).run(play)


@pytest.mark.parametrize(
    ("host", "fine"),
    [
        ("localhost", True),
        ("LocalHost:9192", True),
        ("127.0.0.1:9192", True),
        ("[::1]:9192", True),
        ("[::1]", True),
        ("localhost.example.com", False),
        ("192.168.0.1:9192", False),
        ("localhost:9192:1", False),
        ("", False),
    ],
)
def test_names_of_the_loopback(host: str, fine: bool) -> None:
    assert names_loopback(host) is fine


# -- routes that take a while, and texts


async def later(query: Query) -> Any:
    await asyncio.sleep(3)
    if "bad" in query:
        raise BadQuery("bad is bad")
    return HttpText(query.accept.encode(), "text/plain")


@pytest.mark.mission("GLASS-7")
def test_a_route_may_take_a_while_and_respond_with_a_text() -> None:
    lab = HttpLab({"/later": later, **ROUTES}, SMALL)

    async def play(lab: HttpLab) -> bytes:
        # The requests of one connection are served in order, others meanwhile.
        slow = asyncio.ensure_future(
            lab.ask(get("/later", "Accept: text/x") + get("/later?bad=1") + get("/echo.json"))
        )
        await lab.ask(get("/echo.json"))
        assert lab.seconds() < 1
        return await slow

    first, second, third = responses(lab.run(play))
    assert (first.status, first.body) == (200, b"text/x")
    assert first.headers["content-type"] == "text/plain"
    assert (second.status, second.json) == (400, {"error": "bad is bad"})
    assert third.json == {}


@pytest.mark.mission("GLASS-7")
def test_a_route_ends_with_its_connection() -> None:
    ended = []

    async def forever(query: Query) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    lab = HttpLab({"/forever": forever}, SMALL)

    async def play(lab: HttpLab) -> None:
        end = await lab.connect()
        end.transport.write(get("/forever"))
        await asyncio.sleep(1)
        assert not ended
        end.transport.abort()
        await asyncio.sleep(1)
        assert ended == [True]
        # One that takes longer than a request may is disconnected, too.
        await lab.until_end(other := await asked(lab))
        assert other.seen == b""
        assert ended == [True, True]

    async def asked(lab: HttpLab) -> Any:
        end = await lab.connect()
        end.transport.write(get("/forever"))
        return end

    lab.run(play)
