"""32-bit floats as people write them: 0.1, not 0.10000000149011612."""

from __future__ import annotations

from struct import Struct
from typing import Final

_FLOAT: Final = Struct(">f")


def short_float(number: float) -> float:
    """Return the number with the fewest digits that is the same as a 32-bit float."""
    for digits in (6, 7, 8):
        shorter = float(f"{number:.{digits}g}")
        try:
            if _FLOAT.pack(shorter) == _FLOAT.pack(number):
                return shorter
        except OverflowError:  # rounded up beyond the largest
            continue
    return float(f"{number:.9g}")
