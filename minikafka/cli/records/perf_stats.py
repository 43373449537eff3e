"""Statistics of a measurement: counts, rates and latencies, as Kafka's perf tools print them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

MEBIBYTE = 1024 * 1024
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the percentile ``share`` (0 to 100) of sorted values by nearest rank; 0 if empty."""
    if not ordered:
        return 0.0
    rank = min(len(ordered) - 1, int(share * len(ordered) / 100))
    return ordered[rank]


class Window:
    """Counts and latencies of records since ``begun_s``."""

    def __init__(self, begun_s: float) -> None:
        self.begun_s = begun_s
        self.records = 0
        self.bytes = 0
        self.latency_ms = 0.0
        self.max_latency_ms = 0.0

    def add(self, size_bytes: int, latency_ms: float = 0.0) -> None:
        self.records += 1
        self.bytes += size_bytes
        self.latency_ms += latency_ms
        self.max_latency_ms = max(self.max_latency_ms, latency_ms)

    def text(self, now_s: float, verb: str) -> str:
        """Format ``N records sent, R records/sec (M MB/sec)``, with latencies if there are any."""
        elapsed_s = max(now_s - self.begun_s, 1e-9)
        line = (
            f"{self.records} records {verb}, {self.records / elapsed_s:.1f} records/sec "
            f"({self.bytes / elapsed_s / MEBIBYTE:.2f} MB/sec)"
        )
        if self.max_latency_ms:
            average = self.latency_ms / max(1, self.records)
            line += f", {average:.2f} ms avg latency, {self.max_latency_ms:.2f} ms max latency"
        return line


class Measurement:
    """Statistics of all records, and of the window since the last report."""

    def __init__(self, begun_s: float, verb: str) -> None:
        self.total = Window(begun_s)
        self.window = Window(begun_s)
        self._verb = verb
        self._latencies_ms = array("d")

    def add(self, size_bytes: int, latency_ms: float | None = None) -> None:
        self.total.add(size_bytes, latency_ms or 0.0)
        self.window.add(size_bytes, latency_ms or 0.0)
        if latency_ms is not None:
            self._latencies_ms.append(latency_ms)

    def report(self, now_s: float) -> str:
        """Return the line of the present window and start the next one."""
        line = self.window.text(now_s, self._verb) + "."
        self.window = Window(now_s)
        return line

    def percentiles(self) -> dict[float, float]:
        ordered = sorted(self._latencies_ms)
        return {share: percentile(ordered, share) for share in PERCENTILES}

    def summary(self, now_s: float) -> str:
        line = self.total.text(now_s, self._verb)
        if self._latencies_ms:
            found = self.percentiles().items()
            line += "".join(f", {value:.2f} ms {share:g}th" for share, value in found)
        return line + "."

    def facts(self, now_s: float) -> dict[str, float]:
        """Return the statistics for ``--json``; latencies are in milliseconds."""
        elapsed_s = max(now_s - self.total.begun_s, 1e-9)
        found: dict[str, float] = {
            "records": self.total.records,
            "seconds": round(elapsed_s, 3),
            "records_per_second": round(self.total.records / elapsed_s, 1),
            "mb_per_second": round(self.total.bytes / elapsed_s / MEBIBYTE, 3),
        }
        if self._latencies_ms:
            found["latency_avg_ms"] = round(self.total.latency_ms / self.total.records, 3)
            found["latency_max_ms"] = round(self.total.max_latency_ms, 3)
            for share, value in self.percentiles().items():
                found[f"latency_p{share:g}_ms"] = round(value, 3)
        return found
