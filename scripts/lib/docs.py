"""Draws the generated documents from the rows in the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from minikafka.kernel.config import REQUIRED, Setting
from minikafka.kernel.dynamic_settings import (
    EFFECTIVE_AT_ONCE,
    RUN_TIME_SETTINGS,
    is_dynamic,
)
from minikafka.kernel.features import FEATURES
from minikafka.kernel.group_settings import GROUP_CONFIG
from minikafka.kernel.ineffective_settings import (
    IGNORED_BROKER_PREFIXES,
    IGNORED_BROKER_SETTINGS,
    INEFFECTIVE_GROUPS,
    REFUSED_BROKER_SETTINGS,
    REFUSED_GROUPS,
    SettingGroup,
)
from minikafka.kernel.security_settings import (
    SASL_SETTINGS,
    TLS_SETTINGS,
    TLS_STORES,
    ZOOKEEPER_SECURITY_SETTINGS,
)
from minikafka.kernel.settings import BROKER_SETTINGS, FREE_BROKER_SETTINGS, TOPIC_SETTINGS
from scripts.lib import conformance_page, performance_picture
from scripts.lib.chapters import LEARN, learn

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "docs" / "reference" / "configuration.md"


def table(rows: Iterable[Setting]) -> list[str]:
    lines = ["| key | type | default | what it does |", "|---|---|---|---|"]
    return lines + [f"{facts(row)}{'' if row.effective else ' *No effect.*'} |" for row in rows]


def facts(row: Setting) -> str:
    """The line of a setting, without its end."""
    default = "required" if row.default is REQUIRED else row.text(row.default) or ""
    return f"| `{row.name}` | {row.type.kafka_type.name.lower()} | {default} | {row.doc}"


def groups(found: Iterable[SettingGroup]) -> list[str]:
    """A paragraph with the reason, and a table, for each group."""
    lines = []
    for group in found:
        lines += [
            group.reason,
            "",
            "| key | type | default | what Kafka uses it for |",
            "|---|---|---|---|",
        ]
        lines += [*(f"{facts(row)} |" for row in group.rows), ""]
    return lines


def broker_table() -> list[str]:
    """With a column more: what may change while a broker runs."""
    heads = [" dynamic |", "---|"]
    rows = (*BROKER_SETTINGS, *ZOOKEEPER_SECURITY_SETTINGS, *TLS_SETTINGS, *SASL_SETTINGS)
    for row in rows:
        effect = " kept |" if is_dynamic(row.name) else " |"
        if row.name in TLS_STORES:
            effect = " of a listener |"
        heads.append(" yes |" if row.name in EFFECTIVE_AT_ONCE else effect)
    return [line + more for line, more in zip(table(rows), heads, strict=True)]


def feature_section() -> list[str]:
    lines = [
        "## Features",
        "",
        "A feature counts for the whole cluster, at a level that all brokers support; 0 is off.",
        "The first controller of a new cluster puts the highest levels in force.",
        "`minikafka features` shows and changes them.",
        "",
        "| feature | levels | from | switches on | needs |",
        "|---|---|---|---|---|",
    ]
    for row in FEATURES:
        needed = "more than `classic`" if row.protocol is None else f"`{row.protocol}`"
        needs = f"{needed} in `group.coordinator.rebalance.protocols`"
        levels = f"{row.levels.lowest} to {row.levels.highest}"
        lines.append(f"| `{row.name}` | {levels} | {row.kip} | {row.switches} | {needs} |")
    return [*lines, ""]


def reasons(keys: Mapping[str, str]) -> list[str]:
    rows = [f"| `{name}` | {why} |" for name, why in sorted(keys.items())]
    return ["| key | why |", "|---|---|", *rows]


def topic_and_group_sections() -> list[str]:
    return [
        "## Topic",
        "",
        "All of them may be altered at any time.",
        "",
        *table(TOPIC_SETTINGS),
        "",
        "## Group",
        "",
        "`minikafka configs --group ID --alter` sets them for one group, also before it exists",
        "(the config resource GROUP). They count from the next heartbeat of a member on, in the",
        "place of the broker's key with `group.` in front, and within its limits.",
        "",
        *table(GROUP_CONFIG.settings.values()),
        "",
    ]


def configuration() -> str:
    """docs/reference/configuration.md as it should be."""
    described = {row.name for group in REFUSED_GROUPS for row in group.rows}
    lines = [
        "# Configuration",
        "",
        "Drawn by `scripts/docs` from the tables of settings in `minikafka/kernel`. Keys, types",
        "and defaults are Kafka 3.9's; `group.coordinator.rebalance.protocols` has the default of",
        "Kafka 4. A broker takes them from a `.properties` file, from",
        "`KAFKA_*` variables of the environment (`KAFKA_LOG_DIRS` is `log.dirs`) and from",
        "`--override key=value`; later ones win. A key that is none of Kafka's is an error.",
        "",
        "## Broker",
        "",
        "*dynamic*: `yes` may be altered while brokers run, for one or all, and counts at once;",
        "`kept` may be altered too, as in Kafka, and does nothing until a configuration file says",
        "it; `of a listener` may be altered for one listener of one broker, and counts for new",
        "connections. Others change by a restart. A key of TLS (`ssl.`) or SASL, `max.connections`",
        "and `max.connection.creation.rate` may be given for one listener only, as",
        "`listener.name.<listener in lower case>.<key>`, `connections.max.reauth.ms` and",
        "`sasl.oauthbearer.*` for one SASL mechanism of it, with `<mechanism in lower case>.`",
        "before the key. `sasl.jaas.config`, `sasl.server.callback.handler.class`: both prefixes.",
        "",
        *broker_table(),
        "",
        "These are read by the authorizer. They are not in Kafka's table of keys either, and",
        "DescribeConfigs hides their values:",
        "",
        *(f"- `{name}`: {doc}" for name, doc in FREE_BROKER_SETTINGS.items()),
        "",
        "An authorizer of yours gets all keys, also those that begin with `authorizer.`, which",
        "are unknown otherwise.",
        "",
        "These exist only while brokers run, and may be altered at any time:",
        "",
        *(f"- `{row.name}`: {row.doc}" for row in RUN_TIME_SETTINGS),
        "",
        *feature_section(),
        *topic_and_group_sections(),
        "## Accepted without effect",
        "",
        "These keys of Kafka may be in a configuration file, so that existing files can be used.",
        "A value must be valid for Kafka. It changes nothing, and the broker logs the names of",
        "such keys when it starts. DescribeConfigs shows them with their types and defaults.",
        "",
        *groups(INEFFECTIVE_GROUPS),
        "These are accepted too, and have no default.",
        "",
        *reasons(IGNORED_BROKER_SETTINGS),
        *reasons({f"{prefix}*": why for prefix, why in IGNORED_BROKER_PREFIXES.items()})[2:],
        "",
        "## Refused",
        "",
        "An operator who sets one of these keys of Kafka relies on its effect, so a broker does",
        "not start with a value other than the default. DescribeConfigs shows the default.",
        "",
        *groups(REFUSED_GROUPS),
        "These have no default:",
        "",
        *reasons(
            {name: why for name, why in REFUSED_BROKER_SETTINGS.items() if name not in described}
        ),
        "",
    ]
    return "\n".join(lines)


DOCUMENTS = {
    CONFIGURATION: configuration,
    LEARN: learn,
    performance_picture.PICTURE: performance_picture.draw,
    conformance_page.PAGE: conformance_page.page,
}

if __name__ == "__main__":
    for place, draw in DOCUMENTS.items():
        place.write_text(draw())
