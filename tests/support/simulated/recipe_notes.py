"""Says how to look at a failing simulation in `minikafka learn`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from minikafka.page.learn.recorded import report_of
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.world.sim.loop import START_US

Scenario = Callable[[SimCluster], Coroutine[Any, Any, Any]]
Run = Callable[[SimCluster, Scenario], Any]


def noting(run: Run, folder: Callable[[], Path]) -> Run:
    """Return ``SimCluster.run`` with a note on the errors that it raises: a recipe with the same
    faults at the same times, which is written to ``folder``."""

    def run_and_note(cluster: SimCluster, scenario: Scenario) -> Any:
        trace: list[str] = []
        ends_us: list[int] = []

        async def watched(cluster: SimCluster) -> Any:
            try:
                return await scenario(cluster)
            finally:
                trace.extend(cluster.simulation.trace)
                ends_us.append(cluster.simulation.loop.now_us - START_US)

        try:
            return run(cluster, watched)
        except Exception as error:
            report = report_of(cluster, trace, ends_us[0]) if ends_us else None
            if report is not None:
                file = folder() / "recipe.json"
                file.write_text(report.to_json())
                error.add_note(
                    "The same faults at the same times, under a load of numbered records:\n"
                    f"{report.note(str(file))}"
                )
            raise

    return run_and_note
