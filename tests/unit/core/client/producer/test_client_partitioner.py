"""Keys by murmur2, no key by stickiness or by turns."""

import warnings
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.client.producer.partitioner import (
    RoundRobinPartitions,
    StickyPartitions,
    murmur2,
    partition_for_key,
    to_positive,
)

# The cases of Kafka's own UtilsTest.
VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.mission("PAR-3")
@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_murmur2_agrees_with_kafkas_vectors(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected
    assert partition_for_key(data, 100) == (expected & 0x7FFFFFFF) % 100


# Computed by kafka-clients 3.9.1 (Utils.murmur2, and BuiltInPartitioner.partitionForKey among 7):
# every length of the last word, bytes with the sign bit, text beyond ASCII.
JAVA_VECTORS = [
    ("", 275646681, 2),
    ("ff", -311467685, 5),
    ("ffe2", -1786458461, 5),
    ("ffe2c5", 822655279, 5),
    ("ffe2c5a8", -1496618329, 6),
    ("ffe2c5a88b", -480048783, 5),
    ("ffe2c5a88b6e", -1654409937, 4),
    ("ffe2c5a88b6e51", 471551164, 0),
    ("ffe2c5a88b6e5134", 1408034502, 0),
    ("ffe2c5a88b6e513417", -584457604, 6),
    ("ffe2c5a88b6e513417fa", 1504146151, 4),
    ("ffe2c5a88b6e513417fadd", -1172627702, 1),
    ("c3bc62657220e697a5e69cac", -2095566422, 4),
    ("637573746f6d65722d37", -1283830537, 6),
]


@pytest.mark.mission("PAR-3")
@pytest.mark.parametrize(("key", "hashed", "partition"), JAVA_VECTORS)
def test_keys_go_where_javas_producer_sends_them(key: str, hashed: int, partition: int) -> None:
    assert murmur2(bytes.fromhex(key)) == hashed
    assert partition_for_key(bytes.fromhex(key), 7) == partition


@pytest.fixture(scope="module")
def theirs() -> Callable[[bytes], int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that package's own
        from kafka.partitioner.default import murmur2 as independent
    found: Callable[[bytes], int] = independent
    return found


@pytest.mark.mission("PAR-3")
@given(data=st.binary(max_size=64))
def test_murmur2_agrees_with_an_independent_client(
    theirs: Callable[[bytes], int], data: bytes
) -> None:
    assert murmur2(data) & 0xFFFFFFFF == theirs(data) & 0xFFFFFFFF


@pytest.mark.mission("PAR-3")
def test_to_positive_clears_the_sign_bit() -> None:
    assert [to_positive(n) for n in (0, 1, -1, -(2**31), 2**31 - 1)] == [
        0,
        1,
        2**31 - 1,
        0,
        2**31 - 1,
    ]


@pytest.mark.mission("PAR-4")
def test_round_robin_spreads_evenly_over_available_partitions() -> None:
    turns = RoundRobinPartitions()
    chosen = [turns.next("t", 5, [0, 2, 4], draw=77) for _ in range(300)]
    assert Counter(chosen) == {0: 100, 2: 100, 4: 100}
    assert all(chosen[n : n + 3] == chosen[:3] for n in range(0, 300, 3)), "in turn, not at random"


@pytest.mark.mission("PAR-4")
def test_round_robin_counts_each_topic_by_itself() -> None:
    turns = RoundRobinPartitions()
    chosen = [(turns.next("a", 3, [], 0), turns.next("b", 3, [], 1)) for _ in range(3)]
    assert chosen == [(0, 1), (1, 2), (2, 0)]


@pytest.mark.mission("PAR-4")
def test_round_robin_goes_on_beyond_javas_greatest_int() -> None:
    turns = RoundRobinPartitions()
    assert [turns.next("t", 5, [], (1 << 31) - 1) for _ in range(3)] == [2, 0, 1]


@pytest.mark.mission("PAR-4")
def test_round_robin_uses_every_partition_when_none_is_available() -> None:
    turns = RoundRobinPartitions()
    assert [turns.next("t", 3, [], draw=0) for _ in range(4)] == [0, 1, 2, 0]
    assert turns.next("other", 3, [], draw=2) == 2


class TestSticky:
    @pytest.mark.mission("PAR-5")
    def test_sticky_partition_stays_until_next_is_called(self) -> None:
        sticky = StickyPartitions()
        assert sticky.current("t", 5) is None
        first = sticky.next("t", 5, [0, 1, 2, 3, 4], previous=-1, draw=3)
        assert sticky.current("t", 5) == first == 3
        assert sticky.current("other", 5) is None

    @pytest.mark.mission("PAR-6")
    def test_none_available_chooses_among_all(self) -> None:
        drawn = {StickyPartitions().next("t", 4, [], -1, draw) for draw in range(20)}
        assert drawn == {0, 1, 2, 3}

    @pytest.mark.mission("PAR-6")
    def test_the_only_available_one_is_kept(self) -> None:
        sticky = StickyPartitions()
        assert sticky.next("t", 4, [2], -1, draw=1) == 2
        assert sticky.next("t", 4, [2], 2, draw=1) == 2

    @pytest.mark.mission("PAR-6")
    def test_of_several_it_takes_any_but_the_old_one(self) -> None:
        reached = set()
        for draw in range(20):
            sticky = StickyPartitions()
            old = sticky.next("t", 4, [1, 2, 3], -1, draw=0)
            new = sticky.next("t", 4, [1, 2, 3], old, draw)
            assert new != old
            reached.add(new)
        assert reached == {2, 3}

    @pytest.mark.mission("PAR-6")
    def test_an_old_one_that_is_no_longer_available_is_left(self) -> None:
        reached = set()
        for draw in range(6):
            sticky = StickyPartitions()
            assert sticky.next("t", 4, [3], -1, draw=0) == 3
            reached.add(sticky.next("t", 4, [0, 1], 3, draw))
        assert reached == {0, 1}

    @pytest.mark.mission("PAR-6", "PAR-11")
    def test_a_partition_that_no_longer_exists_is_left(self) -> None:
        sticky = StickyPartitions()
        assert sticky.next("t", 5, [0, 1, 2, 3, 4], previous=-1, draw=4) == 4
        assert sticky.current("t", 4) is None, "the topic was created again with four partitions"
        assert sticky.next("t", 4, [0, 1, 2, 3], previous=-1, draw=2) == 2
        assert sticky.current("t", 4) == 2

    @pytest.mark.mission("PAR-6")
    def test_caller_with_a_stale_partition_gets_the_one_already_chosen(self) -> None:
        sticky = StickyPartitions()
        old = sticky.next("t", 4, [0, 1, 2, 3], -1, draw=0)
        new = sticky.next("t", 4, [0, 1, 2, 3], old, draw=1)
        assert sticky.next("t", 4, [0, 1, 2, 3], old, draw=2) == new
        assert sticky.next("t", 4, [0, 1, 2, 3], -1, draw=2) == new
