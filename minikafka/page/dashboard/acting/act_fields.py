"""The fields of an act, and the checks of the values that a user gives for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from minikafka.kernel.config import ConfigType
from minikafka.kernel.dynamic_settings import is_password
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.settings import BROKER_CONFIG

MAX_TEXT = 64 * 1024
MAX_VALUES = 1000  # of a field that takes several
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_KEY: Final = re.compile(r"[A-Za-z0-9._-]+")
# A comma begins the next setting only if a key and "=" follow: lists in values need no brackets.
_NEXT_SETTING: Final = re.compile(r",(?=\s*[A-Za-z0-9._-]+=)")
_SECRET: Final = re.compile(r"password|secret|jaas|credential|private", re.IGNORECASE)
_TRUE_OR_FALSE: Final = {"true": True, "false": False}

# The values of one act by the names of its fields, checked.
Arguments: TypeAlias = Mapping[str, Any]


class ActError(Exception):
    """An unknown act, or a value that a field does not take; the message is for the user."""


@dataclass(frozen=True, slots=True)
class ActField:
    """One value that a user gives.

    ``kind``: text, number, choice, flag, topic, broker, group, settings (``a=1,b=2``, a dict once
    checked), body (any text, never a word of the command), document (a body of many lines) or
    password (a line that is neither a word of the command nor shown). ``several``: comma-separated
    text or a list. ``least`` and ``most`` bound a number.
    """

    name: str
    help: str
    kind: str = "text"
    required: bool = False
    choices: tuple[str, ...] = ()
    several: bool = False
    least: int = 0
    most: int = 2**63 - 1
    decimal: bool = False

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def facts(self) -> dict[str, Any]:
        """Return the field as the page gets it."""
        shown = {"settings": "text", "body": "text", "document": "lines"}
        return {
            "name": self.name,
            "type": shown.get(self.kind, self.kind),
            "required": self.required,
            "choices": list(self.choices),
            "several": self.several,
            "help": self.help,
        }


def topic(required: bool = True, help: str = "name of the topic") -> ActField:
    return ActField("topic", help, "topic", required)


def partition(required: bool = True, help: str = "number of the partition") -> ActField:
    return ActField("partition", help, "number", required, most=2**31 - 1)


def number(name: str, help: str, required: bool = False, **bounds: Any) -> ActField:
    return ActField(name, help, "number", required, **bounds)


def flag(name: str, help: str) -> ActField:
    return ActField(name, help, "flag")


def checked(fields: Sequence[ActField], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by field, without those that were left empty. Raises ActError."""
    known = {field.name for field in fields}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ActError(f"there is no field {unknown[0]}; the fields are {', '.join(sorted(known))}")
    values: dict[str, Any] = {}
    for field in fields:
        value = _value(field, given.get(field.name))
        if value is None or value == [] or value == {}:
            if field.required:
                raise ActError(f"the field {field.name} is missing")
            continue
        values[field.name] = value
    return values


def _value(field: ActField, given: Any) -> Any:
    if given is None or (given == "" and field.kind != "body"):
        return None
    if field.kind == "settings":
        return _settings(field, given)
    if not field.several:
        return _single(field, given)
    parts = given.split(",") if isinstance(given, str) else given
    parts = parts if isinstance(parts, list) else [parts]
    if len(parts) > MAX_VALUES:
        raise ActError(f"{field.name}: a list of at most {MAX_VALUES} values is needed")
    return [_single(field, part.strip() if isinstance(part, str) else part) for part in parts]


def _single(field: ActField, given: Any) -> Any:
    if field.kind == "flag":
        return _flag(field, given)
    if field.kind in ("number", "broker"):
        return _number(field, given)
    text = _text(field, given)
    if field.kind == "choice" and text not in field.choices:
        raise ActError(f"{field.name}: {text} is none of {', '.join(field.choices)}")
    if field.kind == "topic" and not _TOPIC.fullmatch(text):
        raise ActError(f"{field.name}: {text[:100]} cannot be the name of a topic")
    return text


def _flag(field: ActField, given: Any) -> bool | None:
    found = _TRUE_OR_FALSE.get(given.lower()) if isinstance(given, str) else given
    if not isinstance(found, bool):
        raise ActError(f"{field.name}: true or false is needed")
    return found or None


def _number(field: ActField, given: Any) -> int | float:
    try:
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise ValueError
        value = float(given) if field.decimal or isinstance(given, float) else int(given)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, float) and not field.decimal:
            raise ValueError
    except (ValueError, OverflowError):
        raise ActError(f"{field.name}: a number is needed, not {str(given)[:100]}") from None
    if not field.least <= value <= field.most:
        raise ActError(f"{field.name}: {value} is not within {field.least} to {field.most}")
    return value


def _text(field: ActField, given: Any) -> str:
    if not isinstance(given, str):
        raise ActError(f"{field.name}: a text is needed")
    if len(given) > MAX_TEXT:
        raise ActError(f"{field.name}: the text is longer than {MAX_TEXT} characters")
    if field.kind in ("body", "document") or (field.kind == "password" and given.isprintable()):
        return given
    if not given or not given.isprintable():
        raise ActError(f"{field.name}: the text is empty or has characters that cannot be printed")
    if given.startswith("-"):
        raise ActError(f"{field.name}: {given[:100]} begins with -, as an option does")
    return given


def _settings(field: ActField, given: Any) -> dict[str, str]:
    if isinstance(given, Mapping):
        pairs = [(str(key), value) for key, value in given.items()]
    else:
        parts = _NEXT_SETTING.split(given) if isinstance(given, str) else given
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise ActError(f"{field.name}: settings are needed, such as retention.ms=1000")
        pairs = []
        for part in parts:
            key, equals, value = part.partition("=")
            if not equals:
                raise ActError(f"{field.name}: {part[:100]} is not KEY=VALUE")
            pairs.append((key.strip(), value.strip()))
    found: dict[str, str] = {}
    for key, value in pairs:
        if not _KEY.fullmatch(key) or key.startswith("-"):
            raise ActError(f"{field.name}: {key[:100]} cannot be the key of a setting")
        if not isinstance(value, str) or not (value.isprintable() or value == ""):
            raise ActError(f"{field.name}: {key} needs a value in one line of text")
        if len(value) > 1 and value[0] == "[" and value[-1] == "]":
            value = value[1:-1]
        found[key] = value
    return found


def is_secret(key: str) -> bool:
    """Return whether the value of a setting must not be shown: by its name, or since a broker keeps
    it as a password, such as a private key in ``ssl.keystore.key``."""
    row = BROKER_CONFIG.row(key)
    is_password_row = row is not None and row.type is ConfigType.PASSWORD
    return is_password_row or is_password(key) or _SECRET.search(key) is not None
