"""Python classes of the user's that a configuration names: the authorizer and the policies."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from minikafka.core.policies import AlterConfigPolicy, CreateTopicPolicy
from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.settings import ALTER_CONFIG_POLICY, CREATE_TOPIC_POLICY


def made_plugin(key: str, name: str, given: Mapping[str, str], methods: tuple[str, ...]) -> Any:
    """Import a class and call it with the configuration. ``name`` is ``package.module.Class`` or
    ``package.module:Class``. Raises ConfigError if that fails, or a method is missing."""
    module, _, class_name = name.rpartition(":" if ":" in name else ".")
    try:
        plugin = getattr(importlib.import_module(module), class_name)
        made = plugin(MappingProxyType(dict(given)))
    except Exception as error:  # of the user's code, at the start: it ends the start
        raise ConfigError(
            f"{key}: the Python class {name} cannot be used: {error!r}; Java classes are not loaded"
        ) from error
    missing = [method for method in methods if not callable(getattr(made, method, None))]
    if missing:
        raise ConfigError(f"{key}: {name} has no {', '.join(missing)}")
    return made


def create_topic_policy(config: Config) -> CreateTopicPolicy | None:
    """Return the policy for new topics; None if there is none. Raises ConfigError."""
    name = config.optional("create.topic.policy.class.name")
    policy: CreateTopicPolicy | None = _policy(CREATE_TOPIC_POLICY, name, config)
    return policy


def alter_config_policy(config: Config) -> AlterConfigPolicy | None:
    """Return the policy for configurations; None if there is none. Raises ConfigError."""
    name = config.optional("alter.config.policy.class.name")
    policy: AlterConfigPolicy | None = _policy(ALTER_CONFIG_POLICY, name, config)
    return policy


def _policy(key: str, name: str | None, config: Config) -> Any:
    return made_plugin(key, name, config.given, ("validate",)) if name else None
