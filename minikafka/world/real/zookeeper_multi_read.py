"""The request that reads many znodes at once (ZooKeeper 3.6 and later), which kazoo lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    GetData,
    MultiHeader,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat

ERROR = -1  # the type of a result that is an error's number instead
_OPERATION = MultiHeader(GetData.type, False, -1).serialize()
_END = MultiHeader(-1, True, -1).serialize()


class MultiRead:
    """A request in the form that ``KazooClient`` expects: it queues it, writes it, and reads the
    response with it.

    ``paths`` include the chroot. The result has a (data, stat) or an exception for each path. The
    operation cannot arm watches. Servers before 3.6 respond with ``UnimplementedError``.
    """

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        parts = [_OPERATION + GetData(path, None).serialize() for path in self._paths]
        return b"".join([*parts, _END])

    def deserialize(self, answer: bytes, offset: int) -> list[Any]:
        """Parse the response. Raises ``struct.error`` if it is too short."""
        results: list[Any] = []
        while True:
            kind, done, _ = multiheader_struct.unpack_from(answer, offset)
            offset += multiheader_struct.size
            if done:
                return results
            if kind == ERROR:
                (number,) = int_struct.unpack_from(answer, offset)
                offset += int_struct.size
                results.append(EXCEPTIONS[number]())
            else:
                data, offset = read_buffer(answer, offset)
                results.append((data, ZnodeStat._make(stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size
