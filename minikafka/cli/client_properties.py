"""Kafka's client keys on the command line, translated to the clients' configurations."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from minikafka.cli.usage import WrongUsage
from minikafka.kernel.client_security import TOKEN_PROVIDER, why_unsupported
from minikafka.kernel.config import ConfigError, parse_properties
from minikafka.kernel.spelling import did_you_mean
from minikafka.protocol.records.compression import Compression

# Keys whose values are not those of our fields.
_ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}
_RENAMED = {"compression.type": "compression"}


def with_properties(given: Mapping[str, str], *configs: Any) -> list[Any]:
    """Return the configurations with each key set in the one that has it: ``linger.ms=5`` sets
    ``linger_ms``. Raises WrongUsage for an unknown key or an invalid value."""
    wanted: list[dict[str, Any]] = [{} for _ in configs]
    for key, text in given.items():
        name = _RENAMED.get(key, key.replace(".", "_"))
        for config, values in zip(configs, wanted, strict=True):
            if name in {field.name for field in fields(config)} - {TOKEN_PROVIDER}:
                values[name] = _value(key, text, getattr(config, name))
                break
        else:
            why = why_unsupported(key)
            if why:
                raise WrongUsage(f"{key}: {why}")
            known = [each.name.replace("_", ".") for config in configs for each in fields(config)]
            near = did_you_mean(key, [*known, *_RENAMED])
            raise WrongUsage(f"unknown client setting {key}{near}")
    try:
        return [replace(config, **values) for config, values in zip(configs, wanted, strict=True)]
    except ValueError as error:  # no such value, or none that goes with the others
        raise WrongUsage(str(error)) from None


def command_config(args: argparse.Namespace) -> dict[str, str]:
    """Return the keys of the --command-config file. As in Kafka's tools, --bootstrap-server wins
    over bootstrap.servers in the file. Raises WrongUsage if the file cannot be read."""
    file = getattr(args, "command_config", None)
    if file is None:
        return {}
    try:
        given = dict(parse_properties(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise WrongUsage(f"--command-config {file}: {error.strerror}") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise WrongUsage(f"--command-config {file}: {error}") from None
    given.pop("bootstrap.servers", None)
    return given


def _value(key: str, text: str, default: Any) -> Any:
    try:
        if key == "acks":
            return _ACKS[text]
        if key == "compression.type":
            return Compression[text.upper()]
        if key == "enable.idempotence" or isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(default, int) or key == "compression.level":
            return int(text)
        if isinstance(default, tuple):
            return tuple(part.strip().rpartition(".")[2] for part in text.split(","))
    except (KeyError, ValueError):
        raise WrongUsage(f"{key}={text}: no such value") from None
    return text
