"""The BROKER_LOGGER resource: levels of this process's loggers, described and altered (KIP-412)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minikafka.core.config_resources import AlterOperation, ConfigSource
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import (
    LOGGERS,
    ROOT_LOGGER,
    EventLog,
    LoggerLevels,
    event_log,
    logger_levels,
    set_logger_levels,
)
from minikafka.server.broker.admin.config_alterations import Change
from minikafka.server.broker.admin.config_entries import ConfigEntry

VALID_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class BrokerLoggers:
    """Describes and alters the levels of loggers (Kafka's ``RuntimeLoggerManager``).

    A level applies at once and until the process ends. It is shared by all brokers in the process.
    The error messages are Kafka's."""

    def __init__(
        self,
        broker_id: int,
        log: EventLog | None = None,
        read: Callable[[], LoggerLevels] = logger_levels,
        write: Callable[[LoggerLevels], None] = set_logger_levels,
    ) -> None:
        self._broker_id = broker_id
        self._log = log or event_log("config-admin", broker=broker_id)
        self._read = read
        self._write = write

    def entries(self, name: str) -> list[ConfigEntry]:
        """Return every logger with its effective level. ``name`` is the broker id as text.

        Raises KafkaError(INVALID_REQUEST) unless it is the id of this broker."""
        if not name:
            raise _bad_request("Broker id must not be empty")
        requested = _integer(name, "Broker")
        if requested != self._broker_id:
            raise _bad_request(
                f"Unexpected broker id, expected {self._broker_id} but received {name}"
            )
        levels = self._read()
        return [
            ConfigEntry(
                logger,
                levels.of(logger),
                ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
                type=None,
                documentation=None,
                read_only=False,
                sensitive=False,
                synonyms=(),
            )
            for logger in (ROOT_LOGGER, *LOGGERS)
        ]

    def alter(self, name: str, changes: Sequence[Change], validate_only: bool) -> None:
        """Set or remove levels: all of ``changes``, or none after an error. With ``validate_only``
        the changes are checked and not made.

        Raises KafkaError(INVALID_REQUEST | INVALID_CONFIG)."""
        requested = _integer(name, "Node")
        if requested != self._broker_id:
            raise _bad_request(
                f"Unexpected node id. Expected {self._broker_id}, but received {name}"
            )
        levels = self._read()
        root, own = levels.root, dict(levels.own)
        for change in changes:
            _check(change)
            if change.operation == AlterOperation.DELETE:
                own.pop(change.name, None)
            elif change.name == ROOT_LOGGER:
                root = str(change.value)
            else:
                own[change.name] = str(change.value)
        if validate_only:
            return
        self._write(LoggerLevels(root, own))
        for change in changes:
            level = None if change.operation == AlterOperation.DELETE else change.value
            self._log.warning("log_level_altered", logger=change.name, log_level=level)


def _check(change: Change) -> None:
    """Raise KafkaError(INVALID_REQUEST | INVALID_CONFIG) for an operation, logger or level that is
    not allowed."""
    logger, operation = change.name, change.operation
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        known = operation in list(AlterOperation)
        label = AlterOperation(operation).name if known else f"Unknown operation type {operation}"
        kind = f"{label} operation" if known else label
        raise _bad_request(f"{kind} is not allowed for the BROKER_LOGGER resource")
    if logger != ROOT_LOGGER and logger not in LOGGERS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
    if operation == AlterOperation.DELETE:
        if logger == ROOT_LOGGER:
            raise _bad_request(f"Removing the log level of the {logger} logger is not allowed")
    elif change.value not in VALID_LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {logger} to {change.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(VALID_LEVELS)}",
        )


def _integer(name: str, what: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise _bad_request(f"{what} id must be an integer, but it is: {name}") from None


def _bad_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
