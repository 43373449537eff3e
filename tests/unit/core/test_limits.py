"""The eight levels of users and client ids: which limit applies, and who shares it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.client_quota import (
    ANY,
    DEFAULT,
    LONGEST_KEPT_NAME,
    MAX_CLIENTS,
    Account,
    QuotaLimits,
)

# In the order of precedence, for user U with client id C.
LEVELS: tuple[tuple[str | None, str | None], ...] = (
    ("U", "C"),
    ("U", DEFAULT),
    ("U", ANY),
    (DEFAULT, "C"),
    (DEFAULT, DEFAULT),
    (DEFAULT, ANY),
    (ANY, "C"),
    (ANY, DEFAULT),
)
SHARED_BY = (
    *[Account("U", "C")] * 2,
    Account("U", ANY),
    *[Account("U", "C")] * 2,
    Account("U", ANY),
    *[Account(ANY, "C")] * 2,
)


@pytest.mark.mission("SEC-143")
@pytest.mark.parametrize("count", range(9))
def test_the_first_level_with_a_limit_decides(count: int) -> None:
    for chosen in combinations(range(8), count):
        limits = QuotaLimits()
        for level in chosen:
            limits.set(*LEVELS[level], 100 + level)
        # A limit of somebody else makes no difference.
        limits.set("V", "C", 1)
        limits.set(ANY, "D", 2)
        account = limits.account_of("U", "C")
        expected = 100 + chosen[0] if chosen else None
        assert limits.limit_of(account) == expected
        if chosen:
            assert account == SHARED_BY[chosen[0]]


@pytest.mark.mission("SEC-143")
def test_levels_are_removed_one_by_one() -> None:
    limits = QuotaLimits()
    for number, level in enumerate(LEVELS):
        limits.set(*level, number)
    for number, level in enumerate(LEVELS):
        found = limits.of_client("U", "C")
        assert found == (SHARED_BY[number], number)
        assert limits.of_client("U", "C") is found  # remembered
        limits.set(*level, None)
    assert limits.of_client("U", "C") is None
    assert not limits


@pytest.mark.mission("SEC-143")
def test_limits_are_remembered_of_clients_with_short_names_up_to_a_number() -> None:
    limits = QuotaLimits()
    limits.set(ANY, DEFAULT, 1)
    for number in range(MAX_CLIENTS + 2):
        assert limits.of_client("U", str(number)) == (Account(ANY, str(number)), 1)
        assert len(limits._clients) <= MAX_CLIENTS
    assert limits.of_client("U", "c" * (LONGEST_KEPT_NAME + 1)) is not None
    assert len(limits._clients) == 2
    limits.clear()
    assert limits.of_client("U", "1") is None


names = st.sampled_from(["U", "V", "C", "D"])


@given(
    st.dictionaries(
        st.tuples(st.one_of(st.none(), st.just(""), names), st.one_of(st.none(), names)),
        st.integers(0, 9),
    ),
    names,
    names,
)
@pytest.mark.mission("SEC-143")
def test_random_limits(
    rows: dict[tuple[str | None, str | None], int], user: str, client: str
) -> None:
    limits = QuotaLimits()
    for entity, limit in rows.items():
        limits.set(*entity, limit)
    levels = [
        (user, client),
        (user, None),
        (None, client),
        (None, None),
        ("", client),
        ("", None),
    ]
    expected = next((rows[level] for level in levels if level in rows), None)
    assert limits.limit_of(limits.account_of(user, client)) == expected
    for _ in range(2):
        found = limits.of_client(user, client)
        assert (found and found.limit) == expected


@pytest.mark.mission("SEC-143")
def test_a_client_without_client_id_has_limits_of_its_user_only() -> None:
    limits = QuotaLimits()
    limits.set(ANY, DEFAULT, 1)
    limits.set(DEFAULT, DEFAULT, 2)
    assert limits.limit_of(limits.account_of("U", "")) is None
    limits.set(DEFAULT, ANY, 3)
    assert limits.limit_of(limits.account_of("U", "")) == 3
