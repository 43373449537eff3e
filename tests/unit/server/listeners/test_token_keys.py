"""The keys for signed tokens: loaded on time, after a rotation, and kept when there are no new."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.core.security.jose_signatures import JoserfcLibrary
from minikafka.core.security.jwt_validator import SecuredValidator
from minikafka.core.security.sasl.oauthbearer import BearerToken
from minikafka.server.listeners.token_keys import TokenKeys, TokenKeysConfig
from tests.support.security.logins import WALL_MS
from tests.support.security.signed_tokens import EC, OTHER, key_set, signed
from tests.support.world.manual_clock import ManualClock
from tests.support.world.recording_log import RecordingLog

HOUR_MS = 3_600_000
OLD, NEW = signed(EC, "ES256"), signed(OTHER, "ES256")


async def turns() -> None:
    """Let the tasks go on until they wait for the clock."""
    for _ in range(20):
        await asyncio.sleep(0)


class Endpoint:
    """A JWKS endpoint, whose response is ``keys``."""

    def __init__(self, refresh_ms: int | None) -> None:
        self.keys: bytes | OSError = key_set(EC)
        self.reads = 0
        self.clock = ManualClock()
        self.log = RecordingLog()
        config = TokenKeysConfig(refresh_ms, 100, 1000)
        validator = SecuredValidator(JoserfcLibrary())
        self.token_keys = TokenKeys(config, validator, self._read, self.clock, self.log)

    async def _read(self) -> bytes:
        self.reads += 1
        if isinstance(self.keys, OSError):
            raise self.keys
        return self.keys

    def accepts(self, token: str) -> bool:
        return isinstance(self.token_keys.validate(token, WALL_MS), BearerToken)

    async def pass_ms(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)
        await turns()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint(HOUR_MS)
    async with asyncio.TaskGroup() as tasks:
        await made.token_keys.load()
        made.token_keys.start(tasks)
        await turns()
        yield made
        for task in list(tasks._tasks):
            task.cancel()


@pytest.mark.mission("SEC-120")
async def test_the_keys_are_loaded_again_in_time(endpoint: Endpoint) -> None:
    assert endpoint.accepts(OLD)
    endpoint.keys = key_set(OTHER)
    await endpoint.pass_ms(HOUR_MS - 1)
    assert endpoint.accepts(OLD)
    await endpoint.pass_ms(1)
    assert not endpoint.accepts(OLD)
    assert endpoint.accepts(NEW)
    assert endpoint.reads == 2


@pytest.mark.mission("SEC-120")
async def test_a_rotated_key_is_loaded_after_the_first_token_with_it(endpoint: Endpoint) -> None:
    endpoint.keys = key_set(EC, OTHER)
    assert not endpoint.accepts(NEW)
    await turns()
    assert endpoint.accepts(NEW)
    assert endpoint.accepts(OLD)


@pytest.mark.mission("SEC-120")
async def test_strangers_cannot_make_the_broker_load_keys_often(endpoint: Endpoint) -> None:
    for _ in range(10):
        assert not endpoint.accepts(NEW)
        await turns()
    assert endpoint.reads == 2
    await endpoint.pass_ms(60_000)
    assert not endpoint.accepts(NEW)
    await turns()
    assert endpoint.reads == 3


@pytest.mark.mission("SEC-120")
async def test_the_old_keys_stay_in_use_while_the_endpoint_is_down(endpoint: Endpoint) -> None:
    endpoint.keys = OSError("refused")
    assert not endpoint.accepts(NEW)
    await turns()
    for _ in range(20):
        await endpoint.pass_ms(100)
    assert endpoint.reads == 6  # after 100, 200, 400, 300 ms, which are 1000 together
    assert endpoint.log.reasons() == ["refused"]
    assert endpoint.accepts(OLD)
    endpoint.keys = b"no JWK set"
    await endpoint.pass_ms(HOUR_MS)
    await endpoint.pass_ms(100)
    assert endpoint.accepts(OLD)
    endpoint.keys = key_set(OTHER)
    for _ in range(10):
        await endpoint.pass_ms(100)
    assert endpoint.accepts(NEW)


@pytest.mark.mission("SEC-120")
async def test_keys_of_a_file_are_read_once() -> None:
    made = Endpoint(None)
    async with asyncio.TaskGroup() as tasks:
        await made.token_keys.load()
        made.token_keys.start(tasks)
    assert not made.accepts(NEW)
    assert made.accepts(OLD)
    assert made.clock.timers == []


async def test_keys_that_cannot_be_used_are_logged_once() -> None:
    made = Endpoint(None)
    made.keys = b'{"keys":[{"kty":"oct"}]}'
    await made.token_keys.load()
    await made.token_keys.load()
    assert [event for _, event, _ in made.log.events] == ["token_keys_left_out"]


@pytest.mark.mission("SEC-183")
async def test_the_keys_of_a_removed_listener_are_not_loaded_again(endpoint: Endpoint) -> None:
    endpoint.token_keys.close()
    await turns()
    await endpoint.pass_ms(HOUR_MS)
    assert endpoint.reads == 1
