"""Wrong command lines, with the name that was probably meant; and the options of Kafka's tools,
translated into those of our verbs.
"""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.kernel.config import ConfigError


class WrongUsage(ConfigError):
    """A verb does not accept an option, or the value of one. The command ends with exit status 2;
    after any other error it ends with 1."""


_OF_GROUPS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
# Kafka's tools have these as options, of which exactly one must be given; here they are sub-verbs.
ACTIONS = {
    "topics": ("list", "describe", "create", "alter", "delete"),
    "groups": _OF_GROUPS,
    "share-groups": _OF_GROUPS,
    "streams-groups": _OF_GROUPS,
}
# Kafka's tools have these as words, after the options that they share; here options follow.
LATER_ACTIONS = {
    "features": (
        *("describe", "upgrade", "downgrade", "disable"),
        *("version-mapping", "feature-dependencies"),
    )
}
# Kafka's tools have these as options, and so do the verbs; each may be a word as well.
OPTIONAL_WORDS = {
    "acls": ("list", "add", "remove"),
    "client-metrics": ("list", "describe", "alter", "delete"),
    "configs": ("describe", "alter"),
    "tokens": ("describe", "create", "renew", "expire"),
    "users": ("list", "describe", "create", "delete"),
}
_FORMS = {**ACTIONS, **LATER_ACTIONS, **OPTIONAL_WORDS}
# Shown at the end of a verb's --help.
KAFKA_FORMS = {
    "topics": "The form of kafka-topics works as well: --create, --list, --describe, --alter and "
    "--delete instead of create, list, describe, alter and delete. In that form --topic is a "
    "pattern (what --matching is here), except with --create.",
    **{
        verb: f"The form of kafka-{tool} works as well: --list, --describe, --delete, "
        "--reset-offsets and --delete-offsets instead of list, describe, delete, reset-offsets "
        "and delete-offsets."
        for verb, tool in (
            ("groups", "consumer-groups"),
            ("share-groups", "share-groups"),
            ("streams-groups", "streams-groups"),
        )
    },
    "features": "The form of kafka-features works as well: --bootstrap-server and --command-config "
    "before the action.",
    **{
        verb: f"The action may also be a word: {words[0]} instead of --{words[0]}, and so on. On a "
        "terminal it then prints a table, not the lines of Kafka's tool."
        for verb, words in OPTIONAL_WORDS.items()
    },
}
# The option that replaced --zookeeper in the Kafka tool that a verb corresponds to.
ZOOKEEPER_OPTION = {
    "topics": "kafka-topics removed --zookeeper in Kafka 3.0",
    "reassign": "kafka-reassign-partitions removed --zookeeper in Kafka 3.0",
    "elect-leaders": "kafka-leader-election never had --zookeeper, and Kafka 3.0 removed "
    "kafka-preferred-replica-election, which did",
    "consume": "kafka-console-consumer removed --zookeeper in Kafka 2.0",
    "groups": "kafka-consumer-groups removed --zookeeper in Kafka 2.0",
    "configs": "--zookeeper is deprecated in Kafka 3.9's kafka-configs, and missing here",
}


def is_kafka_form(verb: str, words: Sequence[str]) -> bool:
    """Return whether the action is not the first word: Kafka's tools have it as an option, or after
    the options."""
    return verb in _FORMS and not {*words[:1]}.intersection(_FORMS[verb])


def translate(verb: str, words: Sequence[str]) -> list[str]:
    """Return the arguments translated for ``verb``. Raises WrongUsage."""
    if verb in ZOOKEEPER_OPTION and any(word.split("=")[0] == "--zookeeper" for word in words):
        raise WrongUsage(
            f"{ZOOKEEPER_OPTION[verb]}: name brokers instead, "
            "e.g. --bootstrap-server localhost:9092"
        )
    if verb in LATER_ACTIONS:
        return _action_first(LATER_ACTIONS[verb], words)
    if words and words[0] in OPTIONAL_WORDS.get(verb, ()):
        return [f"--{words[0]}", *words[1:]]
    return _with_action(verb, words) if verb in ACTIONS else list(words)


def _action_first(actions: Sequence[str], words: Sequence[str]) -> list[str]:
    """Translate ``--bootstrap-server B describe`` to ``describe --bootstrap-server B``."""
    at = next((number for number, word in enumerate(words) if word in actions), 0)
    return [*words[at : at + 1], *words[:at], *words[at + 1 :]]


def _with_action(verb: str, words: Sequence[str]) -> list[str]:
    """Translate ``--describe --group G`` to ``describe --group G``. ``--describe --topic T`` of
    topics becomes ``describe --matching T``: in kafka-topics the name is a pattern."""
    if not words or not words[0].startswith("-"):
        return list(words)
    options = {f"--{action}": action for action in ACTIONS[verb]}
    given = [options[word] for word in words if word in options]
    if not given and {"-h", "--help"}.intersection(words):
        return list(words)
    if len(given) != 1:
        *most, last = options
        raise WrongUsage(f"{verb} takes exactly one action: {', '.join(most)} or {last}")
    (action,) = given
    rest = [word for word in words if word not in options]
    if verb == "topics" and action != "create":
        rest = [_as_pattern(word) for word in rest]
    return [action, *rest]


def _as_pattern(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"--matching{equals}{value}" if name == "--topic" else word
