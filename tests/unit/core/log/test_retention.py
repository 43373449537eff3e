"""Retention: each reason on its own, their order, and the plan against a naive model."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.log.config import LogConfig
from minikafka.core.log.retention import RetainedSegment, RetentionPlan, plan_retention

NOW = 10_000
FOREVER = LogConfig(retention_ms=-1)


def segments(*sizes: int, age_ms: int = 0, step: int = 10) -> list[RetainedSegment]:
    return [RetainedSegment(n * step, size, NOW - age_ms) for n, size in enumerate(sizes)]


def plan(
    facts: list[RetainedSegment],
    config: LogConfig,
    *,
    start: int = 0,
    mark: int = 1000,
    end: int = 99,
) -> RetentionPlan:
    return plan_retention(facts, config, NOW, mark, start, end)


def bases(found: RetentionPlan) -> list[int]:
    return [deletion.base_offset for deletion in found.deletions]


def test_segments_older_than_the_retention_time_go() -> None:
    old, young = segments(5, 5, age_ms=101), segments(5, 5, 5, 5, age_ms=100)[2:]
    found = plan(old + young, LogConfig(retention_ms=100))
    assert bases(found) == [0, 10]
    assert found.deletions[0].reason == "log retention time 100ms breach"
    assert (found.log_start_offset, found.roll) == (20, False)


def test_a_young_segment_protects_the_old_ones_behind_it() -> None:
    facts = [RetainedSegment(0, 5, NOW), RetainedSegment(10, 5, 0), RetainedSegment(20, 5, 0)]
    assert plan(facts, LogConfig(retention_ms=100)) == RetentionPlan((), 0, False)


def test_an_expired_active_segment_is_rolled() -> None:
    found = plan(segments(5, 5, age_ms=101), LogConfig(retention_ms=100), end=17)
    assert bases(found) == [0, 10]
    assert (found.log_start_offset, found.roll) == (17, True)


def test_an_empty_active_segment_stays() -> None:
    found = plan(segments(5, 0, age_ms=101), LogConfig(retention_ms=100), end=10)
    assert bases(found) == [0]
    assert not found.roll
    assert plan(segments(0, age_ms=101), LogConfig(retention_ms=100)).deletions == ()


def test_no_more_goes_than_keeps_the_retention_size() -> None:
    config = replace(FOREVER, retention_bytes=25)
    assert bases(plan(segments(10, 10, 10, 10), config)) == [0]
    assert bases(plan(segments(10, 10, 10, 5), config)) == [0]
    assert bases(plan(segments(10, 10, 10, 4), config)) == []
    found = plan(segments(10, 10), replace(FOREVER, retention_bytes=0))
    assert bases(found) == [0, 10]
    assert found.roll
    assert found.deletions[0].reason == "log retention size 0 breach"


def test_nothing_beyond_the_high_watermark_goes() -> None:
    facts = segments(5, 5, 5, age_ms=101)
    for mark, gone in ((9, []), (10, [0]), (19, [0]), (20, [0, 10]), (29, [0, 10])):
        assert bases(plan(facts, LogConfig(retention_ms=100), mark=mark, end=30)) == gone
    assert bases(plan(facts, FOREVER, start=30, mark=10, end=30)) == [0]


def test_compacted_log_deletes_only_segments_below_the_log_start_offset() -> None:
    config = LogConfig(cleanup_policy="compact", retention_ms=100, retention_bytes=0)
    facts = segments(5, 5, 5, age_ms=101)
    assert bases(plan(facts, config)) == []
    found = plan(facts, config, start=20)
    assert bases(found) == [0, 10]
    assert found.deletions[0].reason == "log start offset 20 breach"
    assert bases(plan(facts, replace(config, cleanup_policy="compact,delete"), end=30)) == [
        0,
        10,
        20,
    ]


def test_a_segment_that_the_log_start_cuts_through_stays() -> None:
    found = plan(segments(5, 5, 5), FOREVER, start=15)
    assert bases(found) == [0]
    assert found.log_start_offset == 15


def test_no_segments() -> None:
    assert plan([], LogConfig(retention_ms=0), start=7) == RetentionPlan((), 7, False)


def naive(
    facts: list[RetainedSegment], config: LogConfig, mark: int, start: int, end: int
) -> tuple[list[int], int, bool]:
    """The three passes, each over a list from which segments are taken one by one."""
    left, gone, rolled = list(facts), [], False

    def take() -> None:
        nonlocal start, rolled
        taken = left.pop(0)
        if taken in facts:
            gone.append(taken.base_offset)
        if not left:
            left.append(RetainedSegment(end, 0, NOW))
            rolled = True
        start = max(start, left[0].base_offset)

    def committed() -> bool:
        upper = left[1].base_offset if len(left) > 1 else end
        return mark >= upper and (len(left) > 1 or left[0].size_bytes > 0)

    while left and committed() and len(left) > 1 and left[1].base_offset <= start:
        take()
    if "delete" in config.cleanup_policy and config.retention_bytes >= 0:
        while left and committed():
            if sum(s.size_bytes for s in left[1:]) < config.retention_bytes:
                break
            take()
    if "delete" in config.cleanup_policy and config.retention_ms >= 0:
        while left and committed() and NOW - left[0].largest_timestamp > config.retention_ms:
            take()
    return gone, start, rolled


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(NOW - 4, NOW)), max_size=7
    ),
    st.integers(-1, 4),
    st.integers(-1, 12),
    st.sampled_from(["delete", "compact", "compact,delete"]),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_plan_agrees_with_the_naive_model(
    shapes: list[tuple[int, int, int]],
    retention_ms: int,
    retention_bytes: int,
    policy: str,
    mark: int,
    start: int,
) -> None:
    facts, end = [], 0
    for offsets, size, timestamp in shapes:
        facts.append(RetainedSegment(end, size, timestamp))
        end += offsets
    mark, start = min(mark, end), min(start, mark, end)
    config = LogConfig(
        retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=policy
    )
    found = plan_retention(facts, config, NOW, mark, start, end)
    assert (bases(found), found.log_start_offset, found.roll) == naive(
        facts, config, mark, start, end
    )
    assert found.log_start_offset <= max(mark, start)
