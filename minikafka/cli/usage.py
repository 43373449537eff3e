"""The error of a command line that cannot be carried out as it is."""

from __future__ import annotations

from minikafka.kernel.config import ConfigError


class WrongUsage(ConfigError):
    """Options, or values of options, that a verb does not accept. The exit status is 2, while that
    of other errors is 1."""
