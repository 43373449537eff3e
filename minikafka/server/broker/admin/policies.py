"""Applies the policies of the user's to new topics and configurations."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from minikafka.core.policies import PolicyViolation
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog

P = TypeVar("P")


def apply_policy(validate: Callable[[P], None], proposal: P, log: EventLog) -> None:
    """Raise KafkaError: POLICY_VIOLATION if the policy refuses the proposal, and
    UNKNOWN_SERVER_ERROR if it fails, which is logged as ``policy_failed``."""
    try:
        validate(proposal)
    except PolicyViolation as violation:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, str(violation)) from violation
    except Exception as error:  # of the user's code: it concerns this topic or resource only
        log.error(
            "policy_failed",
            error=repr(error),
            traceback="".join(traceback.format_exception(error)),
        )
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
