"""The options that a user passes to Spark, with typed access to their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class OptionError(ValueError):
    """An option is invalid, missing or unsupported. The message names it."""


@dataclass(frozen=True)
class Options:
    """Options by name, in which names have no case. Methods raise OptionError for bad values."""

    values: Mapping[str, str] = field(repr=False)  # with keys in lower case; some are secrets

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        return cls({key.lower(): str(value) for key, value in options.items()})

    def get(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise OptionError(f"option {name} must be true or false, not {value!r}")
        return value.lower() == "true"

    def count(self, name: str, default: int) -> int:
        number = self.number(name, 0)
        return default if number is None else number

    def number(self, name: str, lowest: int | None = None) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        try:
            number = int(value.strip())
        except ValueError:
            raise OptionError(f"option {name} must be a number, not {value!r}") from None
        if lowest is not None and number < lowest:
            what = "positive" if lowest == 1 else f"at least {lowest}"
            raise OptionError(f"{name} must be {what}")
        return number
