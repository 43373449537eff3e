"""Exponential backoff with jitter."""

from minikafka.core.backoff import ExponentialBackoff


def test_doubles_up_to_the_limit() -> None:
    backoff = ExponentialBackoff(initial_ms=100, max_ms=1000, jitter=0)
    assert [backoff.delay_ms(n, 0) for n in range(6)] == [100, 200, 400, 800, 1000, 1000]


def test_jitter_goes_both_ways_and_never_beyond_the_limit() -> None:
    backoff = ExponentialBackoff(initial_ms=100, max_ms=1000, jitter=0.2)
    assert backoff.delay_ms(0, 0) == 80
    assert backoff.delay_ms(0, 0.5) == 100
    assert backoff.delay_ms(0, 0.999999) == 119
    assert backoff.delay_ms(9, 0.9) == 1000
    assert backoff.delay_ms(9, 0) == 800


def test_many_attempts_cost_nothing() -> None:
    assert ExponentialBackoff(jitter=0).delay_ms(10**9, 0) == 1000
