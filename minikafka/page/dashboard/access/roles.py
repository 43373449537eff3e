"""What each role may do. Pure; an act or a request that no row names needs an administrator."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final


class Role(IntEnum):
    """A role may do what the lesser ones may, and more.

    LOOK reads everything, records too. PRODUCE writes records. OPERATE changes topics, offsets and
    where replicas are. ADMINISTER changes who may do what, and brokers, and deletes topics.
    """

    LOOK = 1
    PRODUCE = 2
    OPERATE = 3
    ADMINISTER = 4

    @property
    def label(self) -> str:
        return self.name.lower()


ROLES: Final = {role.label: role for role in Role}

_OF_ACTS: Final[Mapping[str, Role]] = {
    "produce": Role.PRODUCE,
    **dict.fromkeys(
        (
            "topics-create",
            "topics-alter",
            "delete-records",
            "groups-reset-offsets",
            "groups-delete",
            "groups-delete-offsets",
            "transactions-abort",
            "elect-leaders",
            "reassign",
            "reassign-verify",
            "reassign-cancel",
            "schemas-register",
            "schemas-level",
            "connect-restart",
            "connect-restart-task",
            "connect-pause",
            "connect-resume",
            "connect-stop",
        ),
        Role.OPERATE,
    ),
}
# POST requests of the page by path. Which act /api/do/ is decides further.
_OF_POSTS: Final[Mapping[str, Role]] = {"/api/produce": Role.PRODUCE}


def needed_for_act(name: str, arguments: Mapping[str, Any], changes: bool = True) -> Role:
    """Return the least role that may do an act; the settings of a topic need less than those of a
    broker. An act that does not change anything only looks."""
    if not changes:
        return Role.LOOK
    if name == "configs-alter" and arguments.get("topic"):
        return Role.OPERATE
    return _OF_ACTS.get(name, Role.ADMINISTER)


def needed_for_request(method: str, path: str) -> Role:
    """Return the least role whose requests are let in; /api/do/ decides about the act itself."""
    if method in ("GET", "HEAD") or path.startswith("/api/do/"):
        return Role.LOOK
    return _OF_POSTS.get(path, Role.ADMINISTER)
