"""How benchmark figures are printed: ours, the probe's, the ratio, the aim."""

from __future__ import annotations

import math


class Report:
    """Prints one line a figure, as it comes."""

    def section(self, title: str, ours: str = "minikafka", probe: str = "probe") -> None:
        """``ours`` and ``probe`` say what the two columns compare."""
        print(f"\n{title}")
        print(f"  {'':<40}{ours:>12}{probe:>12}{'ratio':>8}  aim")

    def row(
        self,
        name: str,
        unit: str,
        ours: float,
        probe: float | None = None,
        aim: float | None = None,
        smaller_is_better: bool = False,
        note: str = "",
    ) -> None:
        """``ratio`` is ours / probe. An aim is a least ratio, or a greatest one."""
        text = f"  {f'{name} ({unit})':<40}{figure(ours):>12}"
        if probe is not None:
            text += f"{figure(probe):>12}{ours / probe:>8.2f}"
        if aim is not None:
            text += f"  {'≤' if smaller_is_better else '≥'} {aim}"
        if note:
            text += f"  {note}"
        print(text, flush=True)


def figure(value: float) -> str:
    if math.isinf(value):
        return "never"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
