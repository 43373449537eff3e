"""Wrong command lines: their error."""

from __future__ import annotations

from minikafka.kernel.config import ConfigError


class WrongUsage(ConfigError):
    """A verb does not accept an option, or the value of one. The command ends with exit status 2;
    after any other error it ends with 1."""
