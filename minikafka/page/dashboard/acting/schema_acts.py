"""The acts on a schema registry, as commands of `minikafka schemas`.

A dry run of registering checks the compatibility. The login of the registry is in the environment
of the process, where other users of this machine cannot read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from minikafka.client.rest import RestAddress
from minikafka.client.schema_registry import KINDS, LEVELS, LOGIN_VARIABLE
from minikafka.page.dashboard.acting.act_fields import (
    ActError,
    ActField,
    Arguments,
    checked,
    number,
)
from minikafka.page.dashboard.acting.acts import STDIN, Act, Command, VerbOptions

_SUBJECT: Final = ActField("subject", "name of the subject, such as orders-value", required=True)
_REGISTER: Final = (
    _SUBJECT,
    ActField("type", "of the schema", "choice", True, KINDS),
    ActField("schema", "text of the schema", "document", True),
    ActField("reference", "schemas that it names, NAME=SUBJECT:VERSION each", several=True),
)
_DELETE: Final = (_SUBJECT, number("version", "default: all versions", least=1))
_LEVEL: Final = (
    ActField("subject", "default: the global level"),
    ActField("level", "which changes are allowed", "choice", True, LEVELS),
)
SCHEMA_ACTS: Final[Mapping[str, Act]] = MappingProxyType(
    {
        act.name: act
        for act in (
            Act(
                "schemas-register",
                "Register a schema",
                ("schemas", "register"),
                _REGISTER,
                dry_run="checks whether the schema can be the next version, without registering it",
            ),
            Act("schemas-level", "Set a compatibility level", ("schemas", "level"), _LEVEL),
            Act(
                "schemas-delete",
                "Delete a version or a subject",
                ("schemas", "delete"),
                _DELETE,
                dangerous=True,
            ),
        )
    }
)


def schema_command(
    name: str, arguments: Mapping[str, Any], address: RestAddress, dry_run: bool
) -> Command:
    """Return the command of an act. Raises ActError for wrong arguments."""
    act = SCHEMA_ACTS[name]
    if dry_run and not act.dry_run:
        raise ActError(f"{name} has no dry run")
    values = checked(act.fields, arguments)
    options = _options(name, values)
    verb = ("schemas", "check") if dry_run else act.verb
    words = (*verb, "--registry", address.url, *options.words)
    secrets = {} if address.login is None else {LOGIN_VARIABLE: address.login}
    return Command(words, options.stdin, options.stdin, secrets)


def _options(name: str, values: Arguments) -> VerbOptions:
    words: list[str] = []
    for field, option in (
        ("subject", "--subject"),
        ("version", "--version"),
        ("type", "--type"),
        ("level", "--set"),
    ):
        if field in values:
            words += [option, str(values[field])]
    if name != "schemas-register":
        return VerbOptions(tuple(words))
    words += ["--schema-file", STDIN]
    for each in values.get("reference", []):
        words += ["--reference", each]
    return VerbOptions(tuple(words), values["schema"].strip() + "\n")


def schema_act_facts(address: RestAddress) -> list[dict[str, Any]]:
    """Return the acts as the page gets them."""
    return [
        {
            **act.facts(""),
            "command": f"minikafka {' '.join(act.verb)} --registry {address.url} ...",
        }
        for act in SCHEMA_ACTS.values()
    ]
