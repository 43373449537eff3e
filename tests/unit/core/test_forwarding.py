"""What is in an envelope, and which controllers take one."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.forwarding import (
    decode_address,
    decode_principal,
    encode_address,
    encode_principal,
    explain_not_controller,
    takes_envelopes,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import Principal
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.messages.api_versions import ApiVersion
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)
from minikafka.protocol.messages.update_features import UpdateFeaturesResponse

MOVED = ErrorCode.NOT_CONTROLLER

NAMES = st.text(max_size=200)


def offered(release: Release) -> list[ApiVersion]:
    newest = {key: release.newest(key) for key in ApiKey}
    return [ApiVersion(key, 0, version) for key, version in newest.items() if version is not None]


@pytest.mark.mission("FWD-3")
@pytest.mark.parametrize("release", Release)
def test_only_a_controller_that_is_newer_than_3_9_takes_envelopes(release: Release) -> None:
    older = (Release.KAFKA_2_0, Release.KAFKA_2_8, Release.KAFKA_3_9)
    assert takes_envelopes(offered(release)) is (release not in older)


@pytest.mark.mission("FWD-3")
@given(key=st.integers(0, 1000), version=st.integers(0, 50))
def test_apis_that_3_9_does_not_have_say_nothing(key: int, version: int) -> None:
    newest = {int(api_key): Release.KAFKA_3_9.newest(api_key) for api_key in ApiKey}
    of_3_9 = newest.get(key)
    expected = of_3_9 is not None and version > of_3_9
    assert takes_envelopes([*offered(Release.KAFKA_3_9), ApiVersion(key, 0, version)]) is expected


@pytest.mark.mission("FWD-2")
def test_a_principal_has_the_bytes_of_kafkas_serializer() -> None:
    """``DefaultKafkaPrincipalBuilder.serialize``: the version, compact strings, a tag section."""
    assert encode_principal(Principal("al")) == b"\0\0\x05User\x03al\0\0"
    assert encode_principal(Principal("al", "User", True)) == b"\0\0\x05User\x03al\x01\0"


@pytest.mark.mission("FWD-2")
@given(name=NAMES, kind=NAMES, by_token=st.booleans())
def test_a_principal_arrives_as_it_was(name: str, kind: str, by_token: bool) -> None:
    found = decode_principal(encode_principal(Principal(name, kind, by_token)))
    assert (found.name, found.type, found.by_token) == (name, kind, by_token)


@pytest.mark.mission("FWD-2")
@pytest.mark.parametrize(
    "garbage", [None, b"", b"\0", b"\0\0", b"\0\1\x05User\x03al\0\0", b"\0\0\7"]
)
def test_garbage_is_no_principal(garbage: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_principal(garbage)


@pytest.mark.mission("FWD-2")
@given(address=st.ip_addresses())
def test_an_address_arrives_as_it_was(address: object) -> None:
    assert ip_address(decode_address(encode_address(str(address)))) in {
        address,
        getattr(address, "ipv4_mapped", None),
    }


def test_hosts_without_an_address_keep_their_names() -> None:
    assert decode_address(encode_address("client-1")) == "client-1"
    assert decode_address(b"\0" * 10 + b"\xff\xff\x7f\0\0\1") == "127.0.0.1"
    with pytest.raises(ValueError, match="codec can't decode"):
        decode_address(b"\xff\0\0")


@pytest.mark.mission("FWD-4")
def test_not_controller_gets_a_reason_wherever_there_is_room_for_one() -> None:
    creation = CreateTopicsResponse(
        topics=[
            CreatableTopicResult("moved", error_code=MOVED),
            CreatableTopicResult("told", error_code=MOVED, error_message="before"),
            CreatableTopicResult("made", error_code=0, error_message=None),
        ]
    )
    explain_not_controller(creation, "why")
    assert [row.error_message for row in creation.topics] == ["why", "before", None]
    election = ElectLeadersResponse(
        error_code=MOVED,
        replica_election_results=[
            ElectLeadersTopicResult("t", [ElectLeadersPartitionResult(0, MOVED, None)])
        ],
    )
    explain_not_controller(election, "why")
    assert election.error_code == MOVED
    assert election.replica_election_results[0].partition_result[0].error_message == "why"
    whole = UpdateFeaturesResponse(error_code=MOVED, error_message=None)
    explain_not_controller(whole, "why")
    assert whole.error_message == "why"
