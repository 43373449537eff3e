"""Configurations as text: the output of describe, as in Kafka, and the arguments that set keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from minikafka.cli.usage import WrongUsage
from minikafka.core.client.admin.configs import ConfigValue

_OUTSIDE_BRACKETS = re.compile(r",(?=[^\]]*(?:\[|$))")
_KEY = re.compile(r"[a-zA-Z0-9._-]+")


def parse_added(text: str) -> dict[str, str]:
    """Parse ``a=1,b=[x,y],c=``. Raises WrongUsage."""
    added: dict[str, str] = {}
    for part in _OUTSIDE_BRACKETS.split(text):
        key, separator, value = part.partition("=")
        if not separator:
            raise WrongUsage(
                'Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        key, value = key.strip(), value.strip()
        if not _KEY.fullmatch(key):
            raise WrongUsage(f"Invalid character found for config key: {key}")
        if value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        added[key] = value.strip()
    return added


def entry_line(row: ConfigValue) -> str:
    """Format entries as kafka-configs does."""
    synonyms = ", ".join(
        f"{source.name}:{name}={_text(value)}" for name, value, source in row.synonyms
    )
    sensitive = str(row.sensitive).lower()
    return f"  {row.name}={_text(row.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def facts(kind: str, name: str, rows: Iterable[ConfigValue]) -> dict[str, Any]:
    """Return entries as JSON values."""
    return {
        "type": kind,
        "name": name,
        "configs": [
            {
                "name": row.name,
                "value": row.value,
                "source": row.source.name,
                "readOnly": row.read_only,
                "sensitive": row.sensitive,
                "synonyms": [
                    {"name": key, "value": value, "source": source.name}
                    for key, value, source in row.synonyms
                ],
            }
            for row in rows
        ],
    }
