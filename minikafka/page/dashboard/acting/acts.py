"""The acts that a user can do from the page, as commands of minikafka's command line.

An act is data: its fields, the verb that it runs, and how the fields become the verb's options.
The page draws a form from the fields and shows the command; `minikafka mcp` makes tools of them.
Some verbs read a file. They get it by standard input (``/dev/stdin``), so a shown command is whole:
``printf '%s\\n' '...' | minikafka delete-records --offset-json-file /dev/stdin``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field as dataclass_field
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.page.dashboard.acting.act_fields import (
    ActError,
    ActField,
    Arguments,
    checked,
    flag,
    is_secret,
    number,
    partition,
    topic,
)

STDIN: Final = "/dev/stdin"
HIDDEN: Final = "********"
MAX_EMPTIED: Final = 10_000  # partitions
# The rates of `minikafka quotas set`.
RATES: Final = (
    ("producer_byte_rate", "bytes a second of Produce requests"),
    ("consumer_byte_rate", "bytes a second of Fetch responses"),
    ("request_percentage", "percent of a broker's time"),
    ("controller_mutation_rate", "partitions created or deleted a second"),
    ("connection_creation_rate", "new connections a second, of an address"),
)
_OFFSET: Final = re.compile(r"([A-Za-z0-9._-]{1,249}):(\d{1,10})=(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Command:
    """The words behind ``minikafka``, and the text of standard input.

    ``shown_stdin`` is the input as people may see it. ``secrets`` are variables of the process's
    environment, by name.
    """

    words: tuple[str, ...]
    stdin: str | None = None
    shown_stdin: str | None = None
    secrets: Mapping[str, str] = dataclass_field(default_factory=dict)  # of the environment


@dataclass(frozen=True, slots=True)
class VerbOptions:
    """What an act adds to the words of its verb."""

    words: tuple[str, ...] = ()
    stdin: str | None = None
    shown_stdin: str | None = None  # with secrets hidden; None: as ``stdin``


# Turns checked arguments into options; the flag says whether it is a dry run. Raises ActError.
Build: TypeAlias = Callable[[Arguments, bool], VerbOptions]


@dataclass(frozen=True, slots=True)
class Act:
    """``verb``: words that begin the command. ``changes``: needs a page that is not read-only.

    ``dry_run``: the sentence that says what a dry run does; empty without one. ``bounded``: the
    seconds that the verb may take.
    """

    name: str
    title: str
    verb: tuple[str, ...]
    fields: tuple[ActField, ...] = ()
    build: Build | None = None
    changes: bool = True
    dangerous: bool = False
    dry_run: str = ""
    json: bool = False
    timeout_s: int = 60

    def facts(self, bootstrap: str) -> dict[str, Any]:
        """Return the act as the page gets it."""
        return {
            "name": self.name,
            "title": self.title,
            "fields": [field.facts() for field in self.fields],
            "dry_run": bool(self.dry_run),
            "dry_run_help": self.dry_run,
            "dangerous": self.dangerous,
            "changes": self.changes,
            "command": f"minikafka {' '.join(self.verb)} --bootstrap-server {bootstrap} ...",
        }


def command(
    name: str,
    arguments: Mapping[str, Any],
    bootstrap: str,
    command_config: str | None = None,
    dry_run: bool = False,
) -> Command:
    """Return the command of an act. Raises ActError for an unknown act or wrong arguments.

    ``command_config``: the file of client settings for a cluster with logins. No argument can
    become an option: a text that begins with ``-`` is refused.
    """
    if name not in ACTS:
        raise ActError(f"there is no act {name}")
    act = ACTS[name]
    if dry_run and not act.dry_run:
        raise ActError(f"{name} has no dry run")
    values = checked(act.fields, arguments)
    options = (act.build or _plain(act.fields))(values, dry_run)
    words = [*act.verb, "--bootstrap-server", bootstrap]
    if command_config is not None:
        words += ["--command-config", command_config]
    words += options.words
    if act.json:
        words.append("--json")
    shown = options.stdin if options.shown_stdin is None else options.shown_stdin
    return Command(tuple(words), options.stdin, shown)


def shown_command(found: Command) -> str:
    """Return a line for a shell. It has no secrets, so it may not work as it is."""
    hidden = "".join(f"{name}={HIDDEN} " for name in found.secrets)
    line = f"{hidden}minikafka {shlex.join(found.words)}"
    if found.stdin is None:
        return line
    # Not echo: that of dash and zsh would replace the \n within JSON by a line's end.
    return f"printf '%s\\n' {shlex.quote((found.shown_stdin or '').rstrip())} | {line}"


# ---------------------------------------------------------------------- how fields become options


def _words(fields: Iterable[ActField], values: Arguments) -> list[str]:
    words: list[str] = []
    for field in fields:
        value = values.get(field.name)
        if value is None:
            continue
        if field.kind == "flag":
            words.append(field.option)
        elif field.several:
            for each in value:
                words += [field.option, str(each)]
        else:
            words += [field.option, str(value)]
    return words


def _plain(fields: Sequence[ActField], *more: str) -> Build:
    """Each field is an option of its name."""
    return lambda values, _: VerbOptions((*more, *_words(fields, values)))


def _one_of(values: Arguments, names: Sequence[str], what: str) -> str:
    """Return the only one of the fields that is given. Raises ActError."""
    given = [name for name in names if name in values]
    if len(given) != 1:
        raise ActError(f"{what}: exactly one of {', '.join(names)} is needed")
    return given[0]


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def _create_topic(values: Arguments, _: bool) -> VerbOptions:
    words = _words(_CREATE[:3], values)
    for key, value in values.get("config", {}).items():
        words += ["--config", f"{key}={value}"]
    return VerbOptions(tuple(words))


def _config_entity(values: Arguments) -> list[str]:
    what = _one_of(values, ("topic", "broker", "broker_logger", "broker_defaults"), "settings")
    option = f"--{what.replace('_', '-')}"
    return [option] if what == "broker_defaults" else [option, str(values[what])]


def _alter_configs(values: Arguments, _: bool) -> VerbOptions:
    added: Mapping[str, str] = values.get("add", {})
    gone: Sequence[str] = values.get("delete", [])
    if not added and not gone:
        raise ActError("name settings to add or to delete")
    words = ["--alter", *_config_entity(values)]
    stdin = shown = None
    if any(is_secret(key) for key in added):
        # Others on this machine can read the words of a process, but not its input.
        words += ["--add-config-file", STDIN]
        stdin = "".join(f"{key}={_escaped(value)}\n" for key, value in added.items())
        shown = "".join(
            f"{key}={HIDDEN if is_secret(key) else _escaped(value)}\n"
            for key, value in added.items()
        )
    elif added:
        pairs = (f"{key}={_bracketed(key, value)}" for key, value in added.items())
        words += ["--add-config", ",".join(pairs)]
    if gone:
        words += ["--delete-config", ",".join(gone)]
    return VerbOptions(tuple(words), stdin, shown)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


def _bracketed(key: str, value: str) -> str:
    """Return a value as ``--add-config`` takes it: one with commas stands in brackets."""
    if "]" in value or "[" in value:
        raise ActError(f"{key}: brackets in a value cannot be given")
    return f"[{value}]" if "," in value else value


def _describe_configs(values: Arguments, _: bool) -> VerbOptions:
    words = ["--describe", *_config_entity(values)]
    return VerbOptions((*words, *(["--all"] if "all" in values else [])))


def _delete_records(values: Arguments, _: bool) -> VerbOptions:
    row = {name: values[name] for name in ("topic", "partition", "offset")}
    return VerbOptions(("--offset-json-file", STDIN), _json({"partitions": [row], "version": 1}))


def _empty_topic(values: Arguments, _: bool) -> VerbOptions:
    rows = [
        {"topic": values["topic"], "partition": number, "offset": -1}
        for number in range(values["partitions"])
    ]
    return VerbOptions(("--offset-json-file", STDIN), _json({"partitions": rows, "version": 1}))


def _elect_leaders(values: Arguments, _: bool) -> VerbOptions:
    words = ["--election-type", values["election_type"]]
    if ("topic" in values) != ("partition" in values):
        raise ActError("topic and partition go together; without both all partitions are meant")
    if "topic" not in values:
        return VerbOptions((*words, "--all-topic-partitions"))
    return VerbOptions((*words, *_words((topic(), partition()), values)))


_SCENARIOS: Final = ("to", "offset", "shift_by", "datetime", "duration", "offsets")
_SCENARIO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "offset": "--to-offset",
        "shift_by": "--shift-by",
        "datetime": "--to-datetime",
        "duration": "--by-duration",
    }
)


def _reset_offsets(values: Arguments, dry_run: bool) -> VerbOptions:
    how = "--dry-run" if dry_run else "--execute"
    scenario = _one_of(values, _SCENARIOS, "new offsets")
    words = ["--group", values["group"]]
    if scenario == "offsets":
        if "topic" in values or "partition" in values:
            raise ActError("offsets name their topics and partitions themselves")
        rows = "".join(_offset_row(text) for text in values["offsets"])
        return VerbOptions((*words, "--from-file", STDIN, how), rows)
    if "topic" not in values:
        if "partition" in values:
            raise ActError("a partition needs its topic")
        words.append("--all-topics")
    else:
        number_of = f":{values['partition']}" if "partition" in values else ""
        words += ["--topic", f"{values['topic']}{number_of}"]
    if scenario == "to":
        words.append(f"--to-{values['to']}")
    else:
        words += [_SCENARIO_OPTIONS[scenario], str(values[scenario])]
    return VerbOptions((*words, how))


def _offset_row(text: str) -> str:
    """Turn ``topic:partition=offset`` into a row of the CSV of ``groups reset-offsets``."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise ActError(f"offsets: {text[:100]} is not TOPIC:PARTITION=OFFSET")
    return ",".join(found.groups()) + "\n"


def _delete_offsets(values: Arguments, _: bool) -> VerbOptions:
    number_of = f":{values['partition']}" if "partition" in values else ""
    return VerbOptions(("--group", values["group"], "--topic", f"{values['topic']}{number_of}"))


def _reassign(values: Arguments, dry_run: bool) -> VerbOptions:
    if dry_run:
        if "topic" not in values or "brokers" not in values:
            raise ActError("a proposal needs topic and brokers")
        topics = {"topics": [{"topic": name} for name in values["topic"]], "version": 1}
        brokers = ",".join(map(str, values["brokers"]))
        return VerbOptions(
            ("--generate", "--topics-to-move-json-file", STDIN, "--broker-list", brokers),
            _json(topics),
        )
    if "plan" not in values:
        raise ActError("plan is missing: a dry run proposes one")
    how = _words(_REASSIGN[-2:], values)
    return VerbOptions(("--execute", "--reassignment-json-file", STDIN, *how), _plan(values))


def _with_plan(option: str) -> Build:
    def build(values: Arguments, _: bool) -> VerbOptions:
        return VerbOptions((option, "--reassignment-json-file", STDIN), _plan(values))

    return build


def _plan(values: Arguments) -> str:
    try:
        plan = json.loads(values["plan"])
    except ValueError as error:
        raise ActError(f"plan is not JSON: {error}") from None
    if not isinstance(plan, dict) or not isinstance(plan.get("partitions"), list):
        raise ActError('plan has no list "partitions"')
    return _json(plan)


def _consume(values: Arguments, _: bool) -> VerbOptions:
    words = _words((topic(), partition()), values)
    if "offset" in values:
        if "partition" not in values:
            raise ActError("an offset needs its partition")
        words += ["--offset", str(values["offset"])]
    else:
        words.append("--from-beginning")
    words += ["--max-messages", str(values.get("max_messages", 10))]
    words += ["--timeout-ms", str(values.get("timeout_ms", 3000))]
    # A consumer's request for metadata creates a missing topic, and would be repeated for 30 s.
    for setting in ("allow.auto.create.topics=false", "default.api.timeout.ms=5000"):
        words += ["--consumer-property", setting]
    level = "read_uncommitted" if "uncommitted" in values else "read_committed"
    return VerbOptions((*words, "--isolation-level", level))


def _produce(values: Arguments, _: bool) -> VerbOptions:
    line = {name: values[name] for name in ("key", "value") if name in values}
    return VerbOptions(tuple(_words((topic(), partition()), values)), _json(line))


# -------------------------------------------------------------------- ACLs, users, tokens, quotas


def _acl_resource(values: Arguments) -> list[str]:
    kind = values["resource"]
    if kind == "cluster":
        if "name" in values:
            raise ActError("the cluster has no name: leave the field name empty")
        return ["--cluster"]
    if "name" not in values:
        raise ActError(f"name the {kind.replace('_', ' ')}, or * for all")
    return [f"--{kind.replace('_', '-')}", values["name"]]


def _acl_pattern(values: Arguments) -> list[str]:
    return ["--resource-pattern-type", values["pattern"]] if "pattern" in values else []


def _acl(how: str, *more: str) -> Build:
    def build(values: Arguments, _: bool) -> VerbOptions:
        side = values["permission"]
        words = [how, *_acl_resource(values), *_acl_pattern(values)]
        words += [f"--{side}-principal", values["principal"]]
        if "host" in values:
            words += [f"--{side}-host", values["host"]]
        for operation in values.get("operation", ()):
            words += ["--operation", operation]
        return VerbOptions((*words, *more))

    return build


def _list_acls(values: Arguments, _: bool) -> VerbOptions:
    words = ["--list", *(_acl_resource(values) if "resource" in values else ())]
    return VerbOptions((*words, *_acl_pattern(values), *_words(_ACL_LIST[-3:], values)))


def _create_user(values: Arguments, _: bool) -> VerbOptions:
    words = ("--create", "--password-file", "-", *_words(_NEW_USER[1:], values))
    return VerbOptions(words, f"{values['password']}\n", HIDDEN)


def _log_dirs(values: Arguments, _: bool) -> VerbOptions:
    words = ["--describe"]
    if "topic" in values:
        words += ["--topic-list", ",".join(values["topic"])]
    if "brokers" in values:
        words += ["--broker-list", ",".join(map(str, values["brokers"]))]
    return VerbOptions(tuple(words))


def _groups(values: Arguments, _: bool) -> VerbOptions:
    words = _words([field for field in _GROUPS if field.name != "what"], values)
    if "group" not in values:
        words.append("--all-groups")
    match values.get("what"):
        case "members":
            words += ["--members", "--verbose"]
        case "state":
            words += ["--state"]
    return VerbOptions(tuple(words))


def _abort(values: Arguments, _: bool) -> VerbOptions:
    producer = ("producer_id", "producer_epoch", "coordinator_epoch")
    if "start_offset" not in values and any(name not in values for name in producer):
        raise ActError(f"start_offset is needed, or {', '.join(producer)}")
    return VerbOptions(tuple(_words(_ABORT, values)))


def _find_hanging(values: Arguments, _: bool) -> VerbOptions:
    if "topic" not in values and "broker_id" not in values:
        raise ActError("topic or broker_id is needed")
    return VerbOptions(tuple(_words(_HANGING, values)))


# -------------------------------------------------------------------------------------- the fields

_GROUP: Final = ActField("group", "name of the group", "group", required=True)
_TOPICS: Final = ActField("topic", "names of topics", "topic", several=True)
_BROKERS: Final = ActField("brokers", "ids of brokers", "broker", several=True, most=2**31 - 1)
_LIMIT: Final = number("limit", "rows of one list", least=1, most=1000)
_BROKER: Final = ActField("broker", "id of a broker", "broker", most=2**31 - 1)
_PLAN: Final = ActField("plan", "the JSON of a reassignment", "body", required=True)
_CREATE: Final = (
    topic(),
    number("partitions", "how many; default: num.partitions", least=1, most=100_000),
    number("replication_factor", "default: default.replication.factor", least=1, most=32_767),
    ActField("config", "settings of the topic, such as retention.ms=1000", "settings"),
)
_ENTITY: Final = (
    topic(False, "a topic"),
    _BROKER,
    ActField("broker_logger", "id of the broker whose loggers are meant", "broker", most=2**31 - 1),
    flag("broker_defaults", "the defaults of all brokers"),
)
_RESET: Final = (
    _GROUP,
    topic(False, "default: all topics with a committed offset"),
    partition(False, "default: all partitions of the topic"),
    ActField("to", "where to", "choice", choices=("earliest", "latest", "current")),
    number("offset", "exact offset"),
    number("shift_by", "records forward, or backward if negative", least=-(2**63)),
    ActField("datetime", "the first record at or after it, such as 2026-01-31T12:00:00; UTC"),
    ActField("duration", "the first record at most this old, such as PT1H or P1D"),
    ActField("offsets", "exact offsets, TOPIC:PARTITION=OFFSET each", several=True),
)
_REASSIGN: Final = (
    _TOPICS,
    _BROKERS,
    ActField("plan", "the JSON of a reassignment; a dry run proposes it", "body"),
    number("throttle", "bytes a second that the moves may take", least=1),
    flag("additional", "begin while other reassignments are under way"),
)
_ABORT: Final = (
    topic(),
    partition(),
    number("start_offset", "first offset of the transaction"),
    number("producer_id", "instead of start_offset, with both epochs"),
    number("producer_epoch", "of the producer", most=32_767),
    number("coordinator_epoch", "of the coordinator", least=-1, most=2**31 - 1),
)
_GROUPS: Final = (
    ActField("group", "names of groups; default: all", "group", several=True),
    ActField("what", "default: offsets", "choice", choices=("offsets", "members", "state")),
)
_QUOTA_ENTITY: Final = (
    ActField("user", "name of a user"),
    flag("user_defaults", "every user without a limit of its name"),
    ActField("client", "a client id"),
    flag("client_defaults", "every client id without a limit of its name"),
    ActField("ip", "an address"),
    flag("ip_defaults", "every address without a limit of its name"),
)
_RATES: Final = tuple(
    number(name, help, decimal=True, most=10**15, least=0) for name, help in RATES
)
_LIMITS: Final = ActField(
    "limit",
    "limits to remove; default: all of them",
    "choice",
    choices=tuple(name for name, _ in RATES),
    several=True,
)
_RESOURCE: Final = ActField(
    "resource",
    "what the ACL is about",
    "choice",
    True,
    ("topic", "group", "cluster", "transactional_id", "delegation_token", "user_principal"),
)
_RESOURCE_NAME: Final = ActField("name", "name of the resource, or * for all; none of the cluster")
_ACL: Final = (
    _RESOURCE,
    _RESOURCE_NAME,
    ActField(
        "pattern",
        "prefixed: all names that begin so; default: literal",
        "choice",
        choices=("literal", "prefixed"),
    ),
    ActField("permission", "a Deny outranks every Allow", "choice", True, ("allow", "deny")),
    ActField("principal", "such as User:alice; User:* is everybody", required=True),
    ActField("host", "address of the client; default: * for all"),
    ActField("operation", "such as Read,Write; default: All", several=True),
)
_ACL_LIST: Final = (
    replace(_RESOURCE, required=False),
    _RESOURCE_NAME,
    ActField(
        "pattern",
        "match: all rules that affect the resource; default: literal",
        "choice",
        choices=("literal", "prefixed", "any", "match"),
    ),
    ActField("principal", "only of these", several=True),
    topic(False, "of this topic"),
    ActField("group", "of this group", "group"),
)
_MECHANISM: Final = ActField(
    "mechanism", "default: both", "choice", choices=("SCRAM-SHA-256", "SCRAM-SHA-512"), several=True
)
_USER: Final = ActField("user", "name of the user", required=True)
_NEW_USER: Final = (
    ActField("password", "the new password", "password", True),
    _USER,
    _MECHANISM,
    number("iterations", "rounds of hashing (4096)", least=4096, most=16384),
)
_TOKEN_ID: Final = ActField("token_id", "id of the token", required=True)
_NEW_TOKEN: Final = (
    number("max_life_time_period", "longest life in ms; -1: as long as the brokers allow", True,
           least=-1),
    ActField("owner_principal", "default: the user who logs in, here the page's"),
    ActField("renewer_principal", "who else may renew it, such as User:bob", several=True),
)  # fmt: skip
_RENEWED: Final = (
    _TOKEN_ID,
    number("renew_time_period", "ms from now; -1: as the brokers are set", True, least=-1),
)
_EXPIRED: Final = (
    _TOKEN_ID,
    number("expiry_time_period", "ms from now; -1: remove it now", True, least=-1),
)
_HANGING: Final = (
    topic(False, "only this topic"),
    partition(False),
    number("broker_id", "only partitions with a replica on this broker", most=2**31 - 1),
    number("max_transaction_timeout", "minutes that are no reason to worry", most=10**6),
)
_CONSUME: Final = (
    topic(),
    partition(False, "default: all partitions"),
    number("offset", "start here; default: the earliest record"),
    number("max_messages", "end after so many records (10)", least=1, most=1000),
    number("timeout_ms", "end when no record arrives for this time (3000)", least=1, most=30_000),
    flag("uncommitted", "also records of transactions that are open or aborted"),
)

# ---------------------------------------------------------------------------------------- the acts

_CHANGES: Final = (
    Act("topics-create", "Create a topic", ("topics", "create"), _CREATE, _create_topic),
    Act(
        "topics-alter",
        "Add partitions",
        ("topics", "alter"),
        (topic(), number("partitions", "the new total", True, least=1, most=100_000)),
    ),
    Act(
        "topics-delete",
        "Delete a topic and its records",
        ("topics", "delete"),
        (topic(),),
        dangerous=True,
    ),
    Act(
        "topics-empty",
        "Delete all records of a topic",
        ("delete-records",),
        (
            topic(),
            number("partitions", "how many the topic has", True, least=1, most=MAX_EMPTIED),
        ),
        _empty_topic,
        dangerous=True,
        json=True,
    ),
    Act(
        "configs-alter",
        "Change settings of a topic or a broker",
        ("configs",),
        (
            *_ENTITY,
            ActField(
                "add",
                "settings to set, such as retention.ms=1000,segment.bytes=2000000",
                "settings",
            ),
            ActField("delete", "settings whose default shall apply again", several=True),
        ),
        _alter_configs,
    ),
    Act(
        "delete-records",
        "Delete the oldest records of a partition",
        ("delete-records",),
        (
            topic(),
            partition(),
            number("offset", "records below it are deleted; -1: all", True, least=-1),
        ),
        _delete_records,
        dangerous=True,
        json=True,
    ),
    Act(
        "groups-reset-offsets",
        "Set the offsets of a group without members",
        ("groups", "reset-offsets"),
        _RESET,
        _reset_offsets,
        dangerous=True,
        dry_run="shows the new offsets without committing them",
    ),
    Act(
        "groups-delete",
        "Delete a group and its offsets",
        ("groups", "delete"),
        (_GROUP,),
        dangerous=True,
    ),
    Act(
        "groups-delete-offsets",
        "Delete the offsets of a group for a topic",
        ("groups", "delete-offsets"),
        (_GROUP, topic(), partition(False, "default: all partitions of the topic")),
        _delete_offsets,
        dangerous=True,
    ),
    Act(
        "transactions-abort",
        "Abort a hanging transaction",
        ("transactions", "abort"),
        _ABORT,
        _abort,
        dangerous=True,
    ),
    Act(
        "elect-leaders",
        "Elect leaders",
        ("elect-leaders",),
        (
            ActField(
                "election_type",
                "unclean may lose records",
                "choice",
                True,
                ("preferred", "unclean"),
            ),
            topic(False, "default: all topics"),
            partition(False),
        ),
        _elect_leaders,
        dangerous=True,
    ),
    Act(
        "reassign",
        "Move replicas to other brokers",
        ("reassign",),
        _REASSIGN,
        _reassign,
        dangerous=True,
        dry_run="proposes a plan that spreads the topics over the brokers",
    ),
    Act(
        "reassign-verify",
        "Check a reassignment, and remove its throttles once it is complete",
        ("reassign",),
        (_PLAN,),
        _with_plan("--verify"),
    ),
    Act(
        "reassign-cancel",
        "Cancel a reassignment that is under way",
        ("reassign",),
        (_PLAN,),
        _with_plan("--cancel"),
    ),
    Act("quotas-set", "Set limits", ("quotas", "set"), (*_QUOTA_ENTITY, *_RATES)),
    Act("quotas-remove", "Remove limits", ("quotas", "remove"), (*_QUOTA_ENTITY, _LIMITS)),
    Act("acls-add", "Add ACLs", ("acls",), _ACL, _acl("--add"), dangerous=True),
    Act("acls-remove", "Remove ACLs", ("acls",), _ACL, _acl("--remove", "--force"), dangerous=True),
    Act(
        "users-create", "Create a user, or change the password", ("users",), _NEW_USER, _create_user
    ),
    Act(
        "users-delete",
        "Delete SCRAM credentials of a user",
        ("users",),
        (_USER, _MECHANISM),
        _plain((_USER, _MECHANISM), "--delete"),
        dangerous=True,
    ),
    Act(
        "tokens-create",
        "Create a delegation token",
        ("tokens",),
        _NEW_TOKEN,
        _plain(_NEW_TOKEN, "--create"),
        json=True,
    ),
    Act(
        "tokens-renew",
        "Let a delegation token expire later",
        ("tokens",),
        _RENEWED,
        _plain(_RENEWED, "--renew"),
    ),
    Act(
        "tokens-expire",
        "Let a delegation token expire",
        ("tokens",),
        _EXPIRED,
        _plain(_EXPIRED, "--expire"),
        dangerous=True,
    ),
    Act(
        "produce",
        "Write a record",
        ("produce",),
        (
            topic(),
            partition(False, "default: by the hash of the key"),
            ActField("key", "key of the record", "body"),
            ActField("value", "value of the record; none is a tombstone", "body"),
        ),
        _produce,
        json=True,
    ),
)


def _reading(name: str, title: str, *fields: ActField, **more: Any) -> Act:
    verb = more.pop("verb", tuple(name.split("-", 1)))
    return Act(name, title, verb, fields, changes=False, **more)


_READS: Final = (
    _reading("topics-list", "List topics", flag("exclude_internal", "without internal ones"),
             json=True),
    _reading("topics-describe", "Show partitions, leaders, replicas and ISR of topics", _TOPICS,
             json=True),
    _reading("groups-list", "List groups and their states", build=_plain((), "--state"),
             json=True),
    _reading("groups-describe", "Show offsets and lag, members or state of groups", *_GROUPS,
             build=_groups, json=True),
    _reading("configs-describe", "Show settings of a topic or a broker", *_ENTITY,
             flag("all", "also those with their default"), verb=("configs",),
             build=_describe_configs, json=True),
    _reading("controller-status", "Show the controller's queue and last transitions", _BROKER,
             _LIMIT, json=True),
    _reading("transactions-list", "List transactional ids and their states",
             number("duration_filter", "only transactions open for longer, ms"), json=True),
    _reading("transactions-describe", "Show one transaction",
             ActField("transactional_id", "the transactional id", required=True), json=True),
    _reading("transactions-describe-producers", "Show the active producers of a partition",
             topic(), partition(), json=True),
    _reading("transactions-find-hanging",
             "Find open transactions that their coordinator does not know", *_HANGING,
             build=_find_hanging, json=True),
    _reading("log-dirs", "Show the sizes of replicas by log directory", _TOPICS, _BROKERS,
             verb=("log-dirs",), build=_log_dirs),
    _reading("consume", "Read records", *_CONSUME, verb=("consume",), build=_consume, json=True),
    _reading("quotas-describe", "Show limits", *_QUOTA_ENTITY, json=True),
    _reading("acls-list", "List ACLs", *_ACL_LIST, verb=("acls",), build=_list_acls, json=True),
    _reading("users-describe", "Show the SCRAM credentials of users",
             replace(_USER, required=False), verb=("users",),
             build=_plain((replace(_USER, required=False),), "--describe"), json=True),
    _reading("reassign-list", "List reassignments under way", verb=("reassign",),
             build=_plain((), "--list")),
    *(
        _reading(f"debug-{what}", title,
                 ActField("broker", "id of a broker", "broker", True, most=2**31 - 1), _LIMIT,
                 json=True)
        for what, title in (
            ("purgatories", "Show parked requests and timing wheels of a broker"),
            ("tasks", "Show the tasks of a broker"),
            ("groups", "Show the groups that a broker coordinates"),
            ("scrubber", "Show damaged batches that a broker has found"),
            ("metrics", "Show counters and gauges of a broker"),
        )
    ),
)  # fmt: skip

ACTS: Final[Mapping[str, Act]] = MappingProxyType({act.name: act for act in (*_CHANGES, *_READS)})
