"""Calls about SCRAM credentials: describe, set and delete them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.core.client.calls import Call, ControllerCall, error_of, raise_for
from minikafka.core.security.scram_credentials import MECHANISMS, Deletion, Upsertion
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

# The iterations of each credential, by the name of its mechanism.
ScramIterations = Mapping[str, int]


def describe_credentials(
    users: Iterable[str],
) -> Call[dict[str, ScramIterations | KafkaError]]:
    """Build DescribeUserScramCredentials. No users describe all that have a credential."""

    def read(
        response: DescribeUserScramCredentialsResponse,
    ) -> dict[str, ScramIterations | KafkaError]:
        raise_for(response.error_code, response.error_message)
        found: dict[str, ScramIterations | KafkaError] = {}
        for row in response.results:
            error = error_of(row.error_code, row.error_message)
            infos = [info for info in row.credential_infos if info.mechanism in MECHANISMS]
            found[row.user] = error or {
                MECHANISMS[info.mechanism].kafka_name: info.iterations for info in infos
            }
        return found

    rows = [UserName(user) for user in users]
    return Call(DescribeUserScramCredentialsRequest(rows or None), read)


def alter_credentials(
    deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> ControllerCall[dict[str, KafkaError | None]]:
    """Build AlterUserScramCredentials. The result has the error of each user, None after a
    success."""

    def read(response: AlterUserScramCredentialsResponse) -> dict[str, KafkaError | None]:
        errors = {row.user: error_of(row.error_code, row.error_message) for row in response.results}
        for error in errors.values():
            if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
                raise error  # of the whole request; it is sent to the next controller
        return errors

    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion(row.user, row.mechanism) for row in deletions],
        [ScramCredentialUpsertion(*row) for row in upsertions],
    )
    return ControllerCall(request, read)
