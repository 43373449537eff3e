"""Draws the hours that the pipeline has written: when New York's flights leave late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

from scripts.lib.flights.expected import Hours

AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
HOURS = range(5, 24)  # none leaves at night
INK, GROUND = "#22303c", "white"


def plot(hours: Hours, file: Path) -> None:
    """A square for each month and hour of the day, by local time; darker is later."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    delays = delays_of(hours)
    style: dict[Any, Any] = {"font.size": 9, "text.color": INK, "axes.labelcolor": INK,
             "xtick.color": INK, "ytick.color": INK}  # fmt: skip
    with mpl.rc_context(style):
        figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
        for axis, (code, name) in zip(axes, AIRPORTS.items(), strict=True):
            mesh = axis.pcolormesh(
                [*HOURS, HOURS.stop], np.arange(13), delays[code], cmap="YlOrRd", vmin=0, vmax=50,
                edgecolors=GROUND, linewidth=0.6,
            )  # fmt: skip
            axis.set_title(name, loc="left", fontsize=10)
            axis.set_xticks([6, 9, 12, 15, 18, 21], ["6", "9", "noon", "15", "18", "21 h"])
            axis.set_yticks(np.arange(12) + 0.5, MONTHS)
            axis.tick_params(length=0)
            axis.spines[:].set_visible(False)
        axes[0].invert_yaxis()
        bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=30, extend="max")
        bar.set_label("mean delay of departures, minutes")
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)
        count = sum(row["flights"] for row in hours)
        figure.suptitle(
            f"Leave New York before noon: {count:,} flights of 2013, by month and hour",
            x=0.01, ha="left", fontsize=12, fontweight="bold",
        )  # fmt: skip
        figure.savefig(file, dpi=110, facecolor=GROUND, metadata={"Software": None})
        plt.close(figure)


def delays_of(hours: Hours) -> dict[str, np.ndarray]:
    """Minutes by airport: 12 months, hours of the day; no number where no flight left."""
    frame = pd.DataFrame(hours).dropna(subset=["mean_delay"])
    local = pd.to_datetime(frame["hour"]).dt.tz_convert("America/New_York")
    frame["month"], frame["of_day"] = local.dt.month - 1, local.dt.hour
    frame["minutes"] = frame["mean_delay"] * frame["departed"]
    sums = frame.groupby(["origin", "month", "of_day"])[["minutes", "departed"]].sum()
    means = sums["minutes"] / sums["departed"]
    return {
        code: means[code].unstack().reindex(index=range(12), columns=HOURS).to_numpy()
        for code in AIRPORTS
    }
