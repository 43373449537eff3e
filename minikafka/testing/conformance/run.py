"""Run checks against a cluster, several at a time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import Release
from minikafka.testing.conformance.check import Check
from minikafka.testing.conformance.expectations import Broken, NotOffered
from minikafka.testing.conformance.subject import Address, Subject, TriedCluster

LIMIT_S = 20  # of one check
CLEAN_LIMIT_S = 10
AT_ONCE = 6
# What a profile demands is offered. Kafka 4.0 has what all of 4.x have.
PROFILES: Final = MappingProxyType(
    {
        "2.0": Release.KAFKA_2_0,
        "2.8": Release.KAFKA_2_8,
        "3.9": Release.KAFKA_3_9,
        "4.x": Release.KAFKA_4_0,
        "4.2": Release.KAFKA_4_2,
    }
)


class CheckOutcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True, slots=True)
class Result:
    """How a check ended. ``text`` says what was found, or what is not offered."""

    group: str
    check: Check
    outcome: CheckOutcome
    text: str
    seconds: float


async def run_checks(
    bootstrap: Address,
    now_ms: int,
    groups: Mapping[str, Sequence[Check]],
    release: Release | None = None,
    limit_s: float = LIMIT_S,
    done: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Run all checks and return the results in their order. ``now_ms`` is the time of day;
    ``done`` is called with each result as soon as it is there. Raises OSError and Broken if the
    cluster cannot be asked at all."""
    cluster = await TriedCluster.learn(bootstrap, now_ms)
    prefix = f"conformance-{secrets.token_hex(4)}"
    turns = asyncio.Semaphore(AT_ONCE)

    async def run_one(group: str, number: int, check: Check) -> Result:
        async with turns:
            subject = Subject(cluster, f"{prefix}-{group}-{number}")
            result = await _run(subject, group, check, release, limit_s)
        done(result)
        return result

    tasks = [
        asyncio.create_task(run_one(group, number, check))
        for group, checks in groups.items()
        for number, check in enumerate(checks)
    ]
    return await asyncio.gather(*tasks)


async def _run(
    subject: Subject, group: str, check: Check, release: Release | None, limit_s: float
) -> Result:
    clock = asyncio.get_running_loop().time
    begun = clock()
    try:
        outcome, text = await _outcome(subject, check, release, limit_s)
    finally:
        trouble = await _clean(subject)
    if outcome is CheckOutcome.PASSED and trouble:
        outcome, text = CheckOutcome.FAILED, f"what the check has made was not deleted: {trouble}"
    return Result(group, check, outcome, text, clock() - begun)


async def _outcome(
    subject: Subject, check: Check, release: Release | None, limit_s: float
) -> tuple[CheckOutcome, str]:
    try:
        async with asyncio.timeout(limit_s):
            await check.rule(subject)
    except NotOffered as missing:
        if release is not None and is_demanded(missing, release):
            return CheckOutcome.FAILED, f"Kafka {release.value} has {missing}, which is not offered"
        return CheckOutcome.NOT_OFFERED, str(missing)
    except TimeoutError:
        return CheckOutcome.FAILED, f"no result after {limit_s:g} s"
    except Broken as broken:
        return CheckOutcome.FAILED, str(broken)
    except Exception as error:  # a row or a field is absent from a response
        return CheckOutcome.FAILED, f"{type(error).__name__}: {error}"
    return CheckOutcome.PASSED, ""


async def _clean(subject: Subject) -> str:
    """Delete what a check has made. Return what went wrong, if anything did."""
    try:
        async with asyncio.timeout(CLEAN_LIMIT_S):
            await subject.clean()
    except Exception as error:  # whatever a broker has done; the check's own outcome comes first
        return f"{type(error).__name__}: {error}"
    return ""


def is_demanded(missing: NotOffered, release: Release) -> bool:
    """Whether a release has what is not offered. Features that can be switched off are on since
    Kafka 4.0."""
    if missing.key is None:
        return not release.is_before_4
    newest = release.newest(missing.key)
    low, high = missing.versions
    return newest is not None and low <= newest and release.oldest(missing.key) <= high
