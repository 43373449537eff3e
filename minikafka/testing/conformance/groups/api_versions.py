"""What a connection begins with: which versions of which APIs the broker has."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import decode_response
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.connection import frame
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import Subject

API_VERSIONS = ApiKey.API_VERSIONS
TOO_NEW = 100
SOFTWARE = {"client_software_name": "conformance", "client_software_version": "1"}
# What a producer and a consumer with assigned partitions cannot do without.
CORE = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.LIST_OFFSETS, API_VERSIONS)


async def _ask_too_new(s: Subject) -> ApiVersionsResponse:
    connection = await s.connected(s.cluster.bootstrap)
    data = bytearray(frame(API_VERSIONS, 3, **SOFTWARE))
    data[6:8] = TOO_NEW.to_bytes(2, "big")
    return decode_response(ApiVersionsResponse, 0, await connection.exchange(bytes(data)))[1]


@check("KIP-35")
async def version_0_is_answered(s: Subject) -> None:
    """A client that does not know the broker could not begin."""
    accepted(await s.ask(API_VERSIONS, (0, 0)))


@check("KIP-35")
async def each_API_is_listed_once_with_a_range(s: Subject) -> None:
    """A client would choose a version that the broker does not have."""
    listed = (await s.ask(API_VERSIONS)).api_keys
    keys = [each.api_key for each in listed]
    expect("the number of different APIs", len(set(keys)), len(keys))
    wrong = [each.api_key for each in listed if not 0 <= each.min_version <= each.max_version]
    expect("the list of APIs with a wrong range", wrong, [])


@check("KIP-35")
async def what_a_producer_and_a_consumer_need_is_listed(s: Subject) -> None:
    """A client would refuse to work with the broker."""
    missing = [key.api_name for key in CORE if key not in s.cluster.offered]
    expect("the list of missing APIs", missing, [])


@check("KIP-35")
async def all_versions_list_the_same(s: Subject) -> None:
    """Two clients of one broker would have different APIs."""
    found = set()
    for version in s.all_versions(API_VERSIONS):
        fields = SOFTWARE if version >= 3 else {}
        listed = (await s.ask(API_VERSIONS, (version, version), **fields)).api_keys
        # Version 3 and older of Kafka 4 hide one feature, but no API.
        found.add(frozenset((each.api_key, each.min_version, each.max_version) for each in listed))
    expect("the number of different lists", len(found), 1)


@check("KIP-35, ApiVersionsRequest")
async def a_newer_version_is_refused_in_version_0(s: Subject) -> None:
    """A client that is newer than the broker could not fall back."""
    expect_error((await _ask_too_new(s)).error_code, ErrorCode.UNSUPPORTED_VERSION)


@check("KIP-511")
async def a_refusal_says_which_versions_of_ApiVersions_there_are(s: Subject) -> None:
    """A newer client would have to guess the version to fall back to, and loses a round trip."""
    s.version(API_VERSIONS, 3)
    rows = {each.api_key: each for each in (await _ask_too_new(s)).api_keys}
    expect_true(API_VERSIONS in rows, "the refusal does not list ApiVersions")
    lowest, highest = s.cluster.offered[API_VERSIONS]
    row = rows[API_VERSIONS]
    expect("the range of ApiVersions", (row.min_version, row.max_version), (lowest, highest))


@check("KIP-511")
async def the_connection_goes_on_after_a_refusal(s: Subject) -> None:
    """A newer client would have to connect again, and some give up instead."""
    await _ask_too_new(s)
    accepted(await s.ask(API_VERSIONS, (0, 0)))


@check("KIP-482, ApiVersionsResponse")
async def the_header_of_a_response_has_no_tagged_fields(s: Subject) -> None:
    """A client, which does not know the broker's version yet, would misread the first byte."""
    connection = await s.connected(s.cluster.bootstrap)
    version = s.version(API_VERSIONS, 3)
    answer = await connection.exchange(frame(API_VERSIONS, version, 77, **SOFTWARE))
    expect("the error after the correlation id", bytes(answer[4:6]), b"\0\0")


@check("KIP-511")
async def an_invalid_name_of_the_software_is_refused(s: Subject) -> None:
    """Metrics of the broker by client software would have names that break them."""
    fields = {"client_software_name": "no spaces!", "client_software_version": "1"}
    response = await s.ask(API_VERSIONS, 3, **fields)
    expect_error(response.error_code, ErrorCode.INVALID_REQUEST)


@check("KAFKA-18659")
async def Produce_is_listed_from_version_0_on(s: Subject) -> None:
    """librdkafka would send records uncompressed: it looks for old versions to choose a codec."""
    expect("the lowest version of Produce", s.cluster.offered[ApiKey.PRODUCE][0], 0)


@check("SaslServerAuthenticator, KafkaApis")
async def ApiVersions_can_be_asked_again_later(s: Subject) -> None:
    """A client that asks again after an upgrade of the broker would be disconnected."""
    await s.ask(API_VERSIONS, (0, 0))
    await s.ask(ApiKey.METADATA, topics=[])
    accepted(await s.ask(API_VERSIONS, (0, 0)))


@check("KIP-584")
async def finalized_features_are_among_the_supported_ones(s: Subject) -> None:
    """A client would use a feature that the broker does not have."""
    response = await s.ask(API_VERSIONS, 3, **SOFTWARE)
    supported = {each.name: each for each in response.supported_features}
    for each in response.finalized_features:
        if each.name in supported:  # version 3 hides features whose lowest level is 0 (KAFKA-17011)
            row = supported[each.name]
            fits = row.min_version <= each.max_version_level <= row.max_version
            expect_true(fits, f"{each.name} {each.max_version_level} is not supported")
        else:
            expect_true(s.version(API_VERSIONS) == 3, f"{each.name} is not supported")
