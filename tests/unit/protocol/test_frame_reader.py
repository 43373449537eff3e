"""However a stream is chopped up, the reader finds the same frames in it."""

import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.frames import (
    BIG_BYTES,
    BUFFER_BYTES,
    SMALL_READS,
    WIDE_BYTES,
    FrameError,
    FrameReader,
)

LIMIT = 100 << 20


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def feed(reader: FrameReader, stream: bytes, chunks: list[int]) -> list[bytes]:
    """The frames, with at most ``chunks[i % len(chunks)]`` bytes arriving in step i."""
    frames: list[bytes] = []
    position = step = 0
    while position < len(stream):
        buffer = reader.get_buffer(-1)
        assert len(buffer) > 0
        n = min(chunks[step % len(chunks)], len(buffer), len(stream) - position)
        buffer[:n] = stream[position : position + n]
        frames += [bytes(frame) for frame in reader.buffer_updated(n)]
        position += n
        step += 1
    return frames


def payloads() -> st.SearchStrategy[list[bytes]]:
    edges = [0, 1, 3, 4, 5, 100, BUFFER_BYTES - 5, BUFFER_BYTES - 4, BUFFER_BYTES - 3]
    sizes = st.sampled_from([*edges, BUFFER_BYTES, 3 * BUFFER_BYTES + 1]) | st.integers(0, 2000)
    return st.lists(
        st.builds(lambda size, byte: bytes([byte]) * size, sizes, st.integers(0, 255)), max_size=12
    )


@pytest.mark.parametrize("reuse", [True, False])
@settings(max_examples=60, deadline=None)
@given(
    sent=payloads(),
    chunks=st.lists(
        st.sampled_from([1000, 1460, BUFFER_BYTES, 1 << 20]) | st.integers(1, 9), min_size=1
    ).filter(lambda sizes: sum(sizes) / len(sizes) > 400),
)
def test_any_chunking_gives_the_same_frames(
    reuse: bool, sent: list[bytes], chunks: list[int]
) -> None:
    reader = FrameReader(LIMIT, reuse)
    assert feed(reader, b"".join(map(framed, sent)), chunks) == sent
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize("reuse", [True, False])
def test_byte_by_byte(reuse: bool) -> None:
    sent = [b"", b"a", b"bcd", b"", b"x" * 300]
    assert feed(FrameReader(LIMIT, reuse), b"".join(map(framed, sent)), [1]) == sent


@pytest.mark.parametrize("reuse", [True, False])
def test_a_frame_beyond_the_first_big_allocation_grows_into_its_size(reuse: bool) -> None:
    sent = [b"a" * (3 * BIG_BYTES + 7), b"small", b"b" * WIDE_BYTES, b"c" * (9 * BIG_BYTES)]
    assert feed(FrameReader(LIMIT, reuse), b"".join(map(framed, sent)), [200_000]) == sent


def test_owned_frames_are_not_overwritten_by_later_frames() -> None:
    reader = FrameReader(LIMIT, reuse=False)
    sent = [b"first", b"1" * 100_000, b"second", b"2" * 100_000]
    stream = memoryview(b"".join(map(framed, sent)))
    kept: list[memoryview] = []
    while stream:
        buffer = reader.get_buffer(-1)
        n = min(len(buffer), len(stream), 30_000)
        buffer[:n] = stream[:n]
        kept += reader.buffer_updated(n)
        stream = stream[n:]
    assert kept == sent


def test_small_frames_of_one_read_are_views_into_one_buffer() -> None:
    reader = FrameReader(LIMIT, reuse=True)
    buffer = reader.get_buffer(-1)
    stream = framed(b"one") + framed(b"two") + framed(b"three")[:6]
    buffer[: len(stream)] = stream
    first, second = reader.buffer_updated(len(stream))
    assert first.obj is second.obj is buffer.obj
    assert reader.buffered_bytes == 6
    rest = reader.get_buffer(-1)
    assert rest.obj is buffer.obj
    rest[:3] = b"ree"
    assert reader.buffer_updated(3) == [b"three"]


def test_big_frames_that_follow_each_other_share_one_buffer() -> None:
    reader = FrameReader(LIMIT, reuse=True)
    seen = set()
    stream = memoryview(framed(b"z" * 1_000_000) * 5)
    feed(reader, bytes(stream[:1_000_004]), [BUFFER_BYTES])  # the buffer grows with the first one
    while stream:
        buffer = reader.get_buffer(-1)
        n = min(len(buffer), len(stream))
        buffer[:n] = stream[:n]
        seen |= {id(frame.obj) for frame in reader.buffer_updated(n)}
        stream = stream[n:]
    assert len(seen) == 1


def test_very_big_frames_share_one_as_long_as_they_follow_each_other() -> None:
    def memory_of(*sizes: int) -> list[int]:
        seen = []
        stream = memoryview(b"".join(framed(b"z" * size) for size in sizes))
        while stream:
            buffer = reader.get_buffer(-1)
            n = min(len(buffer), len(stream))
            buffer[:n] = stream[:n]
            seen += [id(frame.obj) for frame in reader.buffer_updated(n)]
            stream = stream[n:]
        return seen

    reader = FrameReader(LIMIT, reuse=True, kept_bytes=4 * BIG_BYTES)
    first, second, third = memory_of(3 * BIG_BYTES, 2 * BIG_BYTES, 3 * BIG_BYTES - 1)
    assert first == second == third
    memory_of(10)
    assert reader._big is None
    memory_of(5 * BIG_BYTES)
    assert reader._big is None


def test_frames_of_middle_size_come_several_in_a_read_until_the_buffer_is_given_back() -> None:
    reader = FrameReader(LIMIT, reuse=True)
    sent = [bytes([n]) * (2 * BUFFER_BYTES) for n in range(9)]
    stream = b"".join(map(framed, sent))
    assert feed(reader, stream[:BUFFER_BYTES], [BUFFER_BYTES]) == []
    reader.release()  # not while a frame is under way
    assert feed(reader, stream[BUFFER_BYTES:], [WIDE_BYTES]) == sent
    wide = len(reader.get_buffer(-1))
    assert 4 * BUFFER_BYTES < wide <= WIDE_BYTES
    reader.release()
    assert len(reader.get_buffer(-1)) == BUFFER_BYTES
    assert feed(reader, stream, [WIDE_BYTES]) == sent


@pytest.mark.mission("RUN-8")
def test_the_memory_of_one_large_frame_is_freed_after_small_ones() -> None:
    reader = FrameReader(1 << 30, reuse=True)
    large, small = framed(bytes(2 * BUFFER_BYTES)), framed(b"small")
    for _ in range(2):  # the second one finds a wider buffer
        assert feed(reader, large, [BUFFER_BYTES]) == [large[4:]]
        reader.rest()
    assert reader.large_bytes > 0

    for count in range(SMALL_READS):
        if count == SMALL_READS // 2:  # a large one in between begins the count again
            feed(reader, large, [BUFFER_BYTES])
        assert reader.large_bytes > 0
        assert feed(reader, small, [len(small)]) == [b"small"]
        reader.rest()
    assert reader.large_bytes > 0

    for _ in range(SMALL_READS // 2):
        assert feed(reader, small, [len(small)]) == [b"small"]
        reader.rest()
    assert reader.large_bytes == 0
    assert feed(reader, large, [BUFFER_BYTES]) == [large[4:]]


@pytest.mark.mission("CON-1")
@settings(max_examples=60, deadline=None)
@given(streams=st.lists(payloads(), min_size=2, max_size=4), rng=st.randoms())
def test_readers_that_share_buffers_find_the_frames_that_each_alone_would_find(
    streams: list[list[bytes]], rng: random.Random
) -> None:
    """A reader rests between any two reads, or does not, as one whose frames still wait."""
    spare: list[memoryview] = []
    readers = [FrameReader(LIMIT, reuse=True, spare=spare) for _ in streams]
    left = [b"".join(map(framed, sent)) for sent in streams]
    found: list[list[bytes]] = [[] for _ in streams]
    while any(left):
        n = rng.choice([n for n, stream in enumerate(left) if stream])
        size = rng.choice([1, 7, 1000, BUFFER_BYTES, 1 << 20])
        chunk, left[n] = left[n][:size], left[n][size:]
        found[n] += feed_some(readers[n], chunk, rng)
        if rng.random() < 0.8:
            readers[n].rest()
    assert found == streams
    for reader in readers:
        reader.release()
        reader.rest()
    assert len({id(reader.get_buffer(-1).obj) for reader in readers}) == len(readers)


def feed_some(reader: FrameReader, chunk: bytes, rng: random.Random) -> Iterator[bytes]:
    """Give a chunk to the reader, in as many reads as its buffers need."""
    while chunk:
        buffer = reader.get_buffer(-1)
        n = min(len(buffer), len(chunk))
        buffer[:n] = chunk[:n]
        chunk = chunk[n:]
        yield from map(bytes, reader.buffer_updated(n))


@pytest.mark.mission("CON-1")
def test_readers_between_two_frames_need_one_buffer_together() -> None:
    spare: list[memoryview] = []
    readers = [FrameReader(LIMIT, reuse=True, spare=spare) for _ in range(100)]
    seen = set()
    for reader in readers:
        seen.add(id(reader.get_buffer(-1).obj))
        feed(reader, framed(b"request") * 3, [1000])
        reader.rest()
    assert len(seen) == 1
    buffer = readers[0].get_buffer(-1)
    buffer[:6] = framed(b"half")[:6]
    readers[0].buffer_updated(6)
    readers[0].rest()  # has no effect
    assert readers[1].get_buffer(-1).obj is not buffer.obj


@pytest.mark.mission("SAFE-40")
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("claimed", [BUFFER_BYTES, 1 << 20, (2 << 20) - 10, LIMIT])
def test_memory_grows_with_received_bytes_not_with_the_claimed_size(
    claimed: int, reuse: bool
) -> None:
    reader = FrameReader(LIMIT, reuse)
    reader.get_buffer(-1)[:6] = struct.pack(">i", claimed) + b"ab"
    assert reader.buffer_updated(6) == []
    received = 6
    while received < min(claimed, 10 << 20):
        buffer = reader.get_buffer(-1)
        held = len(memoryview(buffer.obj)) + BUFFER_BYTES
        assert held <= max(4 * BUFFER_BYTES, 2 * received + BUFFER_BYTES)
        assert reader.buffered_bytes == received
        step = min(len(buffer), 10_000, claimed + 4 - received)
        received += step
        reader.buffer_updated(step)


@pytest.mark.parametrize("reuse", [True, False])
def test_a_peer_that_sent_a_large_frame_gets_memory_for_the_next_at_once(reuse: bool) -> None:
    reader = FrameReader(LIMIT, reuse)
    feed(reader, framed(bytes(1 << 20)), [1 << 20])
    reader.get_buffer(-1)[:6] = struct.pack(">i", 1 << 20) + b"ab"
    assert reader.buffer_updated(6) == []
    assert len(reader.get_buffer(-1)) >= (1 << 20) - 2
    assert reader.buffered_bytes == 6


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, (1 << 31) - 1])
def test_a_length_that_no_frame_may_have(size: int, reuse: bool) -> None:
    reader = FrameReader(1000, reuse)
    stream = framed(b"x" * 1000) + framed(b"good") + struct.pack(">i", size) + b"junk"
    reader.get_buffer(-1)[: len(stream)] = stream
    with pytest.raises(FrameError, match=f"frame of {size} bytes, 1000 allowed") as raised:
        reader.buffer_updated(len(stream))
    assert list(raised.value.frames) == [b"x" * 1000, b"good"]


@pytest.mark.mission("SAFE-76")
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_large_buffers_and_their_growth_are_known_before_they_are_made(
    seed: int, reuse: bool
) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([10, 50_000, 70_000, 900_000, 2_000_000, 9_000_000]) for _ in range(12)]
    reader = FrameReader(LIMIT, reuse)
    stream = memoryview(b"".join(framed(bytes(size)) for size in sizes))
    while stream:
        most = reader.large_bytes + reader.growth
        may_widen = reuse and not reader._big_size  # for several frames of middle size
        buffer = reader.get_buffer(-1)
        held = len(reader._view) - BUFFER_BYTES + (len(reader._big) if reader._big else 0)
        assert reader.large_bytes == held
        assert held <= most + (WIDE_BYTES if may_widen else 0)
        n = min(len(buffer), len(stream), rng.choice([1000, 100_000, 5_000_000]))
        buffer[:n] = stream[:n]
        reader.buffer_updated(n)
        stream = stream[n:]
        if rng.random() < 0.1:
            reader.release()
    reader.release()
    assert reader.large_bytes == reader.growth == 0
