"""``Finding``: what a judge finds."""

from __future__ import annotations

from enum import Enum
from typing import Any

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken promise. ``kind`` is a member of the judge's own Enum, whose values are meanings.

    ``where`` is "partition 3", "group g", or "" for the whole run. ``about`` is what the evidence
    of the workload explains, e.g. records."""

    kind: Enum
    where: str
    text: str
    about: tuple[Any, ...] = ()
