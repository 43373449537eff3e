"""Draws the generated documents from the rows in the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from minikafka.kernel.config import REQUIRED, Setting
from minikafka.kernel.dynamic_settings import EFFECTIVE_AT_ONCE, RUN_TIME_SETTINGS, is_dynamic
from minikafka.kernel.settings import (
    BROKER_SETTINGS,
    IGNORED_BROKER_PREFIXES,
    IGNORED_BROKER_SETTINGS,
    REFUSED_BROKER_SETTINGS,
    TOPIC_SETTINGS,
)

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "docs" / "configuration.md"
FILE_MAP = ROOT / "docs" / "file-map.md"


def table(rows: Iterable[Setting]) -> list[str]:
    lines = ["| key | type | default | what it does |", "|---|---|---|---|"]
    for row in rows:
        default = "required" if row.default is REQUIRED else row.text(row.default) or ""
        later = "" if row.effective else " *No effect.*"
        lines.append(f"| `{row.name}` | {row.type.name.lower()} | {default} | {row.doc}{later} |")
    return lines


def broker_table() -> list[str]:
    """With a column more: what may change while a broker runs."""
    heads = [" dynamic |", "---|"]
    for row in BROKER_SETTINGS:
        kept = " kept |" if is_dynamic(row.name) else " |"
        heads.append(" yes |" if row.name in EFFECTIVE_AT_ONCE else kept)
    return [line + more for line, more in zip(table(BROKER_SETTINGS), heads, strict=True)]


def reasons(keys: Mapping[str, str]) -> list[str]:
    rows = [f"| `{name}` | {why} |" for name, why in sorted(keys.items())]
    return ["| key | why |", "|---|---|", *rows]


def configuration() -> str:
    """docs/configuration.md as it should be."""
    lines = [
        "# Configuration",
        "",
        "Drawn by `scripts/docs` from `minikafka/kernel/settings.py`. Keys, types and defaults are",
        "Kafka 3.9's. A broker takes them from a `.properties` file, from `KAFKA_*` variables of",
        "the environment (`KAFKA_LOG_DIRS` is `log.dirs`) and from `--override key=value`; later",
        "ones win. A key that is none of Kafka's is an error.",
        "",
        "## Broker",
        "",
        "*dynamic*: `yes` may be altered while brokers run, for one or all, and counts at once;",
        "`kept` may be altered too, as in Kafka, and does nothing until a configuration file says",
        "it. Others change by a restart.",
        "",
        *broker_table(),
        "",
        "These exist only while brokers run, and may be altered at any time:",
        "",
        *(f"- `{row.name}`: {row.doc}" for row in RUN_TIME_SETTINGS),
        "",
        "## Topic",
        "",
        "All of them may be altered at any time.",
        "",
        *table(TOPIC_SETTINGS),
        "",
        "## Accepted without effect",
        "",
        "These keys of Kafka may be in a configuration file, so that existing files can be used.",
        "They change nothing, and the broker logs their names when it starts. Keys that are marked",
        "*No effect* in the tables above are accepted too, and shown to clients.",
        "",
        *reasons(IGNORED_BROKER_SETTINGS),
        *reasons({f"{prefix}*": why for prefix, why in IGNORED_BROKER_PREFIXES.items()})[2:],
        "",
        "## Refused",
        "",
        "Whoever sets one of these keys of Kafka relies on its effect, so a broker does not start",
        "with it.",
        "",
        *reasons(REFUSED_BROKER_SETTINGS),
        "",
    ]
    return "\n".join(lines)


def file_map() -> str:
    """docs/file-map.md as it should be: each module with its first line."""
    lines = [
        "# File map",
        "",
        "Drawn by `scripts/docs` from the first line of each module.",
    ]
    room = None
    for path in sorted((ROOT / "minikafka").rglob("*.py"), key=lambda p: (p.parent, p.name)):
        text = path.read_text()
        if not text.strip() or (path.name == "__init__.py" and not text.startswith('"""')):
            continue
        if path.parent != room:
            room = path.parent
            lines += ["", f"## {room.relative_to(ROOT)}/", ""]
        first = text.splitlines()[0].removeprefix('"""').removesuffix('"""')
        lines.append(f"- `{path.name}`: {first}")
    return "\n".join([*lines, ""])


DOCUMENTS = {CONFIGURATION: configuration, FILE_MAP: file_map}

if __name__ == "__main__":
    for place, draw in DOCUMENTS.items():
        place.write_text(draw())
