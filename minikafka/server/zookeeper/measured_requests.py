"""How long ZooKeeper takes to respond to a broker, and the controller's last multis."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.metrics import Histogram, Metrics
from minikafka.kernel.ports import CheckOp, CoordinationError, CoordinationOp
from minikafka.server.zookeeper import paths

LATENCY: Final = "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs"
MAX_MULTIS: Final = 20
MAX_PATHS: Final = 5  # of one multi, which may write 500 znodes


@dataclass(frozen=True, slots=True)
class NotedMulti:
    """A multi by which the controller has written, or was elected. ``operations`` has no check of
    the controller epoch. ``error`` is the name of what made it fail."""

    time_ms: int
    took_us: int
    operations: int
    paths: tuple[str, ...]
    error: str | None


class MeasuredRequests:
    """The requests of all sessions of one broker, one after the other. A request whose response is
    lost does not count."""

    def __init__(
        self, now_ns: Callable[[], int], wall_ms: Callable[[], int], metrics: Metrics | None = None
    ) -> None:
        self.now_ns = now_ns
        self._wall_ms = wall_ms
        self._latencies: Histogram = (metrics or Metrics()).histogram(LATENCY, 1000)
        self._multis: deque[NotedMulti] = deque(maxlen=MAX_MULTIS)

    def responded(self, started_ns: int) -> None:
        """Count a response, also if it is an error."""
        self._latencies.record((self.now_ns() - started_ns) // 1000)

    def multi(
        self, ops: Sequence[CoordinationOp], started_ns: int, error: CoordinationError | None
    ) -> None:
        """Keep a multi if it is the controller's. ``error`` is None if it was carried out."""
        if not any(op.path in (paths.CONTROLLER_EPOCH, paths.CONTROLLER) for op in ops[:2]):
            return
        written = [op for op in islice(ops, MAX_PATHS + 1) if not _is_fence(op)]
        self._multis.append(
            NotedMulti(
                self._wall_ms(),
                (self.now_ns() - started_ns) // 1000,
                len(ops) - _is_fence(ops[0]),
                tuple(op.path for op in written[:MAX_PATHS]),
                None if error is None else type(error).__name__,
            )
        )

    def multis(self) -> list[Mapping[str, Any]]:
        """Return the controller's last multis, newest first, as JSON values."""
        return [
            {
                "time_ms": multi.time_ms,
                "took_us": multi.took_us,
                "operations": multi.operations,
                "paths": list(multi.paths),
                "error": multi.error,
            }
            for multi in reversed(self._multis)
        ]


def _is_fence(op: CoordinationOp) -> bool:
    return isinstance(op, CheckOp) and op.path == paths.CONTROLLER_EPOCH
