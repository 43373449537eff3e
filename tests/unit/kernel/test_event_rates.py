"""The token buckets that bound what a client can write to the log."""

from __future__ import annotations

from minikafka.kernel.events import EventRates


def test_a_burst_is_logged_and_then_one_event_a_period() -> None:
    rates = EventRates(burst=3, period_ms=1000)
    assert [rates.admit("a", "bad", 0) for _ in range(5)] == [0, 0, 0, None, None]
    assert rates.admit("a", "bad", 999) is None
    assert rates.admit("a", "bad", 1000) == 3  # suppressed since the last one
    assert rates.admit("a", "bad", 1000) is None
    assert rates.admit("a", "bad", 2000) == 1


def test_clients_and_causes_have_buckets_of_their_own() -> None:
    rates = EventRates(burst=1)
    assert rates.admit("a", "bad", 0) == 0
    assert rates.admit("a", "worse", 0) == 0
    assert rates.admit("b", "bad", 0) == 0
    assert rates.admit("a", "bad", 0) is None


def test_a_pause_fills_a_bucket_up_to_the_burst() -> None:
    rates = EventRates(burst=2, period_ms=10)
    for _ in range(5):
        rates.admit("a", "bad", 0)
    assert [rates.admit("a", "bad", 1_000_000) for _ in range(3)] == [3, 0, None]


def test_many_clients_share_a_bucket_for_each_cause_when_there_is_no_room() -> None:
    rates = EventRates(burst=2, period_ms=10, max_buckets=2)
    for client in ("a", "b"):
        assert rates.admit(client, "bad", 0) == 0
    others = [rates.admit(client, "bad", 1) for client in ("c", "d", "e")]
    assert others == [0, 0, None]
    assert rates.admit("f", "worse", 1) == 0
    assert len(rates) == 4  # two of clients, one of each cause


def test_full_buckets_make_room() -> None:
    rates = EventRates(burst=2, period_ms=10, max_buckets=2)
    for client in ("a", "b"):
        rates.admit(client, "bad", 0)
    assert rates.admit("c", "bad", 10) == 0
    assert len(rates) == 1
    assert [rates.admit("c", "bad", 10) for _ in range(2)] == [0, None]


def test_a_known_client_keeps_its_bucket_when_there_is_no_room() -> None:
    rates = EventRates(burst=2, max_buckets=1)
    assert [rates.admit("a", "bad", 0) for _ in range(3)] == [0, 0, None]
    assert rates.admit("b", "bad", 0) == 0


def test_buckets_are_swept_once_a_period() -> None:
    rates = EventRates(burst=2, period_ms=10, max_buckets=2)
    for client in ("a", "b"):
        rates.admit(client, "bad", 0)
    rates.admit("c", "bad", 5)  # the sweep finds no full bucket
    rates.admit("d", "bad", 10)  # two are full, but the period is not over
    assert len(rates) == 3
    rates.admit("e", "bad", 15)
    assert len(rates) == 2  # that of "e" and the shared one


def test_a_clock_that_goes_back_takes_no_token() -> None:
    rates = EventRates(burst=2, period_ms=10)
    assert [rates.admit("a", "bad", now_ms) for now_ms in (1000, 0)] == [0, 0]
