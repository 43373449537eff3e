"""The token of an application's function: when it is called, and which tokens are refused."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.kernel.client_security import OAuthToken
from minikafka.network.oauth_tokens import RETRIES, RETRY_MS, OAuthTokens
from tests.support.world.manual_clock import ManualClock
from tests.support.world.recording_log import RecordingLog

LIFE_MS = 100_000
SECRET = "a.secret-token"
pytestmark = pytest.mark.mission("SEC-173")


class Provider:
    """Returns tokens that live ``LIFE_MS``. ``failure`` is raised instead, if it is set."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.calls = 0
        self.failure: Exception | None = None
        self.release = asyncio.Event()
        self.release.set()

    async def __call__(self) -> OAuthToken:
        self.calls += 1
        await self.release.wait()
        if self.failure is not None:
            raise self.failure
        return OAuthToken(f"{SECRET}{self.calls}", self.clock.wall_ms() + LIFE_MS)


@pytest.fixture
def provider() -> Provider:
    return Provider(ManualClock())


@pytest.fixture
def log() -> RecordingLog:
    return RecordingLog()


@pytest.fixture
def tokens(provider: Provider, log: RecordingLog) -> OAuthTokens:
    return OAuthTokens(provider, provider.clock, 5_000, log)


def sent(tokens: OAuthTokens) -> bytes:
    return tokens.exchange("nonce", 0).initial_response()


async def test_a_token_is_requested_once_and_again_before_it_expires(
    provider: Provider, tokens: OAuthTokens
) -> None:
    await asyncio.gather(*(tokens.refresh() for _ in range(5)))
    assert provider.calls == 1
    assert sent(tokens) == b"n,,\x01auth=Bearer a.secret-token1\x01\x01"
    provider.clock.advance(LIFE_MS * 79 // 100)
    await tokens.refresh()
    assert tokens.ready()
    assert provider.calls == 1
    provider.clock.advance(LIFE_MS * 2 // 100)
    await tokens.refresh()
    assert provider.calls == 2
    assert b"token2" in sent(tokens)


async def test_a_re_authentication_waits_for_the_fresh_token(
    provider: Provider, tokens: OAuthTokens
) -> None:
    await tokens.refresh()
    provider.clock.advance(LIFE_MS * 85 // 100)
    assert not tokens.ready()
    assert not tokens.ready()
    await tokens.refresh()
    assert tokens.ready()
    assert provider.calls == 2


async def test_a_failed_refresh_leaves_a_valid_token_and_is_repeated(
    provider: Provider, tokens: OAuthTokens, log: RecordingLog
) -> None:
    await tokens.refresh()
    provider.clock.advance(LIFE_MS * 85 // 100)
    provider.failure = OSError("the endpoint is down")
    await tokens.refresh()
    assert b"token1" in sent(tokens)
    (event,) = log.named("token_refresh_failed")
    assert "OSError: the endpoint is down" in str(event)
    provider.failure = None
    provider.clock.advance(RETRY_MS)
    await tokens.refresh()
    assert b"token3" in sent(tokens)


async def test_without_a_valid_token_a_failure_is_an_error(
    provider: Provider, tokens: OAuthTokens
) -> None:
    provider.failure = OSError("the endpoint is down")
    for failures in range(2):
        with pytest.raises(ConnectionError, match=r"failed: OSError: the endpoint is down"):
            await tokens.refresh()
        provider.clock.advance(RETRIES.delay_ms(failures, 0))
    provider.failure = None
    await tokens.refresh()
    assert provider.calls == 3
    provider.failure = OSError("the endpoint is down")
    provider.clock.advance(LIFE_MS)
    with pytest.raises(ConnectionError, match="the endpoint is down"):
        await tokens.refresh()


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (None, "NoneType instead of OAuthToken"),
        (SECRET, "str instead of OAuthToken"),
        (OAuthToken(SECRET, 1), "a token that has expired"),
        (OAuthToken(f"{SECRET}\x01auth=Bearer x", 2**62), "characters that cannot be sent"),
        (OAuthToken(SECRET, 2**62, {"auth": SECRET}), "an extension that cannot be sent"),
    ],
)
async def test_an_invalid_token_is_refused_and_not_shown(token: object, problem: str) -> None:
    tokens = OAuthTokens(lambda: token, ManualClock(), 5_000)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConnectionError, match=problem) as raised:
        await tokens.refresh()
    assert SECRET not in str(raised.value)


async def test_a_provider_that_is_no_coroutine_function_is_fine() -> None:
    tokens = OAuthTokens(lambda: OAuthToken(SECRET, 2**62, {"traceId": "7"}), ManualClock(), 5_000)
    await tokens.refresh()
    assert sent(tokens) == b"n,,\x01auth=Bearer a.secret-token\x01traceId=7\x01\x01"


async def test_a_provider_that_hangs_ends_with_the_time_out_and_with_the_client(
    provider: Provider,
) -> None:
    provider.release.clear()
    tokens = OAuthTokens(provider, provider.clock, 10)
    with pytest.raises(ConnectionError, match="returned no token within 10 ms"):
        await tokens.refresh()
    closed = OAuthTokens(provider, provider.clock, 60_000)
    waiting = asyncio.ensure_future(closed.refresh())
    await asyncio.sleep(0)
    closed.close()
    await closed.wait_closed()
    with pytest.raises(ConnectionError, match="closed"):
        await waiting


def test_a_token_is_not_shown() -> None:
    assert SECRET not in repr(OAuthToken(SECRET, 1, {"e": SECRET}))
