"""Security keys that are not real are refused when they ask for an effect."""

from __future__ import annotations

import re

import pytest

from minikafka.kernel.config import ConfigError, Setting
from minikafka.kernel.ineffective_settings import INEFFECTIVE_SETTINGS, REFUSED_SETTINGS
from minikafka.kernel.settings import BROKER_CONFIG

SECURITY = re.compile(r"ssl|sasl|security|acl|principal|authorizer|delegation|password")
VALUES = {"boolean": "true", "class": "com.example.Class", "string": "x", "list": "x"}
# Keys without effect that protect nothing: how Java does what we do in another way, times and
# names of mechanisms that are refused by themselves (GSSAPI), and what has no user here.
HARMLESS = re.compile(
    r"zookeeper\.ssl\.(key|trust)store\.type"
    r"|ssl\.(keymanager\.algorithm|keystore\.type|protocol|provider|secure\.random\.implementation"
    r"|trustmanager\.algorithm|truststore\.type)|security\.providers"
    r"|sasl\.kerberos\..*|sasl\.login\..*|sasl\.oauthbearer\.token\.endpoint\.url"
    r"|sasl\.(jaas\.config|server\.callback\.handler\.class)"
    r"|sasl\.mechanism\.controller\.protocol"
)


def of_security(rows: tuple[Setting, ...]) -> list[Setting]:
    return [row for row in rows if SECURITY.search(row.name)]


@pytest.mark.parametrize("row", of_security(REFUSED_SETTINGS), ids=lambda row: row.name)
def test_a_security_key_without_effect_is_refused(row: Setting) -> None:
    value = VALUES[row.type.kafka_type.name.lower()]
    with pytest.raises(ConfigError, match=re.escape(row.name)):
        BROKER_CONFIG.parse({"zookeeper.connect": "z:1", row.name: value})


def test_no_other_security_key_is_accepted_without_effect() -> None:
    left = [row.name for row in of_security(INEFFECTIVE_SETTINGS)]
    assert [name for name in left if not HARMLESS.fullmatch(name)] == []
