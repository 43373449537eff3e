"""The authorizer that ``authorizer.class.name`` names."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, cast

import pytest

from minikafka.core.security.acl_cache import AclRules
from minikafka.kernel.config import ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.node.authorizer import AUTHORIZER_METHODS, NodeAuthorizer, acl_rules
from minikafka.testing.simulator.cluster import SETTINGS
from minikafka.world.sim.world import SimWorld

BUILT_IN = "kafka.security.authorizer.AclAuthorizer"


def made(**settings: str) -> NodeAuthorizer:
    given = {key.replace("__", "."): value for key, value in settings.items()}
    config = BROKER_CONFIG.parse(SETTINGS | {"broker.id": "1"} | given)
    world = SimWorld(1).host("h").world
    return NodeAuthorizer(world, config, 1, lambda: cast(Any, None))


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the user's with an authorizer."""
    module = ModuleType("users_policies")

    class Whole:
        def __init__(self, settings: Any) -> None:
            self.settings = settings

    for method in AUTHORIZER_METHODS:
        setattr(Whole, method, lambda self: None)

    class Partial:
        def __init__(self, settings: Any) -> None: ...

        def authorize(self) -> None: ...

    class Failing:
        def __init__(self, settings: Any) -> None:
            raise OSError("no policy file")

    module.__dict__.update(Whole=Whole, Partial=Partial, Failing=Failing)
    monkeypatch.setitem(sys.modules, "users_policies", module)
    return module


@pytest.mark.mission("SEC-142")
def test_there_is_none_unless_it_is_configured() -> None:
    assert made().authorization is None
    assert made(authorizer__class__name=BUILT_IN).authorization is not None


@pytest.mark.parametrize("name", ["users_policies:Whole", "users_policies.Whole"])
def test_a_python_class_gets_the_configuration(plugin: ModuleType, name: str) -> None:
    found = made(authorizer__class__name=name, authorizer__policy="strict").authorization
    assert found is not None
    authorizer: Any = found.authorizer
    assert isinstance(authorizer, plugin.__dict__["Whole"])
    assert authorizer.settings["authorizer.policy"] == "strict"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("users_policies:Partial", "Partial has no authorize_by_type, acl_patterns"),
        ("users_policies:Failing", "no policy file"),
        ("users_policies:Missing", "Missing"),
        ("no_such_module.Authorizer", "no_such_module"),
        ("Authorizer", "Java classes are not loaded"),
    ],
)
def test_a_class_that_cannot_be_used_ends_the_start(
    plugin: ModuleType, name: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        made(authorizer__class__name=name)


def test_the_built_in_one_reads_no_keys_of_other_authorizers() -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.policy: AclAuthorizer does not read it"):
        made(authorizer__class__name=BUILT_IN, authorizer__policy="strict")


def test_rules_beside_the_acls() -> None:
    assert acl_rules({}) == AclRules(frozenset(), False)
    users = "User:a; User:CN=b,O=c;"
    assert acl_rules({"super.users": users, "allow.everyone.if.no.acl.found": " TRUE "}) == (
        AclRules(frozenset({"User:a", "User:CN=b,O=c"}), True)
    )
    for key, value in (("super.users", "alice"), ("allow.everyone.if.no.acl.found", "yes")):
        with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
            acl_rules({key: value})
