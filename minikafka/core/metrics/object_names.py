"""Names of MBeans, as ``kernel/metrics`` spells them."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(
    r"(?P<domain>[\w.]+):type=(?P<type>[^,:]+)(?:,name=(?P<name>[^,:]+))?"
    r"(?P<tags>(?:,[\w-]+=[^,:]*)*)(?::(?P<attribute>[\w-]+))?"
)


class ObjectName(NamedTuple):
    """``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t``. ``name`` or
    ``attribute`` is empty: MBeans of Kafka's clients have attributes instead of names."""

    domain: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...]
    attribute: str

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Raises ValueError."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise ValueError(f"{text} is no name of a metric")
        pairs = (tag.split("=", 1) for tag in match["tags"].split(",")[1:])
        tags = tuple((key, value) for key, value in pairs)
        return cls(
            match["domain"], match["type"], match["name"] or "", tags, match["attribute"] or ""
        )
