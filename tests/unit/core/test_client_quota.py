"""Accounts of clients: who is measured, for how long they are remembered, and how they throttle."""

from __future__ import annotations

import pytest

from minikafka.core.client_quota import (
    ANY,
    DEFAULT,
    IDLE_MS,
    MAX_ACCOUNTS,
    Account,
    Accounts,
    ClientQuota,
    MutationQuota,
    RateConfig,
    take_permissively,
    take_strictly,
)


@pytest.mark.mission("SEC-143")
def test_clients_without_a_limit_are_not_remembered() -> None:
    quota = ClientQuota(RateConfig())
    assert quota.find("u", "c", 0) is None
    quota.limits.set(ANY, "c", 100)
    assert quota.find("u", "d", 0) is None
    assert len(quota.accounts) == 0


@pytest.mark.mission("SEC-143", "SEC-144")
def test_clients_of_one_account_throttle_each_other() -> None:
    quota = ClientQuota(RateConfig())
    quota.limits.set("u", ANY, 100)
    one, two = quota.find("u", "c", 0), quota.find("u", "d", 0)
    assert one is not None
    assert two is not None
    assert quota.record(one, 900, 0) == 0
    assert quota.record(two, 200, 0) == 1_000
    quota.limits.set("u", "d", 100)
    alone = quota.find("u", "d", 0)
    assert alone is not None
    assert quota.record(alone, 200, 0) == 0


def test_a_new_limit_counts_for_earlier_bytes() -> None:
    quota = ClientQuota(RateConfig())
    quota.limits.set("u", ANY, 1000)
    before = quota.find("u", "c", 0)
    assert before is not None
    assert quota.record(before, 5_000, 0) == 0
    quota.limits.set("u", ANY, 100)
    after = quota.find("u", "c", 0)
    assert after is not None
    assert quota.record(after, 0, 0) == 40_000


@pytest.mark.mission("SEC-149")
def test_the_throttle_time_of_request_time_is_one_window_at_most() -> None:
    quota = ClientQuota(RateConfig(11, 1), max_throttle_ms=1_000)
    quota.limits.set("u", ANY, 1)
    limited = quota.find("u", "c", 0)
    assert limited is not None
    assert quota.record(limited, 10_000, 0) == 1_000


@pytest.mark.mission("SEC-145")
def test_the_most_that_is_not_throttled_by_itself() -> None:
    quota = ClientQuota(RateConfig())
    quota.limits.set("u", ANY, 100)
    limited = quota.find("u", "c", 0)
    assert limited is not None
    most = quota.most_at_once(limited)
    assert most == 1_000
    assert quota.record(limited, most, 0) == 0
    assert quota.record(limited, 1, 0) > 0


@pytest.mark.mission("SEC-143")
def test_accounts_are_bounded_and_the_one_unused_for_longest_is_forgotten() -> None:
    quota = ClientQuota(RateConfig())
    quota.limits.set(DEFAULT, DEFAULT, 100)
    for number in range(MAX_ACCOUNTS):
        quota.find("u", str(number), 0)
    quota.find("u", "0", 1)  # used again
    quota.find("u", "one more", 2)
    assert len(quota.accounts) == MAX_ACCOUNTS
    known = {account for account, _ in quota.accounts.recent()}
    assert Account("u", "0") in known
    assert Account("u", "1") not in known


@pytest.mark.mission("SEC-143")
def test_idle_accounts_are_forgotten() -> None:
    accounts: Accounts[str, list[int]] = Accounts(list)
    accounts.of("idle", 0).use.append(1)
    accounts.of("used", 0).use.append(2)
    accounts.of("used", 5)
    accounts.of("new", IDLE_MS)
    assert [key for key, _ in accounts.recent()] == ["new", "used"]
    assert accounts.of("used", IDLE_MS + 1).use == [2]
    assert accounts.of("idle", IDLE_MS + 1).use == []


@pytest.mark.mission("SEC-147")
def test_strict_mutations_are_refused_below_zero_and_permissive_ones_throttle() -> None:
    quota = MutationQuota(RateConfig())
    quota.limits.set("u", ANY, 1)  # 11 tokens
    limited = quota.find("u", "c", 0)
    assert limited is not None
    assert take_strictly(limited, 20, 0) == 0
    assert take_strictly(limited, 1, 0) == 9_000
    assert take_strictly(limited, 1, 8_999) == 1
    assert take_strictly(limited, 1, 9_000) == 0
    assert take_permissively(limited, 4, 9_000) == 5_000
    assert take_permissively(limited, 1, 9_000) == 6_000
