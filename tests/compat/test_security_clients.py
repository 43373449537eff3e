"""Admin clients of others meet a broker without security, and keep quotas and credentials there."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as PythonResourceType
from kafka.errors import SecurityDisabledError

from tests.support.clients.places import Cluster

pytestmark = pytest.mark.compat

SECURITY_DISABLED = 54
RESOURCE_NOT_FOUND = 91


@pytest.mark.mission("SEC-1")
def test_acls_by_confluent_kafka(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    entry = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException) as caught:
        admin.create_acls([entry])[entry].result(30)
    assert caught.value.args[0].code() == SECURITY_DISABLED
    assert caught.value.args[0].str() == "No Authorizer is configured."


@pytest.mark.mission("SEC-1")
def test_acls_by_kafka_python(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        with pytest.raises(SecurityDisabledError, match="No Authorizer is configured"):
            admin.describe_acls(
                ACLFilter(
                    None,
                    None,
                    ACLOperation.ANY,
                    ACLPermissionType.ANY,
                    ResourcePatternFilter(
                        PythonResourceType.TOPIC, "t", ACLResourcePatternType.ANY
                    ),
                )
            )
    finally:
        admin.close()


@pytest.mark.mission("SEC-3")
def test_credentials_by_confluent_kafka(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    mechanism = ScramMechanism.SCRAM_SHA_512
    wish = UserScramCredentialUpsertion("joe", ScramCredentialInfo(mechanism, 8192), b"pw", b"salt")
    admin.alter_user_scram_credentials([wish])["joe"].result(30)
    found = admin.describe_user_scram_credentials(["joe", "nobody"])
    assert isinstance(found, dict)
    infos = found["joe"].result(30).scram_credential_infos
    assert [(info.mechanism, info.iterations) for info in infos] == [(mechanism, 8192)]
    with pytest.raises(KafkaException) as caught:
        found["nobody"].result(30)
    assert caught.value.args[0].code() == RESOURCE_NOT_FOUND
    deletion = UserScramCredentialDeletion("joe", mechanism)
    admin.alter_user_scram_credentials([deletion])["joe"].result(30)
    everybody = admin.describe_user_scram_credentials()
    assert not isinstance(everybody, dict)
    assert everybody.result(30) == {}
